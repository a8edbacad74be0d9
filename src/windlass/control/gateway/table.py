"""Every route of the API, in one table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

from windlass.contracts import api
from windlass.contracts.agent import Desired, LogAnswer, LogQuestions, SiteReport
from windlass.control.gateway.apply import Apply
from windlass.control.gateway.catalog import Documents
from windlass.control.gateway.components import Components
from windlass.control.gateway.defrag import HOLE, Defragmentation
from windlass.control.gateway.docs_page import PAGE
from windlass.control.gateway.identity import People, login_info
from windlass.control.gateway.openapi import describe
from windlass.control.gateway.operations import Operations
from windlass.control.gateway.request import Response, answer
from windlass.control.gateway.routes import Route
from windlass.control.gateway.sites import Agents, Sites
from windlass.control.gateway.types import Types
from windlass.control.identity.authorize import Action
from windlass.control.scheduler.measures import measure
from windlass.core.documents.kinds import KINDS
from windlass.runtime import metrics

if TYPE_CHECKING:
    from windlass.control.app import ControlPlane

_PAGING = {"limit": "at most so many, 1 to 500", "cursor": "where the last page ended"}
_OWNER = {"tenant": "of one tenant"}
_WHERE = {**_OWNER, "project": "of one project", "env": "of one environment"}
_IF_MATCH = {"If-Match": "the version of the document that the change was made to"}
_ONE = "/v1/projects/{project}/components/{env}/{name}"


def routes(plane: ControlPlane) -> tuple[Route, ...]:
    own = Operations(plane)
    people = People(plane)
    fleet = (*_fleet(own), *_moves(Defragmentation(plane)), _loss(Sites(plane)))
    everywhere = (*_work(own), *_records(own), *fleet, *_keys(people), *_tokens_and_accounts(people))
    documents = (*_documents(plane), *_types(Types(plane)))
    closed = (*_writes(plane), *documents, *_components(plane), *everywhere, *_agents(Agents(plane)))
    return (*closed, *_open(plane, closed))


def _writes(plane: ControlPlane) -> tuple[Route, ...]:
    return (
        Route(
            "POST",
            "/v1/apply",
            "Create or change documents and components",
            "component.write",
            Apply(plane),
            query={"dryRun": "true: plan only"},
            takes="documents",
            gives=api.ApplyAnswer,
            headers=_IF_MATCH,
        ),
    )


def _documents(plane: ControlPlane) -> tuple[Route, ...]:
    found: list[Route] = []
    reads = {**_OWNER, "revision": "as of this catalog revision"}
    for kind in KINDS.values():
        handlers = Documents(plane, kind)
        base, one = f"/v1/{kind.plural}", f"/v1/{kind.plural}/{{name}}"
        listed = f"List {kind.plural}"
        found += [
            Route(
                "GET",
                base,
                listed,
                "catalog.read",
                handlers.page,
                {**reads, **_PAGING},
                gives=api.DocumentList,
            ),
            Route(
                "GET", one, f"Read one {kind.name}", "catalog.read", handlers.get, reads, gives=api.Document
            ),
            Route(
                "DELETE",
                one,
                f"Delete one {kind.name}",
                "tenant.write",
                handlers.delete,
                _OWNER,
                headers=_IF_MATCH,
            ),
        ]
    return tuple(found)


def _types(own: Types) -> tuple[Route, ...]:
    one = "/v1/componenttypes/{name}"
    other = {"to": "the other type, a name or name@version", **_WHERE}
    return (
        Route(
            "GET",
            f"{one}/diff",
            "What would differ for its live components, were they of another type",
            "component.read",
            own.diff,
            other,
            gives=api.TypeDiff,
        ),
        Route(
            "POST",
            f"{one}/migrate",
            "Move its components that are not alive to another type",
            "component.write",
            own.migrate,
            {**other, "dryRun": "true: plan only", "cursor": _PAGING["cursor"]},
            gives=api.Migration,
        ),
    )


def _components(plane: ControlPlane) -> tuple[Route, ...]:
    own = Components(plane)
    since = {"since": "after this event id", **_PAGING}
    narrowed = {**_WHERE, "phase": "in one phase", "name": "with this name"}
    log = {
        "worker": "which worker, from 0",
        "follow": "true: until it ends",
        "tail": "the last so many bytes",
        "attempt": "an earlier attempt",
    }
    read: Action = "component.read"
    write: Action = "component.write"
    return (
        Route(
            "GET",
            "/v1/components",
            "List components",
            read,
            own.page,
            {**narrowed, **_PAGING},
            gives=api.ComponentList,
        ),
        Route("GET", _ONE, "Read one component", read, own.get, gives=api.Component),
        Route("DELETE", _ONE, "Delete a finished component", write, own.delete, headers=_IF_MATCH),
        Route("GET", f"{_ONE}/decision", "Its last decision", read, own.decision, gives=api.Decision),
        Route(
            "GET",
            f"{_ONE}/explanation",
            "Why it waits, or ended so",
            read,
            own.explanation,
            gives=api.Explanation,
        ),
        Route("GET", f"{_ONE}/manifests", "What its site was told to run", read, own.manifests, gives=dict),
        Route("GET", f"{_ONE}/events", "What happened to it", read, own.events, since, gives=api.EventList),
        Route("GET", f"{_ONE}/logs", "What a worker printed", read, own.logs, log, media="text/plain"),
        Route(
            "POST",
            f"{_ONE}/actions/{{action}}",
            "Cancel or rerun it",
            write,
            own.act,
            gives=api.Component,
            headers=_IF_MATCH,
        ),
    )


def _work(own: Operations) -> tuple[Route, ...]:
    by = {"by": "tenant, project or component", **_WHERE}
    limit = {**_WHERE, "limit": _PAGING["limit"]}
    return (
        Route(
            "GET",
            "/v1/queue",
            "Who waits, in order; who runs",
            "component.read",
            own.queue,
            limit,
            gives=api.Queue,
        ),
        Route(
            "GET",
            "/v1/quota",
            "What is mine and what it costs",
            "catalog.read",
            own.quota,
            _WHERE,
            gives=api.QuotaAnswer,
        ),
        Route("GET", "/v1/costs", "What it cost so far", "cost.read", own.costs, by, gives=api.CostAnswer),
        Route(
            "GET",
            "/v1/coverage",
            "GPU time through component types, and through raw",
            "cost.read",
            own.coverage,
            {**_WHERE, "window": "how far back, up to 366d; 30d without it"},
            gives=api.Coverage,
        ),
        Route(
            "GET",
            "/v1/usage",
            "Held GPU time",
            "cost.read",
            own.usage,
            {**_WHERE, **_PAGING},
            gives=api.UsageList,
        ),
    )


def _records(own: Operations) -> tuple[Route, ...]:
    watch = {
        "since": "after this event id",
        "watch": "true: stream as server-sent events",
        "last": "the newest so many, 1 to 500, instead",
        **_PAGING,
    }
    return (
        Route(
            "GET",
            "/v1/decisions",
            "Decisions, newest first",
            "decision.read",
            own.decisions,
            {**_OWNER, "project": "of one project", "component": "of one component", **_PAGING},
            gives=api.DecisionList,
        ),
        Route("GET", "/v1/decisions/{id}", "One decision", "decision.read", own.decision, gives=api.Decision),
        Route(
            "GET",
            "/v1/events",
            "What happened, oldest first",
            "event.read",
            own.events,
            watch,
            gives=api.EventList,
            headers={"Last-Event-ID": "with watch: after this event id"},
            streams="text/event-stream",
        ),
        Route(
            "GET",
            "/v1/slo",
            "How the platform keeps its promises",
            "component.read",
            own.slo,
            {"window": "how far back, up to 30d; 24h without it"},
            gives=api.ServiceLevels,
        ),
        Route(
            "GET",
            "/v1/audit",
            "Who did what, newest first",
            "audit.read",
            own.audit,
            {**_OWNER, **_PAGING},
            gives=api.AuditList,
        ),
    )


def _fleet(own: Operations) -> tuple[Route, ...]:
    return (
        Route(
            "GET",
            "/v1/nodes",
            "Nodes and their free GPUs",
            "node.read",
            own.nodes,
            _PAGING,
            gives=api.NodeList,
        ),
        Route(
            "GET",
            "/v1/revision",
            "The catalog's revision",
            "catalog.read",
            own.revision,
            {"at": "one older revision"},
            gives=api.Revision,
        ),
        Route("GET", "/v1/version", "The server's version", "self.read", own.version, gives=api.Version),
    )


def _moves(own: Defragmentation) -> tuple[Route, ...]:
    return (
        Route(
            "GET",
            "/v1/defrag",
            "Which moves would free which hole, at what cost",
            "node.read",
            own.proposals,
            {"component": "for one component that waits: project/env/name", **HOLE},
            gives=api.DefragProposals,
        ),
        Route(
            "POST",
            "/v1/defrag",
            "Move work as planned, to make a place for a component that waits",
            "workload.move",
            own.carry_out,
            takes=api.DefragRequest,
            gives=api.DefragProposal,
        ),
    )


def _loss(own: Sites) -> Route:
    return Route(
        "POST",
        "/v1/sites/{name}/lost",
        "Give up a site whose agent is away: its work ends as lost",
        "site.lose",
        own.lose,
        takes=api.SiteLossRequest,
        gives=api.SiteLoss,
    )


def _agents(own: Agents) -> tuple[Route, ...]:
    site = "/v1/sites/{name}"
    wait = {"wait": "at most so many seconds, 0 to 60"}
    newer = {"generation": "answer when there is something newer", **wait}
    link: Action = "site.link"
    return (
        Route(
            "GET",
            f"{site}/desired",
            "For its agent: what the site should hold",
            link,
            own.desired,
            newer,
            gives=Desired,
        ),
        Route(
            "POST",
            f"{site}/reports",
            "From its agent: what the site sees",
            link,
            own.report,
            takes=SiteReport,
        ),
        Route(
            "GET",
            f"{site}/questions",
            "For its agent: logs that are asked for",
            link,
            own.questions,
            wait,
            gives=LogQuestions,
        ),
        Route(
            "POST", f"{site}/answers", "From its agent: a part of a log", link, own.answer, takes=LogAnswer
        ),
    )


def _keys(own: People) -> tuple[Route, ...]:
    owned = {**_OWNER, **_PAGING}
    key = "/v1/keys/{id}"
    read: Action = "key.read"
    write: Action = "key.write"
    return (
        Route("GET", "/v1/whoami", "Who am I, what may I do", "self.read", own.whoami, gives=api.WhoAmI),
        Route("GET", "/v1/keys", "API keys, without secrets", read, own.keys, owned, gives=api.KeyList),
        Route(
            "POST",
            "/v1/keys",
            "Make an API key",
            write,
            own.create_key,
            takes=api.KeyRequest,
            gives=api.NewKey,
            makes=True,
        ),
        Route("DELETE", key, "Revoke an API key", write, own.revoke_key),
        Route(
            "POST",
            f"{key}/rotate",
            "Make a successor of an API key, which works on for a while",
            write,
            own.rotate_key,
            takes=api.RotateRequest,
            gives=api.NewKey,
            makes=True,
        ),
    )


def _tokens_and_accounts(own: People) -> tuple[Route, ...]:
    owned = {**_OWNER, **_PAGING}
    token, account = "/v1/tokens/{id}", "/v1/serviceaccounts/{name}"
    read: Action = "key.read"
    write: Action = "key.write"
    return (
        Route(
            "GET",
            "/v1/tokens",
            "Short-lived tokens, without secrets",
            read,
            own.tokens,
            owned,
            gives=api.TokenList,
        ),
        Route(
            "POST",
            "/v1/tokens",
            "Exchange what was shown for a short-lived token that may do no more",
            "token.create",
            own.create_token,
            takes=api.TokenRequest,
            gives=api.NewToken,
            makes=True,
        ),
        Route("DELETE", token, "Revoke a short-lived token of one's own", "self.read", own.revoke_token),
        Route(
            "GET",
            "/v1/serviceaccounts",
            "Service accounts",
            read,
            own.accounts,
            owned,
            gives=api.ServiceAccountList,
        ),
        Route(
            "POST",
            "/v1/serviceaccounts",
            "Make a service account",
            write,
            own.create_account,
            takes=api.ServiceAccountRequest,
            gives=api.ServiceAccount,
            makes=True,
        ),
        Route("DELETE", account, "Delete a service account; its keys end", write, own.delete_account, _OWNER),
    )


def _open(plane: ControlPlane, closed: tuple[Route, ...]) -> tuple[Route, ...]:
    """Without a key: health for load balancers, metrics for Prometheus, the API's own description."""
    description = msgspec.json.encode(describe(closed))

    async def alive(_: Mapping[str, str]) -> Response:
        return Response(200, b'{"status":"ok"}')

    async def ready(_: Mapping[str, str]) -> Response:
        if plane.door.cut_off:
            return Response(503, b'{"status":"cut off from the database"}')
        if plane.scheduler.ready:
            return Response(200, b'{"status":"ready"}')
        return Response(503, b'{"status":"starting"}')

    async def measured(_: Mapping[str, str]) -> Response:
        measure(plane.scheduler.state, plane.scheduler.nodes, leads=plane.leadership.leads)
        return Response(200, metrics.render(), b"text/plain; version=0.0.4; charset=utf-8")

    async def described(_: Mapping[str, str]) -> Response:
        return Response(200, description)

    async def page(_: Mapping[str, str]) -> Response:
        return Response(200, PAGE, b"text/html; charset=utf-8")

    async def logins(_: Mapping[str, str]) -> Response:
        return answer(login_info(plane))

    return (
        Route("GET", "/v1/identity", "How to log in: the identity providers", None, logins),
        Route("GET", "/healthz", "The process answers", None, alive),
        Route("GET", "/readyz", "The platform is ready for work", None, ready),
        Route("GET", "/metrics", "Prometheus metrics", None, measured, media="text/plain"),
        Route("GET", "/openapi.json", "This API, described", None, described),
        Route("GET", "/docs", "This API, for people", None, page, media="text/html"),
    )
