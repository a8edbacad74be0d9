"""Handlers for components: read, explain, logs, actions."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from typing import TYPE_CHECKING, Protocol, get_args

import msgspec

from windlass.contracts import api
from windlass.control.components import actions, views
from windlass.control.components.explain import explain
from windlass.control.db import components, events, workloads
from windlass.control.db.port import EventRow, Tx
from windlass.control.db.workloads import WorkloadRecord
from windlass.control.gateway.once import once
from windlass.control.gateway.operations import event_cursor, event_wire
from windlass.control.gateway.request import MAX_TAIL, MAX_WORKER, Request, Response, Stream, answer
from windlass.core.catalog.snapshot import LOCAL_SITE
from windlass.core.errors import BadRequest, NotFound
from windlass.core.lifecycle import Phase

if TYPE_CHECKING:
    from windlass.control.app import ControlPlane

_CHUNK = 1 << 18


class Chunk(Protocol):
    """Bytes of a log and where they stand in it."""

    @property
    def data(self) -> bytes: ...
    @property
    def offset(self) -> int: ...
    @property
    def dropped(self) -> int: ...
    @property
    def next_offset(self) -> int: ...


class LogSource(Protocol):
    """Where logs come from: a site's orchestrator."""

    async def read_log(
        self, workload: str, attempt: int, worker: int, *, offset: int = 0, limit: int = 1 << 20
    ) -> Chunk: ...

    def follow_log(
        self, workload: str, attempt: int, worker: int, *, offset: int = 0
    ) -> AsyncIterator[Chunk]: ...


class Components:
    def __init__(self, plane: ControlPlane) -> None:
        self._plane = plane

    async def page(self, request: Request) -> Response:
        phase = request.choice("phase", get_args(Phase))
        chosen = components.Chosen(request.place, phase, request.query.get("name"))
        page, last = await views.page(self._plane, request.scope, request.after(), request.limit, chosen)
        cursor = request.cursor(last) if last is not None else None
        return answer(api.ComponentList(items=page, cursor=cursor))

    async def get(self, request: Request) -> Response:
        found = await views.one(self._plane, request.scope, *_path(request))
        return answer(found, version=found.metadata.version)

    async def decision(self, request: Request) -> Response:
        async def load(tx: Tx) -> str:
            row = await actions.found(tx, _path(request))
            decision = await components.decision(tx, row["decision"])
            assert decision is not None, "every component names a stored decision"
            body: str = decision["body"]
            return body

        return Response(200, (await self._plane.store.read(request.scope, load)).encode())

    async def explanation(self, request: Request) -> Response:
        return answer(await explain(self._plane, request.scope, *_path(request)))

    async def manifests(self, request: Request) -> Response:
        """What the site was told to run, as canonical JSON."""
        run = await self._run(request)
        return Response(200, msgspec.json.encode(run.manifest, order="sorted"))

    async def events(self, request: Request) -> Response:
        limit, after = request.limit, event_cursor(request)

        async def load(tx: Tx) -> list[EventRow]:
            await actions.found(tx, _path(request))
            return await events.about(tx, "/".join(_path(request)), after, limit)

        rows = await self._plane.store.read(request.scope, load)
        cursor = request.cursor(rows[-1].id) if len(rows) == limit else None
        return answer(api.EventList(items=[event_wire(row) for row in rows], cursor=cursor))

    async def logs(self, request: Request) -> Stream:
        run = await self._run(request)
        worker = request.whole("worker", 0, most=MAX_WORKER)
        attempt = request.whole("attempt", run.attempt, least=1) if run.attempt else 0
        if not attempt:
            raise NotFound(
                f"{run.path} has not run yet", remedy=f"`windlass why {run.path}` says what it waits for"
            )
        if attempt > run.attempt:
            raise NotFound(
                f"{run.path} has no attempt {attempt}", remedy=f"its last one is attempt {run.attempt}"
            )
        if worker >= run.shape.workers:
            raise BadRequest(f"it has workers 0 to {run.shape.workers - 1}", remedy="choose one of them")
        source = self._source(run.site)
        offset = -request.whole("tail", 0, most=MAX_TAIL) if "tail" in request.query else 0
        first = await source.read_log(run.id, attempt, worker, offset=offset, limit=_CHUNK)
        follow = request.flag("follow")
        return Stream(
            _log(source, run.id, attempt, worker, first, follow=follow), b"text/plain; charset=utf-8"
        )

    def _source(self, site: str) -> LogSource:
        """The embedded site is read here; any other through its agent."""
        if self._plane.logs is not None and site == LOCAL_SITE:
            return self._plane.logs
        return self._plane.remote_logs.at(site)

    async def act(self, request: Request) -> Response:
        action = request.parameters["action"]
        if action == "cancel":
            return answer(await actions.cancel(self._plane, request.scope, _order(request)))
        if action == "rerun":
            return answer(await actions.rerun(self._plane, request.scope, _order(request)))
        raise NotFound(f"there is no action {action[:50]}", remedy="use cancel or rerun")

    async def delete(self, request: Request) -> Response:
        await actions.delete(self._plane, request.scope, _order(request))
        return Response(204)

    async def _run(self, request: Request) -> WorkloadRecord:
        async def load(tx: Tx) -> WorkloadRecord | None:
            row = await actions.found(tx, _path(request))
            return await workloads.find(tx, row["workload"]) if row["workload"] else None

        run = await self._plane.store.read(request.scope, load)
        if run is None:
            path = "/".join(_path(request))
            raise NotFound(f"{path} was rejected and never ran", remedy=f"`windlass why {path}` says why")
        return run


def _path(request: Request) -> tuple[str, str, str]:
    return request.parameters["project"], request.parameters["env"], request.parameters["name"]


def _order(request: Request) -> actions.Order:
    return actions.Order(_path(request), request.id, once(request), request.if_match, request.trace)


async def _log(
    source: LogSource, workload: str, attempt: int, worker: int, first: Chunk, *, follow: bool
) -> AsyncGenerator[bytes, None]:
    chunk = first
    while True:
        if chunk.dropped:
            yield b"[%d bytes were dropped: the log is capped]\n" % chunk.dropped
        if chunk.data:
            yield chunk.data
        if len(chunk.data) < _CHUNK:
            break
        chunk = await source.read_log(workload, attempt, worker, offset=chunk.next_offset, limit=_CHUNK)
    if follow:
        async for piece in source.follow_log(workload, attempt, worker, offset=chunk.next_offset):
            if piece.dropped:
                yield b"[%d bytes were dropped: the log is capped]\n" % piece.dropped
            yield piece.data
