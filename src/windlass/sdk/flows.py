"""What takes more than one request: all pages of a list, waiting for a phase, a plan's answer.

A flow is a generator that yields the next step (a request or a pause) and is sent its result.
The blocking and the asynchronous client run the same flows, each in its own way.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any, Literal, NamedTuple, TypeVar

import msgspec

from windlass.contracts import api
from windlass.core.errors import Conflict, Invalid, Rejected, Unavailable
from windlass.sdk import calls
from windlass.sdk.calls import PAGE, Call

T = TypeVar("T")


class Pause(NamedTuple):
    seconds: float


Flow = Generator[Call[Any] | Pause, Any, T]
Clock = Callable[[], float]

FINAL = "final"
"""What `wait` takes, besides a phase, to mean: however it ends."""

_PROGRESS = ("Pending", "Admitted", "Starting", "Running", "Succeeded")
_FIRST_POLL_S = 0.1
_LONGEST_POLL_S = 2.0
# A server that restarts is back well within this; longer is worth telling the caller.
_PATIENCE_S = 30.0


def plan(documents: calls.Document | Sequence[calls.Document]) -> Flow[api.ApplyAnswer]:
    """A rejection is the answer to a plan, not its failure."""
    call = calls.apply(documents, dry_run=True, if_match=None, key=None)
    try:
        answer: api.ApplyAnswer = yield call
    except Rejected as rejected:
        results: list[api.Result] = rejected.extra.get("results") or []
        if not results:
            raise
        revision = max((one.decision.catalog_revision for one in results if one.decision), default=0)
        return api.ApplyAnswer(results=results, revision=revision, dry_run=True)
    return answer


def documents(
    kind: str, *, tenant: str | None, revision: int | None, limit: int | None
) -> Flow[api.DocumentList]:
    def page(size: int, cursor: str | None) -> Call[Any]:
        return calls.documents(kind, tenant=tenant, revision=revision, limit=size, cursor=cursor)

    items, last = yield from _pages(page, limit)
    return api.DocumentList(items=items, revision=last.revision, cursor=last.cursor)


def components(
    *,
    project: str | None,
    env: str | None,
    tenant: str | None,
    phase: str | None,
    name: str | None,
    limit: int | None,
) -> Flow[api.ComponentList]:
    def page(size: int, cursor: str | None) -> Call[Any]:
        return calls.components(
            project=project, env=env, tenant=tenant, phase=phase, name=name, limit=size, cursor=cursor
        )

    items, last = yield from _pages(page, limit)
    return api.ComponentList(items=items, cursor=last.cursor)


def listing(answer: type[T], segment: str, limit: int | None, **query: object) -> Flow[T]:
    """Decisions, usage, audit: lists of one shape."""

    def page(size: int, cursor: str | None) -> Call[Any]:
        return calls.get(answer, segment, limit=size, cursor=cursor, **query)

    items, last = yield from _pages(page, limit)
    whole: T = msgspec.structs.replace(last, items=items)
    return whole


def events(segments: tuple[str, ...], since: int | None, limit: int | None) -> Flow[api.EventList]:
    """Oldest first; the next page begins after the last event of this one."""
    items: list[api.Event] = []
    after = since
    while True:
        size = PAGE if limit is None else min(PAGE, limit - len(items))
        page: api.EventList = yield calls.get(api.EventList, *segments, since=after, limit=size)
        items += page.items
        if len(page.items) < size or (limit is not None and len(items) >= limit):
            return api.EventList(items=items, cursor=page.cursor)
        after = page.items[-1].id


def migrate(type: str, other: str, *, dry_run: bool, where: Mapping[str, str | None]) -> Flow[api.Migration]:
    items: list[api.Migrated] = []
    cursor: str | None = None
    while True:
        page: api.Migration = yield calls.migrate(type, other, dry_run=dry_run, cursor=cursor, where=where)
        items += page.items
        cursor = page.cursor
        if cursor is None:
            return msgspec.structs.replace(page, items=items)


def wait(path: str, phase: str, timeout_s: float | None, clock: Clock) -> Flow[api.Component]:
    """Asks again until the component is there, ended elsewhere, or the time is over."""
    if phase != FINAL and phase not in (*_PROGRESS, *api.LIVE_PHASES, *api.FINAL_PHASES):
        raise Invalid(f"{phase!r} is not a phase", remedy=f"use one of {', '.join(_all_phases())}")
    started = last_answer = clock()
    pause_s = _FIRST_POLL_S
    now_in = "unknown"
    while True:
        try:
            component: api.Component = yield calls.component(path)
        except Unavailable:
            if clock() - last_answer > _PATIENCE_S:
                raise
        else:
            last_answer = clock()
            now_in = component.status.phase
            match standing(now_in, phase):
                case "reached":
                    return component
                case "missed":
                    raise Conflict(f"{path} ended as {now_in}, not {phase}", extra={"component": component})
        if timeout_s is not None and clock() - started + pause_s > timeout_s:
            raise Unavailable(
                f"{path} is {now_in}, not yet {phase}, after {timeout_s:g} s",
                remedy=f"`windlass why {path}` says what it waits for",
            )
        yield Pause(pause_s)
        pause_s = min(pause_s * 1.5, _LONGEST_POLL_S)


def standing(phase: str, wanted: str) -> Literal["reached", "missed", "not yet"]:
    """Work that succeeded has passed every phase on its way; a short job may run between two looks."""
    if phase == wanted or (wanted == FINAL and phase in api.FINAL_PHASES):
        return "reached"
    if wanted in _PROGRESS and phase in _PROGRESS and _PROGRESS.index(phase) > _PROGRESS.index(wanted):
        return "reached"
    return "missed" if phase in api.FINAL_PHASES else "not yet"


def _all_phases() -> list[str]:
    return [*sorted({*api.LIVE_PHASES, *api.FINAL_PHASES}), FINAL]


def _pages(page: Callable[[int, str | None], Call[Any]], limit: int | None) -> Flow[tuple[list[Any], Any]]:
    """All items up to `limit`, and the last page for what else it says."""
    items: list[Any] = []
    cursor: str | None = None
    while True:
        size = PAGE if limit is None else min(PAGE, limit - len(items))
        answer = yield page(size, cursor)
        items += answer.items
        cursor = answer.cursor
        if not cursor or (limit is not None and len(items) >= limit):
            return items, answer
