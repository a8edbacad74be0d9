"""The blocking client.

    from windlass.sdk import Client

    with Client.from_context() as client:
        client.apply(document)
        done = client.wait("nlp/prod/sft-run", "Succeeded", timeout_s=3600)
        for piece in client.logs("nlp/prod/sft-run"):
            print(piece, end="")

Connections are kept and used again; threads may share one client, each request takes a
connection of its own. Errors are those of `windlass.core.errors`.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from windlass.contracts import api
from windlass.core.errors import Unavailable, WindlassError
from windlass.sdk import calls, contexts, failures, flows, requests
from windlass.sdk.calls import Call, Document
from windlass.sdk.connection import Connection, Lost
from windlass.sdk.credentials import Credentials
from windlass.sdk.flows import Clock, Flow, Pause
from windlass.sdk.http1 import Answer, parse_server
from windlass.sdk.logins import KeptLogin, kept_login
from windlass.sdk.retries import Retries
from windlass.sdk.streams import EventReader, TextReader

T = TypeVar("T")
_IDLE_CONNECTIONS = 4
_REFUSED = 401


class Client(Credentials):
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
        sleep: Callable[[float], None] = time.sleep,
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
        self._idle: list[Connection] = []

    @classmethod
    def from_context(cls, name: str | None = None, **options: Any) -> Client:
        """As the command line would: the named context, else the environment, else the current one."""
        access = contexts.resolve(context=name)
        for note in access.notes:
            warnings.warn(note, stacklevel=2)
        login = kept_login(access)
        acting = access.tenant if login is not None else None
        return cls(access.server, access.api_key, **{"login": login, "tenant": acting, **options})

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        """A client that is dropped takes its connections with it."""
        if hasattr(self, "_idle"):  # not when it was never made
            self.close()

    def close(self) -> None:
        """Lets go of the connections; the client can be used again."""
        while self._idle:
            self._idle.pop().close()

    # --- Documents ----------------------------------------------------------------------------

    def apply(
        self,
        documents: Document | Sequence[Document],
        *,
        dry_run: bool = False,
        if_match: int | str | None = None,
        idempotency_key: str | None = None,
    ) -> api.ApplyAnswer:
        """Creates or changes what the documents say. Raises Invalid, Rejected, Conflict, …"""
        return self.send(calls.apply(documents, dry_run=dry_run, if_match=if_match, key=idempotency_key))

    def plan(self, documents: Document | Sequence[Document]) -> api.ApplyAnswer:
        """What `apply` would do; commits nothing. A rejection is in the results, not raised."""
        return self._run(flows.plan(documents))

    def document(
        self, kind: str, name: str, *, tenant: str | None = None, revision: int | None = None
    ) -> api.Document:
        """One document of a kind, now or at an older catalog revision."""
        return self.send(calls.document(kind, name, tenant=tenant, revision=revision))

    def documents(
        self,
        kind: str,
        *,
        tenant: str | None = None,
        revision: int | None = None,
        limit: int | None = None,
    ) -> api.DocumentList:
        """All documents of a kind, every page: `client.documents("Tenant").items`."""
        return self._run(flows.documents(kind, tenant=tenant, revision=revision, limit=limit))

    def delete_document(
        self, kind: str, name: str, *, tenant: str | None = None, if_match: int | None = None
    ) -> None:
        """Raises Conflict while something uses it, or when it is not at `if_match` any more."""
        return self.send(calls.delete_document(kind, name, tenant=tenant, if_match=if_match, key=None))

    def revision(self, at: int | None = None) -> api.Revision:
        """The catalog's revision: the newest, or an older one with who made it when."""
        return self.send(calls.get(api.Revision, "revision", at=at))

    def type_diff(
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
        return self.send(calls.get(api.TypeDiff, "componenttypes", type, "diff", to=other, **where))

    def type_migrate(
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
        return self._run(flows.migrate(type, other, dry_run=dry_run, where=where))

    # --- Components ---------------------------------------------------------------------------

    def component(self, path: str) -> api.Component:
        """`path` is project/env/name, here and below."""
        return self.send(calls.component(path))

    def components(
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
        return self._run(
            flows.components(project=project, env=env, tenant=tenant, phase=phase, name=name, limit=limit)
        )

    def delete_component(self, path: str) -> None:
        """Removes one that has ended; Conflict while it waits or runs."""
        return self.send(calls.delete_component(path, key=None))

    def action(self, path: str, name: str, value: object = None) -> api.Component:
        """Any product action the server knows; so far cancel and rerun."""
        return self.send(calls.action(path, name, value, key=None))

    def cancel(self, path: str) -> api.Component:
        """What waits leaves the queue at once; what runs is stopped. Twice is once."""
        return self.action(path, "cancel")

    def rerun(self, path: str) -> api.Component:
        """A new run of a finished component, judged anew. Raises Rejected, Conflict."""
        return self.action(path, "rerun")

    def wait(self, path: str, phase: str = flows.FINAL, timeout_s: float | None = None) -> api.Component:
        """Returns when the component is in the phase, or past it on the way to success.

        Raises Conflict when it ended elsewhere, Unavailable when the time is over. `phase` may
        be "final": however it ends.
        """
        return self._run(flows.wait(path, phase, timeout_s, self._clock))

    def why(self, path: str) -> api.Explanation:
        """The one true cause of waiting, rejection or preemption."""
        return self.send(calls.explanation(path))

    def decision_of(self, path: str) -> api.Decision:
        """The last decision on a component, with its reasons."""
        return self.send(calls.decision_of(path))

    def component_events(self, path: str) -> api.EventList:
        """What happened to a component, oldest first."""
        segments = (*calls.component_segments(path), "events")
        return self._run(flows.events(segments, None, None))

    def logs(
        self,
        path: str,
        *,
        follow: bool = False,
        worker: int = 0,
        tail_bytes: int | None = None,
        attempt: int | None = None,
    ) -> Iterator[str]:
        """The log as text, in the pieces it arrives in. With `follow`, until the work ends."""
        text = TextReader()
        call = calls.logs(path, worker=worker, follow=follow, tail_bytes=tail_bytes, attempt=attempt)
        for piece in self._stream(call):
            if ready := text.feed(piece):
                yield ready
        if rest := text.feed(b"", last=True):
            yield rest

    # --- The platform -------------------------------------------------------------------------

    def queue(
        self,
        limit: int | None = None,
        *,
        tenant: str | None = None,
        project: str | None = None,
        env: str | None = None,
    ) -> api.Queue:
        """Who waits, in order, and who runs; `limit` of each."""
        call = calls.get(api.Queue, "queue", limit=limit, tenant=tenant, project=project, env=env)
        return self.send(call)

    def quota(
        self, *, tenant: str | None = None, project: str | None = None, env: str | None = None
    ) -> api.QuotaAnswer:
        """What is yours, what is free, what each profile costs."""
        return self.send(calls.get(api.QuotaAnswer, "quota", tenant=tenant, project=project, env=env))

    def costs(
        self,
        *,
        by: str = "tenant",
        tenant: str | None = None,
        project: str | None = None,
        env: str | None = None,
    ) -> api.CostAnswer:
        """What was spent, by "tenant", "project" or "component"."""
        call = calls.get(api.CostAnswer, "costs", by=by, tenant=tenant, project=project, env=env)
        return self.send(call)

    def coverage(
        self,
        window: str | None = None,
        *,
        tenant: str | None = None,
        project: str | None = None,
        env: str | None = None,
    ) -> api.Coverage:
        """How much GPU time went through component types, over `30d` or another window."""
        where = {"tenant": tenant, "project": project, "env": env}
        return self.send(calls.get(api.Coverage, "coverage", window=window, **where))

    def usage(
        self,
        *,
        tenant: str | None = None,
        project: str | None = None,
        env: str | None = None,
        limit: int | None = None,
    ) -> api.UsageList:
        """The metered GPU time, holding by holding."""
        narrow = {"tenant": tenant, "project": project, "env": env}
        return self._run(flows.listing(api.UsageList, "usage", limit, **narrow))

    def decisions(
        self,
        *,
        component: str | None = None,
        tenant: str | None = None,
        project: str | None = None,
        limit: int | None = None,
    ) -> api.DecisionList:
        """What was admitted and rejected, newest first."""
        narrow = {"component": component, "tenant": tenant, "project": project}
        return self._run(flows.listing(api.DecisionList, "decisions", limit, **narrow))

    def decision(self, id: str) -> api.Decision:
        """One decision by its id."""
        return self.send(calls.get(api.Decision, "decisions", id))

    def events(self, *, since: int | None = None, limit: int | None = None) -> api.EventList:
        """What happened, oldest first, after the event `since`."""
        return self._run(flows.events(("events",), since, limit))

    def newest_events(self, count: int = 50) -> api.EventList:
        """The last `count` (500 at most), oldest of them first."""
        return self.send(calls.get(api.EventList, "events", last=count))

    def watch(self, since: int | None = None) -> Iterator[api.Event]:
        """Events as they happen, for ever. A lost stream is taken up again after the last event."""
        patience = self._retries._replace(attempts=2 * self._retries.attempts)  # outlasts a restart
        last = since
        failed = 0
        while True:
            why = "the stream ended"
            try:
                for event in self._events(last):
                    if last is None or event.id > last:
                        last, failed = event.id, 0
                        yield event
            except Unavailable as error:
                why = error.detail
            failed += 1
            pause_s = patience.pause_s(failed)
            if pause_s is None:
                raise failures.lost(self.server, why)
            self._sleep(pause_s)

    def audit(self, *, tenant: str | None = None, limit: int | None = None) -> api.AuditList:
        """Who did what, newest first."""
        return self._run(flows.listing(api.AuditList, "audit", limit, tenant=tenant))

    def slo(self, window: str | None = None) -> api.ServiceLevels:
        """How the platform kept its promises: over `24h`, or another window such as `7d`."""
        return self.send(calls.get(api.ServiceLevels, "slo", window=window))

    def nodes(self) -> api.NodeList:
        """The machines, and what is free on them."""
        return self._run(flows.listing(api.NodeList, "nodes", None))

    def defrag_plans(
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
        return self.send(calls.get(api.DefragProposals, "defrag", component=component, **hole))

    def defragment(self, component: str, digest: str) -> api.DefragProposal:
        """Carries out the plan with this digest. Raises Conflict where the world moved on."""
        wanted = api.DefragRequest(component=component, digest=digest)
        return self.send(calls.post(api.DefragProposal, wanted, "defrag"))

    def lose_site(self, name: str, reason: str) -> api.SiteLoss:
        """Gives up a site whose agent is away: its work ends as lost. Raises Conflict where it is not."""
        wanted = api.SiteLossRequest(reason=reason)
        return self.send(calls.post(api.SiteLoss, wanted, "sites", name, "lost"))

    # --- Identity -----------------------------------------------------------------------------

    def version(self) -> api.Version:
        """The server's version."""
        return self.send(calls.get(api.Version, "version"))

    # --- Sending ------------------------------------------------------------------------------

    def send(self, call: Call[T]) -> T:
        """Sends one request, again where that can help, and gives its typed answer."""
        call = requests.keyed(call, self._ids)
        bearer = self._bearer()
        renewed = False
        attempt = 0
        while True:
            request = requests.encode(self.server, bearer, self._tenant, call)
            attempt += 1
            try:
                answer, body = self._exchange(request)
            except Lost as lost:
                self.close()  # what broke one connection has broken the idle ones too
                pause_s = self._retries.pause_s(attempt)
                if pause_s is None:
                    raise failures.lost(self.server, str(lost)) from None
            else:
                if answer.status == _REFUSED and not renewed:
                    renewed, other = True, self._after_refusal(bearer)
                    if other is not None:
                        bearer = other
                        continue
                pause_s = self._retries.pause_after_answer_s(attempt, answer)
                if pause_s is None:
                    return failures.decode(call, answer, body)
            self._sleep(pause_s)

    def _bearer(self) -> str:
        return self._login.bearer() if self._login is not None else self._api_key

    def _after_refusal(self, bearer: str) -> str | None:
        return self._login.after_refusal(bearer) if self._login is not None else None

    def _run(self, flow: Flow[T]) -> T:
        """Takes a flow's steps until it returns; what a step raises, the flow sees."""
        try:
            step = next(flow)
            while True:
                try:
                    result = self._sleep(step.seconds) if isinstance(step, Pause) else self.send(step)
                except WindlassError as error:
                    step = flow.throw(error)
                else:
                    step = flow.send(result)
        except StopIteration as done:
            value: T = done.value
            return value

    def _exchange(self, request: bytes) -> tuple[Answer, bytes]:
        connection = self._take()
        pieces = []
        received = 0
        try:
            answer, first = connection.send(request, self._timeout_s)
            pieces.append(first)
            for piece in connection.rest(answer):
                received += len(piece)
                requests.check_size(received)
                pieces.append(piece)
        except BaseException:
            connection.close()
            raise
        self._give_back(connection, answer)
        return answer, b"".join(pieces)

    def _stream(self, call: Call[bytes]) -> Iterator[bytes]:
        """The body in pieces. Broken off half-way is Unavailable: pieces cannot be taken back."""
        request = requests.encode(self.server, self._bearer(), self._tenant, call)
        connection = Connection(self.server, connect_timeout_s=self._connect_timeout_s)
        try:
            answer, first = connection.send(request, self._timeout_s)
            if answer.status >= 400:
                body = first + b"".join(connection.rest(answer))
                raise failures.from_answer(answer, body)
            connection.wait_forever()
            if first:
                yield first
            yield from connection.rest(answer)
        except Lost as lost:
            raise failures.lost(self.server, str(lost)) from None
        finally:
            connection.close()

    def _events(self, since: int | None) -> Iterator[api.Event]:
        reader = EventReader()
        for piece in self._stream(calls.event_stream(since)):
            yield from reader.feed(piece)

    def _take(self) -> Connection:
        try:
            return self._idle.pop()
        except IndexError:
            return Connection(self.server, connect_timeout_s=self._connect_timeout_s)

    def _give_back(self, connection: Connection, answer: Answer) -> None:
        if answer.keep_alive and len(self._idle) < _IDLE_CONNECTIONS:
            self._idle.append(connection)
        else:
            connection.close()
