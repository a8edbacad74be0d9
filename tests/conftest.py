"""What holds for every test: a busy machine is no defect of what is tested."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# Both are wall-clock assertions: how long one example took, and how long it took to make one up.
settings.register_profile("any-machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any-machine")


TIERS = {"oidc", "faults", "kube", "containers"}
"""Folders whose tests start something real that takes long: `make test-NAME` asks for them by `-m NAME`."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    asked = config.option.markexpr or ""
    for item in items:
        if (tier := _tier(item)) is not None:
            item.add_marker(tier)
    left_out = [item for item in items if (tier := _tier(item)) is not None and tier not in asked]
    if left_out:
        items[:] = [item for item in items if item not in left_out]
        config.hook.pytest_deselected(items=left_out)


def _tier(item: pytest.Item) -> str | None:
    return next((name for name in TIERS if Path(__file__).parent / name in item.path.parents), None)
