"""A refusal does not spread the secret it is about."""

from __future__ import annotations

from typing import Any

import pytest
from tests.control.documents import intent
from tests.core.admission.cases import codes, document, granting, judged, trait

TOKEN = "gh" + "p_" + "a1" * 18
SHOWS = trait("shows", parameters={"type": "object"})


@pytest.mark.parametrize(
    "spec",
    [
        {"command": ["git", "clone", f"https://x:{TOKEN}@github.com/acme/x"]},
        {"type": "inference-service", "parameters": {"port": 8000, "note": {"deep": [TOKEN]}}},
        {"traits": [{"name": "shows", "parameters": {"t": TOKEN}}]},
        {"variables": {"AWS_ACCESS_KEY_ID": "AKIA" + "A" * 16, "AWS_SECRET_ACCESS_KEY": "w/+1" * 10}},
    ],
)
def test_it_is_found_wherever_an_author_writes(spec: dict[str, Any]) -> None:
    assert codes(intent("nlp/prod/job", 1, **spec), SHOWS, granting("shows")) == ["secret.in-clear"]


def test_a_decision_never_repeats_a_secret_whatever_else_is_wrong() -> None:
    """Not even by rules whose words repeat what was written: schemas, policies, forged labels."""
    wrong = intent("nlp/prod/job", 1, type="inference-service", parameters={"port": TOKEN, "unknown": TOKEN})
    wrong["metadata"]["labels"] = {"windlass.dev/tenant": TOKEN, "mine": TOKEN}
    wrong["spec"] |= {"volumes": TOKEN, "variables": {"A": TOKEN}, "command": [TOKEN]}
    telling = [{"name": "telling", "require": "false", "message": "${spec.variables['A']}"}]
    told = judged(wrong, document("Policy", "narrow", {"rules": telling})).reasons
    assert {reason.rule for reason in told} == {"secret.in-clear"}
    assert {"spec.parameters.port", "spec.variables.A", "spec.command[0]", "metadata.labels.mine"} <= {
        reason.field for reason in told
    }
    assert TOKEN not in repr(told)
