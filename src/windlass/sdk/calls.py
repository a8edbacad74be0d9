"""Every request the API takes, as a value: method, path, body and the type of the answer.

The blocking and the asynchronous client send the same values, so a path is written down once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import NoneType
from typing import Any, Generic, TypeVar

import msgspec

from windlass.contracts import api
from windlass.core.errors import Invalid
from windlass.sdk.http1 import target

T = TypeVar("T")
Document = Mapping[str, Any]

PAGE = 500  # the most the API gives at once

# A document's 0.25 is read as an exact Decimal, and is a number again on the wire.
_DOCUMENTS = msgspec.json.Encoder(decimal_format="number")


class Call(msgspec.Struct, Generic[T], frozen=True, kw_only=True):
    """One request. `key` and `if_match` become headers; a write without a key is given one."""

    answer: type[T]
    method: str
    path: str
    body: bytes | None = None
    key: str | None = None
    if_match: str | None = None

    @property
    def writes(self) -> bool:
        return self.method != "GET"


def get(answer: type[T], *segments: str, **query: object) -> Call[T]:
    return Call(answer=answer, method="GET", path=target(("v1", *segments), query))


def apply(
    documents: Document | Sequence[Document], *, dry_run: bool, if_match: int | str | None, key: str | None
) -> Call[api.ApplyAnswer]:
    body = dict(documents) if isinstance(documents, Mapping) else [dict(one) for one in documents]
    return Call(
        answer=api.ApplyAnswer,
        method="POST",
        path=target(("v1", "apply"), {"dryRun": dry_run}),
        body=_DOCUMENTS.encode(body),
        key=key,
        if_match=None if if_match is None else str(if_match),
    )


# --- Catalog documents ------------------------------------------------------------------------


def plural(kind: str) -> str:
    """`HardwareProfile` -> `hardwareprofiles`; a plural stays as it is."""
    name = kind.lower()
    if name.endswith("s"):
        return name
    return f"{name[:-1]}ies" if name.endswith("y") else f"{name}s"


def documents(
    kind: str, *, tenant: str | None, revision: int | None, limit: int, cursor: str | None
) -> Call[api.DocumentList]:
    return get(api.DocumentList, plural(kind), limit=limit, cursor=cursor, tenant=tenant, revision=revision)


def document(kind: str, name: str, *, tenant: str | None, revision: int | None) -> Call[api.Document]:
    return get(api.Document, plural(kind), name, tenant=tenant, revision=revision)


def delete_document(
    kind: str, name: str, *, tenant: str | None, if_match: int | None, key: str | None
) -> Call[None]:
    return Call(
        answer=NoneType,
        method="DELETE",
        path=target(("v1", plural(kind), name), {"tenant": tenant}),
        key=key,
        if_match=None if if_match is None else str(if_match),
    )


def migrate(
    type: str, other: str, *, dry_run: bool, cursor: str | None, where: Mapping[str, str | None]
) -> Call[api.Migration]:
    query = {"to": other, "dryRun": dry_run, "cursor": cursor, **where}
    return Call(
        answer=api.Migration,
        method="POST",
        path=target(("v1", "componenttypes", type, "migrate"), query),
        body=b"",
    )


# --- Components -------------------------------------------------------------------------------


def component_segments(path: str) -> tuple[str, ...]:
    parts = path.split("/")
    if len(parts) != 3 or not all(parts):
        raise Invalid(
            f"{path!r} does not name a component",
            remedy="write it as project/env/name, such as nlp/prod/sft-run",
        )
    project, env, name = parts
    return ("projects", project, "components", env, name)


def component(path: str) -> Call[api.Component]:
    return get(api.Component, *component_segments(path))


def components(
    *,
    project: str | None,
    env: str | None,
    tenant: str | None,
    phase: str | None,
    name: str | None,
    limit: int,
    cursor: str | None,
) -> Call[api.ComponentList]:
    return get(
        api.ComponentList,
        "components",
        project=project,
        env=env,
        tenant=tenant,
        phase=phase,
        name=name,
        limit=limit,
        cursor=cursor,
    )


def delete_component(path: str, *, key: str | None) -> Call[None]:
    segments = component_segments(path)
    return Call(answer=NoneType, method="DELETE", path=target(("v1", *segments), {}), key=key)


def action(path: str, name: str, value: object, *, key: str | None) -> Call[api.Component]:
    segments = component_segments(path)
    body = {} if value is None else {"value": value}
    return Call(
        answer=api.Component,
        method="POST",
        path=target(("v1", *segments, "actions", name), {}),
        body=msgspec.json.encode(body),
        key=key,
    )


def decision_of(path: str) -> Call[api.Decision]:
    return get(api.Decision, *component_segments(path), "decision")


def explanation(path: str) -> Call[api.Explanation]:
    return get(api.Explanation, *component_segments(path), "explanation")


def logs(path: str, *, worker: int, follow: bool, tail_bytes: int | None, attempt: int | None) -> Call[bytes]:
    segments = component_segments(path)
    return get(bytes, *segments, "logs", worker=worker, follow=follow, tail=tail_bytes, attempt=attempt)


# --- The platform -----------------------------------------------------------------------------


def event_stream(since: int | None) -> Call[bytes]:
    return get(bytes, "events", since=since, watch=True)


def post(answer: type[T], body: msgspec.Struct, *segments: str) -> Call[T]:
    return Call(
        answer=answer, method="POST", path=target(("v1", *segments), {}), body=msgspec.json.encode(body)
    )


def delete(*segments: str, **query: object) -> Call[None]:
    return Call(answer=NoneType, method="DELETE", path=target(("v1", *segments), query))
