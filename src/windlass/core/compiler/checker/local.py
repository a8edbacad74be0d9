"""The laws of work on a local site."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from windlass.core.compiler.checker.breaches import Breach, Law, breach, mapping
from windlass.core.compiler.work import Work

_FIELDS = frozenset(
    ("kind", "image", "gpu_milli", "command", "variables", "port", "time_limit", "retries", "grace", "signal")
)
_MAX_GRACE_MS = 3_600_000


def local_breaches(work: Work, manifest: Any) -> Iterator[Breach]:
    if not isinstance(manifest, Mapping):
        yield breach("shape", ("manifest",), type(manifest).__name__, "a mapping")
        return
    for name in sorted(str(name) for name in manifest if name not in _FIELDS):
        yield breach("owned", (name,), manifest[name], "no such field")
    decided: list[tuple[Law, str, Any]] = [
        ("kind", "kind", work.workload),
        ("image", "image", work.image),
        ("gpus", "gpu_milli", min(work.hardware.share, 1000)),
        ("time", "time_limit", work.time_limit),
        ("retries", "retries", work.retries),
    ]
    for law, name, value in decided:
        if manifest.get(name) != value or isinstance(manifest.get(name), bool):
            yield breach(law, (name,), manifest.get(name), value)
    command = manifest.get("command")
    if not isinstance(command, list | tuple) or (work.command and tuple(command) != work.command):
        yield breach("command", ("command",), command, list(work.command))
    yield from _variables(work, mapping(manifest.get("variables")))
    signal = work.checkpoint.signal if work.checkpoint is not None else "TERM"
    if manifest.get("signal") != signal:
        yield breach("time", ("signal",), manifest.get("signal"), signal)
    grace = manifest.get("grace")
    wanted = work.checkpoint.grace if work.checkpoint is not None else None
    if (
        not isinstance(grace, int)
        or not 0 <= grace <= _MAX_GRACE_MS
        or (wanted is not None and grace != wanted)
    ):
        yield breach("time", ("grace",), grace, wanted or f"at most {_MAX_GRACE_MS} ms")


def _variables(work: Work, found: Mapping[str, Any]) -> Iterator[Breach]:
    """Values are not shown: one may be a secret."""
    for name, value in sorted(work.variables.items()):
        if found.get(name) != value:
            yield breach("variable", ("variables", name), "another value or none", "what the author wrote")
    for name in sorted(str(name) for name in found if name not in work.variables):
        if name.startswith("WINDLASS_") or name.endswith("_VISIBLE_DEVICES"):
            yield breach("owned", ("variables", name), "set", "a variable of the platform")
