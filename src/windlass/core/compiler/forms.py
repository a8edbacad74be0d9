"""The form of what documents say for each orchestrator, before anything in it is evaluated.

Only names are looked at: a value may be an expression, and what it gives shows when it is rendered.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal

from windlass.core.documents.problems import Path, Problems, dotted, kind_of, meant, shown
from windlass.core.documents.scalars import Target

Part = Literal["templates", "patches"]

# By part and orchestrator: the fields there are, and whether each is a list or a mapping.
FORMS: Mapping[tuple[str, Target], Mapping[str, type]] = {
    ("templates", "kubernetes"): {"objects": list},
    ("templates", "slurm"): {"options": dict, "variables": dict, "command": list},
    ("templates", "local"): {"command": list, "variables": dict},
    ("patches", "kubernetes"): {
        "pod": dict,
        "container": dict,
        "podLabels": dict,
        "podAnnotations": dict,
        "labels": dict,
        "annotations": dict,
        "workload": dict,
        "objects": list,
    },
    ("patches", "slurm"): {"options": dict, "variables": dict},
    ("patches", "local"): {"variables": dict},
}


def check_written(
    part: Part, target: Target, written: Mapping[str, Any], path: Path, problems: Problems
) -> None:
    known = FORMS[part, target]
    for name, value in written.items():
        where = (*path, name)
        if name not in known:
            problems.add(
                where,
                f"{dotted(where)} is not a field of {part} for {target}",
                remedy=meant(name, known),
                value=shown(name),
                limit=", ".join(known),
            )
        elif not isinstance(value, known[name]) and not _expression(value):
            what = "a list" if known[name] is list else "a mapping"
            problems.add(
                where,
                f"{dotted(where)} must be {what}, not {kind_of(value)}",
                remedy=f"write it as {what}, or as an expression that gives one",
                value=shown(value),
            )
        elif name in ("command", "variables"):
            _texts(value, where, problems)


def misformed(part: Part, target: Target, rendered: Any) -> Iterator[str]:
    """What came out of expressions in another form than its place has, in words."""
    if not isinstance(rendered, Mapping):
        yield f"{target} is not a mapping"
        return
    for name, value in rendered.items():
        wanted = FORMS[part, target].get(name)
        inside = _inside(value)
        if wanted is None or not isinstance(value, wanted):
            form = "a list" if wanted is list else "a mapping"
            yield f"{target}.{name} is {kind_of(value)}, and not {form}"
        elif name in ("command", "variables") and any(isinstance(one, dict | list) for one in inside):
            yield f"{target}.{name} holds something else than text"
        elif name == "objects" and not all(isinstance(one, dict) for one in inside):
            yield f"{target}.{name} holds something else than objects"


def _inside(value: Any) -> list[Any]:
    return list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else []


def _texts(value: Any, path: Path, problems: Problems) -> None:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        if not isinstance(item, str):
            where = (*path, key)
            problems.add(
                where,
                f"{dotted(where)} must be text, not {kind_of(item)}",
                remedy="put it in quotes",
                value=shown(item),
            )


def _expression(value: Any) -> bool:
    return isinstance(value, str) and value.startswith("${")
