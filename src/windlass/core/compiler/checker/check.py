"""The last look before work leaves: does what the compiler made keep every law?

The checker shares no code with the compiler. It knows `Work`, what was decided, and reads manifests as a
stranger would; both would have to be wrong in the same way for a broken law to pass. What it does not know
is a breach: a field that Kubernetes adds tomorrow is not open by accident.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

from windlass.core.compiler.checker.breaches import NOTHING_MORE, Allowed, Breach, Path, breach
from windlass.core.compiler.checker.local import local_breaches
from windlass.core.compiler.checker.objects import object_breaches
from windlass.core.compiler.checker.script import read_script
from windlass.core.compiler.checker.slurm import slurm_breaches
from windlass.core.compiler.work import Work
from windlass.core.secret_forms import secret_in

_SHORT = 6
"""Characters. A shorter secret is looked for as a whole value only: it would be part of innocent ones."""


def check(work: Work, target: str, manifests: Any, allowed: Allowed = NOTHING_MORE) -> tuple[Breach, ...]:
    """Every breach, with its place. An empty answer: it may leave."""
    match target:
        case "kubernetes":
            found = object_breaches(work, manifests, allowed)
        case "slurm":
            found = slurm_breaches(work, manifests, allowed.runs)
        case "local":
            found = local_breaches(work, manifests)
        case _:
            found = iter([breach("shape", ("target",), target, "kubernetes, slurm or local")])
    return (*found, *_secrets(_unquoted(work, target, manifests), allowed.clear))


def _unquoted(work: Work, target: str, manifests: Any) -> Any:
    """With a script also as a shell reads it: quotes inside a secret would hide it."""
    script = manifests.get("script") if target == "slurm" and isinstance(manifests, dict) else None
    if not isinstance(script, str):
        return manifests
    read, _ = read_script(script, ranked=work.workload == "job")
    return {**manifests, "command": read.command, "variables": read.variables}


def _secrets(tree: Any, clear: frozenset[str]) -> Iterator[Breach]:
    """Anywhere, also inside longer text and as base64, the way ConfigMaps hold bytes; and what is known for a
    secret by its form."""
    if not clear and secret_in(str(tree)) is None:  # one look, where there is nothing to find
        return
    values = {value for value in clear if value}
    encoded = {base64.b64encode(value.encode("utf-8", "surrogatepass")).decode() for value in values}
    inside = [value for value in values | encoded if len(value) >= _SHORT]
    for path, text in _texts(tree, ()):
        if text in values or any(value in text for value in inside):
            yield breach("secret", path, "text that holds the value of a secret", "a reference to it")
        elif (what := secret_in(text)) is not None:
            yield breach("secret", path, f"text that holds {what}", "a reference to it")


def _texts(tree: Any, path: Path) -> Iterator[tuple[Path, str]]:
    if isinstance(tree, str):
        yield path, tree
    elif isinstance(tree, dict):
        for key, value in tree.items():
            yield (*path, "(a key)"), str(key)
            yield from _texts(value, (*path, str(key)))
    elif isinstance(tree, list | tuple):
        for at, value in enumerate(tree):
            yield from _texts(value, (*path, at))
