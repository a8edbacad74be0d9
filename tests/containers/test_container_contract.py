"""What the port promises, asked of a site whose jobs are containers."""

from __future__ import annotations

from tests.contract.orchestrators.test_orchestrator_contract import *  # noqa: F403 - the same suite
