"""Secrets that an author wrote out. An intent is stored, listed, backed up and compiled into manifests: what
is in it is not secret any more."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from windlass.core.admission.case import Case
from windlass.core.documents.problems import dotted
from windlass.core.errors import Reason
from windlass.core.secret_forms import secret_in, secrets_within

IN_CLEAR = "secret.in-clear"


def no_secret_in_clear(case: Case) -> Iterator[Reason]:
    """Nothing in the intent is a secret that its form gives away, such as a private key or a known token."""
    intent, spec = case.intent, case.intent.spec
    written: dict[str, Any] = {
        "command": spec.command,
        "variables": spec.variables,
        "traits": [{"parameters": use.parameters} for use in spec.traits],
        "parameters": spec.parameters,
    }
    metadata = {"labels": intent.labels, "annotations": intent.annotations}
    for path, what in (*secrets_within(metadata, ("metadata",)), *secrets_within(written, ("spec",))):
        yield _reason(dotted(path), what)
    for found in intent.overreach:
        if (secret := secret_in(found.value)) is not None:
            yield _reason(found.field, secret)


def _reason(field: str, what: str) -> Reason:
    """Never with the value: decisions are stored and shown."""
    return Reason(
        rule=IN_CLEAR,
        field=field,
        value=what,
        limit="a reference",
        message=f"{field} holds {what}; what is in an intent is stored, listed and backed up",
        remedy="take it out, and make a new one: this one has been sent. Name it with the trait secret on a"
        " Kubernetes site; elsewhere let the program read it from a file of the site",
    )
