"""A Component document -> an Intent.

What the platform owns is looked for first, before anything is called unknown: an author who writes
`hostNetwork` has made no typing mistake, and must hear that it is not theirs to decide. Those fields
and labels are taken out and kept as overreach; the rest is then read as strictly as any document.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from windlass.core.documents.overreach import told
from windlass.core.documents.problems import MAX_PROBLEMS, Located, Path, Problems, dotted, shown
from windlass.core.documents.scalars import Environment, LabelKey, LabelValue, Name, Natural, Text
from windlass.core.documents.shape import read
from windlass.core.intent import PLATFORM_OWNED_FIELDS, RESERVED_LABEL_PREFIXES, Intent, IntentSpec, Overreach

MAX_ENVIRONMENT = 1024 * 1024
"""Characters of command and variables together: what a process can be given at its start."""

_OWNED = frozenset(PLATFORM_OWNED_FIELDS)
_RESERVED = tuple(prefix.rstrip("/") for prefix in RESERVED_LABEL_PREFIXES)


@dataclass(frozen=True, slots=True)
class ComponentMetadata:
    """`tenant` and `env` may be repeated here, as `get` prints them."""

    name: Name
    project: Name
    tenant: Name | None = None
    env: Environment | None = None
    labels: Mapping[LabelKey, LabelValue] = field(default_factory=dict)
    annotations: Mapping[LabelKey, Text] = field(default_factory=dict)
    version: Natural | None = None


Reached = list[tuple[Path, Overreach]]


def read_component(
    metadata: Any, spec: Any, source: Located, overreach: Reached, problems: Problems
) -> Intent | None:
    own_metadata = _without_reserved(metadata, overreach, source)
    own_spec = _without_owned(spec, overreach, source)
    known = read(ComponentMetadata, {} if own_metadata is None else own_metadata, ("metadata",), problems)
    body = read(IntentSpec, {} if own_spec is None else own_spec, ("spec",), problems)
    if body is not None:
        _check_spec(body, problems)
    if known is None or body is None:
        return None
    if known.env is not None and known.env != body.env:
        problems.add(
            ("metadata", "env"),
            f"metadata.env is {known.env} but spec.env is {body.env}",
            remedy="leave metadata.env out",
            value=known.env,
            limit=body.env,
        )
    return Intent(
        name=known.name,
        project=known.project,
        spec=body,
        labels=known.labels,
        annotations=known.annotations,
        overreach=tuple(found for _, found in overreach),
        tenant=known.tenant,
        version=known.version,
    )


def tell_overreach(overreach: Reached, problems: Problems) -> None:
    """Of a document that is malformed besides: its author should hear of everything at once."""
    for path, found in overreach:
        reason = told(found)
        problems.add(
            path,
            reason.message,
            remedy=reason.remedy,
            value=reason.value,
            limit=reason.limit,
            rule=reason.rule,
        )


def is_reserved(key: str) -> bool:
    """Whether a label key is under a prefix of the platform's, or under a subdomain of one."""
    prefix, slash, _ = key.partition("/")
    domain = prefix.lower()
    return bool(slash) and any(domain == own or domain.endswith(f".{own}") for own in _RESERVED)


def _without_reserved(metadata: Any, overreach: Reached, source: Located) -> Any:
    """Reserved keys are taken out before their form is looked at: `Cost/x` is forged, not misspelt."""
    if type(metadata) is not dict:
        return metadata
    changed: dict[str, Any] = {}
    for part in ("labels", "annotations"):
        own = metadata.get(part)
        if type(own) is not dict:
            continue
        forged = [key for key in own if is_reserved(key)]
        if forged:
            changed[part] = {key: value for key, value in own.items() if key not in set(forged)}
            for key in forged[:MAX_PROBLEMS]:
                overreach.append(_overreach("label.reserved", ("metadata", part, key), own[key], source))
    return {**metadata, **changed} if changed else metadata


def _without_owned(spec: Any, overreach: Reached, source: Located) -> Any:
    if type(spec) is not dict:
        return spec
    taken = [name for name in spec if name in _OWNED]
    found: list[tuple[Path, Any]] = [(("spec", name), spec[name]) for name in taken]
    if "overrides" in spec:
        smuggled = list(_owned_inside(spec["overrides"], ("spec", "overrides")))
        if smuggled:
            taken.append("overrides")
            found += smuggled
    if not taken:
        return spec
    for path, value in found[:MAX_PROBLEMS]:
        overreach.append(_overreach("field.platform-owned", path, value, source))
    return {name: value for name, value in spec.items() if name not in taken}


def _owned_inside(value: Any, path: Path) -> Iterator[tuple[Path, Any]]:
    """Every platform-owned name at any depth, in order; not what is below one."""
    if type(value) is dict:
        for name, item in value.items():
            if name in _OWNED:
                yield (*path, name), item
            else:
                yield from _owned_inside(item, (*path, name))
    elif type(value) is list:
        for at, item in enumerate(value):
            yield from _owned_inside(item, (*path, at))


def _overreach(rule: str, path: Path, value: Any, source: Located) -> tuple[Path, Overreach]:
    return path, Overreach(rule, dotted(path), shown(value), source.line(path))


def _check_spec(spec: IntentSpec, problems: Problems) -> None:
    if spec.gpus <= 0:
        problems.add(
            ("spec", "gpus"),
            "spec.gpus is 0; a component holds at least one unit of its profile",
            remedy="write gpus: 1, or more",
            value="0",
            limit="1",
        )
    if spec.time_limit == 0:
        problems.add(
            ("spec", "timeLimit"),
            "spec.timeLimit is 0; work that may not run for any time cannot run",
            remedy="write how long it may run, such as 4h, or leave it out",
            value="0s",
            limit="1s",
        )
    if not spec.command and not spec.variables:
        return
    size = sum(map(len, spec.command)) + sum(len(k) + len(v) for k, v in spec.variables.items())
    if size > MAX_ENVIRONMENT:
        problems.add(
            ("spec", "variables"),
            f"command and variables have {size} characters together; {MAX_ENVIRONMENT} are allowed",
            remedy="put large values into the image or a mounted file",
            value=str(size),
            limit=str(MAX_ENVIRONMENT),
        )
