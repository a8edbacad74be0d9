"""The asynchronous client: the same methods as `Client`, awaited.

    from windlass.sdk import AsyncClient

    async with AsyncClient.from_context() as client:
        await client.apply(document)
        async for event in client.watch():
            ...

It runs on asyncio's own streams, without threads: requests, retries and multi-request flows are
the values the blocking client uses, only the waiting differs. One client belongs to one event
loop; any number of tasks may share it, each request takes a connection of its own.
"""

from __future__ import annotations

import asyncio
import time
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any, TypeVar

from windlass.contracts import api
from windlass.core.errors import Unavailable, WindlassError
from windlass.sdk import calls, contexts, failures, flows, requests
from windlass.sdk.async_connection import AsyncConnection
from windlass.sdk.async_credentials import AsyncCredentials
from windlass.sdk.calls import Call, Document
from windlass.sdk.connection import Lost
from windlass.sdk.flows import Clock, Flow, Pause
from windlass.sdk.http1 import Answer, parse_server
from windlass.sdk.logins import KeptLogin, kept_login
from windlass.sdk.retries import Retries
from windlass.sdk.streams import EventReader, TextReader

T = TypeVar("T")
_IDLE_CONNECTIONS = 4
_REFUSED = 401


class AsyncClient(AsyncCredentials):
    """Talks to one server as one identity: a key, or a login that it keeps fresh and that may act in one
    `tenant` of several. `sleep`, `clock` and `ids` are arguments for tests."""

    def __init__(
        self,
        server: str = contexts.DEFAULT_SERVER,
        api_key: str = "",
        *,
        login: KeptLogin | None = None,
        tenant: str | None = None,
        timeout_s: float = 30.0,
        connect_timeout_s: float = 5.0,
        retries: Retries = Retries(),  # noqa: B008  # immutable
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        clock: Clock = time.monotonic,
        ids: requests.Ids = requests.random_id,
    ) -> None:
        self.server = parse_server(server)
        self._api_key = api_key
        self._login = login
        self._tenant = tenant
        self._timeout_s = timeout_s
        self._connect_timeout_s = connect_timeout_s
        self._retries = retries
        self._sleep = sleep
        self._clock = clock
        self._ids = ids
        self._idle: list[AsyncConnection] = []

    @classmethod
    def from_context(cls, name: str | None = None, **options: Any) -> AsyncClient:
        """As the command line would: the named context, else the environment, else the current one."""
        access = contexts.resolve(context=name)
        for note in access.notes:
            warnings.warn(note, stacklevel=2)
        login = kept_login(access)
        acting = access.tenant if login is not None else None
        return cls(access.server, access.api_key, **{"login": login, "tenant": acting, **options})

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Lets go of the connections; the client can be used again."""
        while self._idle:
            self._idle.pop().close()

    # --- Documents ----------------------------------------------------------------------------

    async def apply(
        self,
        documents: Document | Sequence[Document],
        *,
        dry_run: bool = False,
        if_match: int | str | None = None,
        idempotency_key: str | None = None,
    ) -> api.ApplyAnswer:
        """Creates or changes what the documents say. Raises Invalid, Rejected, Conflict, …"""
        return await self.send(
            calls.apply(documents, dry_run=dry_run, if_match=if_match, key=idempotency_key)
        )

    async def plan(self, documents: Document | Sequence[Document]) -> api.ApplyAnswer:
        """What `apply` would do; commits nothing. A rejection is in the results, not raised."""
        return await self._run(flows.plan(documents))

    async def document(
        self, kind: str, name: str, *, tenant: str | None = None, revision: int | None = None
    ) -> api.Document:
        """One document of a kind, now or at an older catalog revision."""
        return await self.send(calls.document(kind, name, tenant=tenant, revision=revision))

    async def documents(
        self,
        kind: str,
        *,
        tenant: str | None = None,
        revision: int | None = None,
        limit: int | None = None,
    ) -> api.DocumentList:
        """All documents of a kind, every page: `client.documents("Tenant").items`."""
        return await self._run(flows.documents(kind, tenant=tenant, revision=revision, limit=limit))

    async def delete_document(
        self, kind: str, name: str, *, tenant: str | None = None, if_match: int | None = None
    ) -> None:
        """Raises Conflict while something uses it, or when it is not at `if_match` any more."""
        return await self.send(calls.delete_document(kind, name, tenant=tenant, if_match=if_match, key=None))

    async def revision(self, at: int | None = None) -> api.Revision:
        """The catalog's revision: the newest, or an older one with who made it when."""
        return await self.send(calls.get(api.Revision, "revision", at=at))

    async def type_diff(
        self,
        type: str,
        other: str,
        *,
        tenant: str | None = None,
        project: str | None = None,
        env: str | None = None,
    ) -> api.TypeDiff:
        """What would differ for the live components of a type, were they of another."""
        where = {"tenant": tenant, "project": project, "env": env}
        return await self.send(calls.get(api.TypeDiff, "componenttypes", type, "diff", to=other, **where))

    async def type_migrate(
        self,
        type: str,
        other: str,
        *,
        tenant: str | None = None,
        project: str | None = None,
        env: str | None = None,
        dry_run: bool = False,
    ) -> api.Migration:
        """Moves the components of a type that are not alive to another, every page of them."""
        where = {"tenant": tenant, "project": project, "env": env}
        return await self._run(flows.migrate(type, other, dry_run=dry_run, where=where))

    # --- Components ---------------------------------------------------------------------------

    async def component(self, path: str) -> api.Component:
        """`path` is project/env/name, here and below."""
        return await self.send(calls.component(path))

    async def components(
        self,
        *,
        project: str | None = None,
        env: str | None = None,
        tenant: str | None = None,
        phase: str | None = None,
        name: str | None = None,
        limit: int | None = None,
    ) -> api.ComponentList:
        """All components that you may see, narrowed, every page."""
        return await self._run(
            flows.components(project=project, env=env, tenant=tenant, phase=phase, name=name, limit=limit)
        )

    async def delete_component(self, path: str) -> None:
        """Removes one that has ended; Conflict while it waits or runs."""
        return await self.send(calls.delete_component(path, key=None))

    async def action(self, path: str, name: str, value: object = None) -> api.Component:
        """Any product action the server knows; so far cancel and rerun."""
        return await self.send(calls.action(path, name, value, key=None))

    async def cancel(self, path: str) -> api.Component:
        """What waits leaves the queue at once; what runs is stopped. Twice is once."""
        return await self.action(path, "cancel")

    async def rerun(self, path: str) -> api.Component:
        """A new run of a finished component, judged anew. Raises Rejected, Conflict."""
        return await self.action(path, "rerun")

    async def wait(
        self, path: str, phase: str = flows.FINAL, timeout_s: float | None = None
    ) -> api.Component:
        """Returns when the component is in the phase, or past it on the way to success.

        Raises Conflict when it ended elsewhere, Unavailable when the time is over. `phase` may
        be "final": however it ends.
        """
        return await self._run(flows.wait(path, phase, timeout_s, self._clock))

    async def why(self, path: str) -> api.Explanation:
        """The one true cause of waiting, rejection or preemption."""
        return await self.send(calls.explanation(path))

    async def decision_of(self, path: str) -> api.Decision:
        """The last decision on a component, with its reasons."""
        return await self.send(calls.decision_of(path))

    async def component_events(self, path: str) -> api.EventList:
        """What happened to a component, oldest first."""
        segments = (*calls.component_segments(path), "events")
        return await self._run(flows.events(segments, None, None))

    async def logs(
        self,
        path: str,
        *,
        follow: bool = False,
        worker: int = 0,
        tail_bytes: int | None = None,
        attempt: int | None = None,
    ) -> AsyncIterator[str]:
        """The log as text, in the pieces it arrives in. With `follow`, until the work ends."""
        text = TextReader()
        call = calls.logs(path, worker=worker, follow=follow, tail_bytes=tail_bytes, attempt=attempt)
        async for piece in self._stream(call):
            if ready := text.feed(piece):
                yield ready
        if rest := text.feed(b"", last=True):
            yield rest

    # --- The platform -------------------------------------------------------------------------

    async def queue(
        self,
        limit: int | None = None,
        *,
        tenant: str | None = None,
        project: str | None = None,
        env: str | None = None,
    ) -> api.Queue:
        """Who waits, in order, and who runs; `limit` of each."""
        call = calls.get(api.Queue, "queue", limit=limit, tenant=tenant, project=project, env=env)
        return await self.send(call)

    async def quota(
        self, *, tenant: str | None = None, project: str | None = None, env: str | None = None
    ) -> api.QuotaAnswer:
        """What is yours, what is free, what each profile costs."""
        return await self.send(calls.get(api.QuotaAnswer, "quota", tenant=tenant, project=project, env=env))

    async def costs(
        self,
        *,
        by: str = "tenant",
        tenant: str | None = None,
        project: str | None = None,
        env: str | None = None,
    ) -> api.CostAnswer:
        """What was spent, by "tenant", "project" or "component"."""
        call = calls.get(api.CostAnswer, "costs", by=by, tenant=tenant, project=project, env=env)
        return await self.send(call)

    async def coverage(
        self,
        window: str | None = None,
        *,
        tenant: str | None = None,
        project: str | None = None,
        env: str | None = None,
    ) -> api.Coverage:
        """How much GPU time went through component types, over `30d` or another window."""
        where = {"tenant": tenant, "project": project, "env": env}
        return await self.send(calls.get(api.Coverage, "coverage", window=window, **where))

    async def usage(
        self,
        *,
        tenant: str | None = None,
        project: str | None = None,
        env: str | None = None,
        limit: int | None = None,
    ) -> api.UsageList:
        """The metered GPU time, holding by holding."""
        narrow = {"tenant": tenant, "project": project, "env": env}
        return await self._run(flows.listing(api.UsageList, "usage", limit, **narrow))

    async def decisions(
        self,
        *,
        component: str | None = None,
        tenant: str | None = None,
        project: str | None = None,
        limit: int | None = None,
    ) -> api.DecisionList:
        """What was admitted and rejected, newest first."""
        narrow = {"component": component, "tenant": tenant, "project": project}
        return await self._run(flows.listing(api.DecisionList, "decisions", limit, **narrow))

    async def decision(self, id: str) -> api.Decision:
        """One decision by its id."""
        return await self.send(calls.get(api.Decision, "decisions", id))

    async def events(self, *, since: int | None = None, limit: int | None = None) -> api.EventList:
        """What happened, oldest first, after the event `since`."""
        return await self._run(flows.events(("events",), since, limit))

    async def newest_events(self, count: int = 50) -> api.EventList:
        """The last `count` (500 at most), oldest of them first."""
        return await self.send(calls.get(api.EventList, "events", last=count))

    async def watch(self, since: int | None = None) -> AsyncIterator[api.Event]:
        """Events as they happen, for ever. A lost stream is taken up again after the last event."""
        patience = self._retries._replace(attempts=2 * self._retries.attempts)  # outlasts a restart
        last = since
        failed = 0
        while True:
            why = "the stream ended"
            try:
                async for event in self._events(last):
                    if last is None or event.id > last:
                        last, failed = event.id, 0
                        yield event
            except Unavailable as error:
                why = error.detail
            failed += 1
            pause_s = patience.pause_s(failed)
            if pause_s is None:
                raise failures.lost(self.server, why)
            await self._sleep(pause_s)

    async def audit(self, *, tenant: str | None = None, limit: int | None = None) -> api.AuditList:
        """Who did what, newest first."""
        return await self._run(flows.listing(api.AuditList, "audit", limit, tenant=tenant))

    async def slo(self, window: str | None = None) -> api.ServiceLevels:
        """How the platform kept its promises: over `24h`, or another window such as `7d`."""
        return await self.send(calls.get(api.ServiceLevels, "slo", window=window))

    async def nodes(self) -> api.NodeList:
        """The machines, and what is free on them."""
        return await self._run(flows.listing(api.NodeList, "nodes", None))

    async def defrag_plans(
        self,
        component: str | None = None,
        *,
        gpu_class: str | None = None,
        profile: str | None = None,
        gpus: str | None = None,
        workers: int | None = None,
        topology: str | None = None,
    ) -> api.DefragProposals:
        """Which moves would free which hole: for a component that waits, for a hole, or for everybody."""
        hole = {
            "class": gpu_class,
            "profile": profile,
            "gpus": gpus,
            "workers": workers,
            "topology": topology,
        }
        return await self.send(calls.get(api.DefragProposals, "defrag", component=component, **hole))

    async def defragment(self, component: str, digest: str) -> api.DefragProposal:
        """Carries out the plan with this digest. Raises Conflict where the world moved on."""
        wanted = api.DefragRequest(component=component, digest=digest)
        return await self.send(calls.post(api.DefragProposal, wanted, "defrag"))

    async def lose_site(self, name: str, reason: str) -> api.SiteLoss:
        """Gives up a site whose agent is away: its work ends as lost. Raises Conflict where it is not."""
        wanted = api.SiteLossRequest(reason=reason)
        return await self.send(calls.post(api.SiteLoss, wanted, "sites", name, "lost"))

    # --- Identity -----------------------------------------------------------------------------

    async def version(self) -> api.Version:
        """The server's version."""
        return await self.send(calls.get(api.Version, "version"))

    # --- Sending ------------------------------------------------------------------------------

    async def send(self, call: Call[T]) -> T:
        """Sends one request, again where that can help, and gives its typed answer."""
        call = requests.keyed(call, self._ids)
        bearer = await self._bearer()
        renewed = False
        attempt = 0
        while True:
            request = requests.encode(self.server, bearer, self._tenant, call)
            attempt += 1
            try:
                answer, body = await self._exchange(request)
            except Lost as lost:
                self.close()  # what broke one connection has broken the idle ones too
                pause_s = self._retries.pause_s(attempt)
                if pause_s is None:
                    raise failures.lost(self.server, str(lost)) from None
            else:
                if answer.status == _REFUSED and not renewed:
                    renewed, other = True, await self._after_refusal(bearer)
                    if other is not None:
                        bearer = other
                        continue
                pause_s = self._retries.pause_after_answer_s(attempt, answer)
                if pause_s is None:
                    return failures.decode(call, answer, body)
            await self._sleep(pause_s)

    async def _bearer(self) -> str:
        """Renewing asks another server and waits for a file's lock, so it is done on a thread."""
        if self._login is None:
            return self._api_key
        fresh = self._login.fresh()
        return fresh if fresh is not None else await asyncio.to_thread(self._login.bearer)

    async def _after_refusal(self, bearer: str) -> str | None:
        if self._login is None:
            return None
        return await asyncio.to_thread(self._login.after_refusal, bearer)

    async def _run(self, flow: Flow[T]) -> T:
        """Takes a flow's steps until it returns; what a step raises, the flow sees."""
        try:
            step = next(flow)
            while True:
                try:
                    result = await (self._sleep(step.seconds) if isinstance(step, Pause) else self.send(step))
                except WindlassError as error:
                    step = flow.throw(error)
                else:
                    step = flow.send(result)
        except StopIteration as done:
            value: T = done.value
            return value

    async def _exchange(self, request: bytes) -> tuple[Answer, bytes]:
        connection = await self._take()
        pieces = []
        received = 0
        try:
            answer, first = await connection.send(request, self._timeout_s)
            pieces.append(first)
            async for piece in connection.rest(answer):
                received += len(piece)
                requests.check_size(received)
                pieces.append(piece)
        except BaseException:
            connection.close()
            raise
        self._give_back(connection, answer)
        return answer, b"".join(pieces)

    async def _stream(self, call: Call[bytes]) -> AsyncIterator[bytes]:
        """The body in pieces. Broken off half-way is Unavailable: pieces cannot be taken back."""
        request = requests.encode(self.server, await self._bearer(), self._tenant, call)
        connection = await AsyncConnection.open(self.server, connect_timeout_s=self._connect_timeout_s)
        try:
            answer, first = await connection.send(request, self._timeout_s)
            if answer.status >= 400:
                body = first + b"".join([piece async for piece in connection.rest(answer)])
                raise failures.from_answer(answer, body)
            connection.wait_forever()
            if first:
                yield first
            async for piece in connection.rest(answer):
                yield piece
        except Lost as lost:
            raise failures.lost(self.server, str(lost)) from None
        finally:
            connection.close()

    async def _events(self, since: int | None) -> AsyncIterator[api.Event]:
        reader = EventReader()
        async for piece in self._stream(calls.event_stream(since)):
            for event in reader.feed(piece):
                yield event

    async def _take(self) -> AsyncConnection:
        try:
            return self._idle.pop()
        except IndexError:
            return await AsyncConnection.open(self.server, connect_timeout_s=self._connect_timeout_s)

    def _give_back(self, connection: AsyncConnection, answer: Answer) -> None:
        if answer.keep_alive and len(self._idle) < _IDLE_CONNECTIONS:
            self._idle.append(connection)
        else:
            connection.close()
