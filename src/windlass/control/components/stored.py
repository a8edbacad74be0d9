"""Intents as they are stored with their components."""

from __future__ import annotations

from windlass.control.db.port import Row
from windlass.core.documents.shape import read
from windlass.core.documents.tree import read_json
from windlass.core.errors import Reason
from windlass.core.intent import Intent, IntentSpec


def stored_intent(row: Row) -> Intent:
    """The intent of a stored component; it was valid when it came in."""
    body = read_json(row["body"])[0].data
    problems: list[Reason] = []
    spec = read(IntentSpec, body["spec"], "spec", problems)
    assert spec is not None and not problems, f"a stored intent does not parse: {problems}"
    return Intent(row["name"], row["project"], spec, body["labels"], body["annotations"])
