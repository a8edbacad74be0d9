"""Handlers that read the platform as a whole: queue, quota, money, events, nodes."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import aclosing
from itertools import islice
from typing import TYPE_CHECKING

import msgspec

from windlass import __version__
from windlass.contracts import api
from windlass.control import slo
from windlass.control.billing import coverage
from windlass.control.billing.costs import costs
from windlass.control.components.hearsay import heard
from windlass.control.components.quota import quota_answer
from windlass.control.db import components, documents, events, ledger
from windlass.control.db.narrow import Place
from windlass.control.db.port import EventRow, Row, Tx
from windlass.control.gateway.request import MAX_EVENT, MAX_PAGE, MAX_WHOLE, Request, Response, Stream, answer
from windlass.control.identity.scopes import Scope
from windlass.control.scheduler.fold import Known
from windlass.core.errors import BadRequest, NotFound
from windlass.core.metering import Holding, gpu_hours, held
from windlass.core.scheduling.engine import State, cause_of, running, waiting_in_order
from windlass.core.scheduling.model import Running, Waiting
from windlass.core.units import Ms, format_duration, format_gpus, format_timestamp, parse_duration
from windlass.runtime.metrics import EVENT_WATCHERS

if TYPE_CHECKING:
    from windlass.control.app import ControlPlane

_LAST = "\x7f"  # sorts after every id
_PAGE = 500
_ESTIMATED = 100  # queue entries that get an estimate; those near the front share one replay


class Operations:
    def __init__(self, plane: ControlPlane) -> None:
        self._plane = plane
        self._last_written: tuple[Sequence[EventRow], bytes] = (), b""

    # --- queue and quota ------------------------------------------------------------------------

    async def queue(self, request: Request) -> Response:
        """Everybody's order, but only the entries that the asker may see."""
        limit, state = request.limit, self._plane.scheduler.state
        mine = self._in_place(request)
        seen = ((ahead, item) for ahead, item in _everybody(state) if item.id in mine)
        waiting = [
            self._waiting(request.scope, item, ahead, guess=index < _ESTIMATED)
            for index, (ahead, item) in enumerate(islice(seen, limit))
        ]
        holding = [item for item in running(state) if item.id in mine]
        holding.sort(key=lambda item: (item.since, item.id))
        return answer(
            api.Queue(
                waiting=waiting,
                running=[self._running(item) for item in holding[:limit]],
                waiting_total=sum(not one.holds for one in mine.values()),
                running_total=len(holding),
            )
        )

    def _in_place(self, request: Request) -> Mapping[str, Known]:
        """Everything that waits or runs, of what the asker may see and asked for."""
        scope, place, known = request.scope, request.place, self._plane.scheduler.known
        if scope.tenant is None and place == Place():
            return known
        return {
            path: one for path, one in known.items() if place.has(scope, one.tenant, *path.split("/")[:2])
        }

    def _waiting(self, scope: Scope, item: Waiting, ahead: int, *, guess: bool) -> api.QueueEntry:
        plane = self._plane
        cause = cause_of(plane.scheduler.state, item.id)
        starts = plane.scheduler.forecast.starts(item.id, ahead) if guess else None
        return api.QueueEntry(
            component=item.id,
            tenant=plane.scheduler.known[item.id].tenant,
            phase="Pending",
            gpus=format_gpus(item.shape.total),
            gpu_class=item.shape.gpu_class,
            workers=item.shape.workers,
            priority=item.shape.priority,
            submitted_at=format_timestamp(item.submitted),
            ahead=None if cause is not None and cause.never else ahead,  # it holds no position
            cause=cause.cause if cause else "starting",
            message=heard(plane, scope, cause.message) if cause else "",
            estimated_start=format_timestamp(starts) if starts is not None else None,
        )

    def _running(self, item: Running) -> api.QueueEntry:
        return api.QueueEntry(
            component=item.id,
            tenant=self._plane.scheduler.known[item.id].tenant,
            phase="Running",
            gpus=format_gpus(item.shape.total),
            gpu_class=item.shape.gpu_class,
            workers=item.shape.workers,
            priority=item.shape.priority,
            submitted_at=format_timestamp(item.submitted),
            nodes=sorted({worker.node for worker in item.placement.workers}),
            since=format_timestamp(item.since),
        )

    async def quota(self, request: Request) -> Response:
        return answer(await quota_answer(self._plane, request.scope, request.place))

    # --- money ----------------------------------------------------------------------------------

    async def costs(self, request: Request) -> Response:
        by = request.choice("by", ("tenant", "project", "component")) or "component"
        return answer(await costs(self._plane, request.scope, by, request.place))

    async def coverage(self, request: Request) -> Response:
        window = _window(request, "30d", coverage.LONGEST)
        return answer(await coverage.covered(self._plane, request.scope, window, request.place))

    async def usage(self, request: Request) -> Response:
        limit, now = request.limit, self._plane.clock()

        async def load(tx: Tx) -> list[Holding]:
            return await ledger.holdings_page(tx, request.after(), limit + 1, request.place)

        found = await self._plane.store.read(request.scope, load)
        items = [_usage(holding, now) for holding in found[:limit]]
        return answer(
            api.UsageList(items=items, cursor=request.cursor(items[-1].id) if len(found) > limit else None)
        )

    # --- decisions, events, audit ---------------------------------------------------------------

    async def decisions(self, request: Request) -> Response:
        limit, place, component = request.limit, request.place, request.query.get("component")

        async def load(tx: Tx) -> Sequence[Row]:
            before = request.after(_LAST)
            return await components.decisions(tx, before, limit + 1, place.tenant, place.project, component)

        rows = await self._plane.store.read(request.scope, load)
        items = [msgspec.json.decode(row["body"], type=api.Decision) for row in rows[:limit]]
        return answer(
            api.DecisionList(items=items, cursor=request.cursor(items[-1].id) if len(rows) > limit else None)
        )

    async def decision(self, request: Request) -> Response:
        id = request.parameters["id"]

        async def load(tx: Tx) -> Row | None:
            return await components.decision(tx, id)

        row = await self._plane.store.read(request.scope, load)
        if row is None:
            raise NotFound(f"there is no decision {id[:100]}", remedy="`windlass get decisions` lists them")
        return Response(200, row["body"].encode())

    async def events(self, request: Request) -> Response | Stream:
        if request.flag("watch"):
            after = await self._resume_point(request)
            return Stream(self._event_stream(request, after), b"text/event-stream")
        limit, after = request.limit, event_cursor(request)
        newest = request.whole("last", 0, least=1, most=MAX_PAGE)

        async def load(tx: Tx) -> list[EventRow]:
            return await (events.last(tx, newest) if newest else events.since(tx, after, limit))

        rows = await self._plane.store.read(request.scope, load)
        cursor = request.cursor(rows[-1].id) if len(rows) == limit and not newest else None
        return answer(api.EventList(items=[event_wire(row) for row in rows], cursor=cursor))

    async def _resume_point(self, request: Request) -> int:
        """Last-Event-ID (a browser's way) or `since`; without either, from now on."""
        if paging := sorted({"cursor", "limit", "last"} & set(request.query)):
            raise BadRequest(
                f"{paging[0]} belongs to a page of events, not to a watch",
                remedy="leave it out; a watch begins after `since` or Last-Event-ID",
            )
        newest = await self._plane.store.read(request.scope, events.newest)
        stated = request.headers.get("last-event-id", request.query.get("since"))
        if stated is None:
            return newest
        if not stated.isascii() or not stated.isdigit() or len(stated) > 18:
            raise BadRequest("an event id is a whole number", remedy="resume with the last id you received")
        if int(stated) > newest:  # of a platform that is no more: waiting for it would miss everything
            raise BadRequest(
                f"there is no event {int(stated)} yet",
                remedy="this platform began anew since; watch from 0, or without an id",
            )
        return int(stated)

    async def _event_stream(self, request: Request, after: int) -> AsyncGenerator[bytes, None]:
        EVENT_WATCHERS.inc()
        try:
            yield b": windlass events\n\n"
            async with aclosing(self._plane.feed.watch(request.scope, after)) as rows:
                async for some in rows:
                    yield self._written(some) or b": still here\n\n"
        finally:
            EVENT_WATCHERS.dec()

    def _written(self, some: Sequence[EventRow]) -> bytes:
        """As they are streamed. A thousand watchers are handed the same, one after the other."""
        if self._last_written[0] is not some:
            self._last_written = some, b"".join(map(_frame, some))
        return self._last_written[1]

    async def audit(self, request: Request) -> Response:
        limit = request.limit
        before = request.after_number(MAX_WHOLE)

        async def load(tx: Tx) -> Sequence[Row]:
            return await events.audit_before(tx, before, limit + 1, request.place.tenant)

        rows = await self._plane.store.read(request.scope, load)
        items = [_audit(row) for row in rows[:limit]]
        return answer(
            api.AuditList(items=items, cursor=request.cursor(items[-1].id) if len(rows) > limit else None)
        )

    async def slo(self, request: Request) -> Response:
        return answer(await slo.measure(self._plane, request.scope, _window(request, "24h", slo.LONGEST)))

    # --- fleet ----------------------------------------------------------------------------------

    async def nodes(self, request: Request) -> Response:
        limit, after = request.limit, request.after()
        found = sorted(self._plane.node_infos(), key=_node_place)
        rest = [node for node in found if _node_place(node) > after]
        page = rest[:limit]
        cursor = request.cursor(_node_place(page[-1])) if len(rest) > limit else None
        return answer(api.NodeList(items=page, cursor=cursor))

    async def revision(self, request: Request) -> Response:
        wanted = request.whole("at", 0) if "at" in request.query else None

        async def load(tx: Tx) -> Row | None:
            if wanted is None:
                return await documents.newest_revision(tx)
            return await documents.revision(tx, wanted)

        row = await self._plane.store.read(request.scope, load)
        if row is None and wanted is not None:
            raise NotFound(f"there is no revision {wanted}")
        if row is None:
            return answer(api.Revision(revision=0, at=format_timestamp(0), actor=""))
        return answer(
            api.Revision(
                revision=row["revision"],
                at=format_timestamp(row["at_ms"]),
                # Any tenant's admin makes revisions; who it was is not for the others.
                actor=row["actor"] if request.scope.tenant is None else "",
            )
        )

    async def version(self, request: Request) -> Response:  # noqa: ARG002 (handlers take the request)
        return answer(api.Version(version=__version__, api="v1"))


def _everybody(state: State) -> Iterator[tuple[int, Waiting]]:
    """All who wait, in order, each with how many of its class are ahead; a page at a time."""
    after: str | None = None
    ahead: dict[str, int] = {}
    while page := waiting_in_order(state, _PAGE, after):
        for item in page:
            place = ahead.get(item.shape.gpu_class, 0)
            ahead[item.shape.gpu_class] = place + 1
            yield place, item
        after = page[-1].id


def _window(request: Request, default: str, longest: Ms) -> Ms:
    try:
        window = parse_duration(request.query.get("window", default))
    except ValueError:
        window = Ms(0)
    if not 0 < window <= longest:
        most = format_duration(longest)
        raise BadRequest(f"the window is not a length of time up to {most}", remedy="such as 90m, 24h or 7d")
    return window


def event_cursor(request: Request) -> int:
    """The id after which a page of events begins; `since` is the name for those who keep ids."""
    return request.after_number(request.whole("since", 0, most=MAX_EVENT))


def event_wire(row: EventRow) -> api.Event:
    return api.Event(
        id=row.id,
        at=format_timestamp(row.at),
        type=row.type,
        subject=row.subject,
        actor=row.actor,
        tenant=row.tenant,
        data=msgspec.json.decode(row.data),
    )


def _node_place(node: api.NodeInfo) -> str:
    return f"{node.site}/{node.name}"


def _usage(holding: Holding, now: Ms) -> api.UsageLine:
    return api.UsageLine(
        id=holding.id,
        tenant=holding.tenant,
        project=holding.project,
        env=holding.env,
        component=holding.component,
        gpu_class=holding.gpu_class,
        gpus=format_gpus(holding.gpu_milli),
        since=format_timestamp(holding.since),
        until=format_timestamp(holding.until) if holding.until is not None else None,
        gpu_hours=gpu_hours(held(holding, now)),
    )


def _audit(row: Row) -> api.AuditEntry:
    return api.AuditEntry(
        id=row["id"],
        at=format_timestamp(row["at_ms"]),
        actor=row["actor"],
        action=row["action"],
        subject=row["subject"],
        request_id=row["request_id"],
        tenant=row["tenant"],
        detail=msgspec.json.decode(row["detail"]),
    )


def _frame(row: EventRow) -> bytes:
    data = msgspec.json.encode(event_wire(row))
    return b"id: %d\nevent: %s\ndata: %s\n\n" % (row.id, row.type.encode(), data)
