"""POST /v1/apply: documents in, one result per document out.

All catalog documents of a request are one change, all or nothing; after them the components go in
one by one, each with its own decision. What is malformed is refused whole, before anything is
touched. The answer's status is that of the worst document.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from windlass.contracts import api
from windlass.control.components.affected import affected_by
from windlass.control.components.hearsay import heard, named
from windlass.control.components.rejections import rejected
from windlass.control.components.submit import Submission, foresee, submit
from windlass.control.gateway.confine import check_project
from windlass.control.gateway.once import once
from windlass.control.gateway.ownership import owned
from windlass.control.gateway.request import Request, Response, answer
from windlass.control.identity.authorize import authorize, may
from windlass.control.identity.scopes import Principal, Scope
from windlass.core.admission.delegation import beyond_the_tenant
from windlass.core.catalog.changes import problems_beside
from windlass.core.catalog.snapshot import Catalog
from windlass.core.documents.kinds import Document, Envelope
from windlass.core.documents.parse import Item, Parsed, parse_all
from windlass.core.documents.problems import Problem, invalid
from windlass.core.documents.tree import Tree, read_json, read_yaml
from windlass.core.errors import BadRequest, Conflict, Invalid, NotPermitted, WindlassError
from windlass.core.intent import Intent
from windlass.core.scheduling.engine import what_if
from windlass.core.scheduling.model import Shape, Waiting
from windlass.core.units import Ms, format_timestamp

if TYPE_CHECKING:
    from windlass.control.app import ControlPlane


_NOT_COUNTED = "planned alone: other components of this request are not counted"
_AFTER_THE_CATALOG = "where and when is known once the documents of this plan are applied"


class Apply:
    def __init__(self, plane: ControlPlane) -> None:
        self._plane = plane

    async def __call__(self, request: Request) -> Response:
        parsed = parse_all(read_body(request))
        if parsed.problems:
            raise invalid(self._all_problems(request.principal, parsed))
        if not parsed.documents and not parsed.intents:
            raise Invalid("the request holds no document", remedy="send one document or a list of them")
        dry_run = request.flag("dryRun")
        catalog_scope = self._catalog_scope(request.principal, parsed)
        intent_scope = authorize(request.principal, "component.write") if parsed.intents else request.scope
        for item in parsed.intents:
            check_project(request.principal, "component.write", item.value.project)
        version = _if_match(request, parsed)
        applied, catalog = await self._documents(request, catalog_scope, parsed, version, dry_run=dry_run)
        results = list(applied.results)
        failure: WindlassError | None = None
        several = len(parsed.documents) + len(parsed.intents) > 1
        for number, item in enumerate(parsed.intents):
            try:
                if dry_run:
                    alone = len(parsed.intents) == 1
                    results.append(await self._plan(intent_scope, item.value, catalog, version, alone=alone))
                else:
                    results.append(
                        await self._submit(request, intent_scope, item, number, version, several=several)
                    )
            except Conflict as error:
                failure = failure or error
                results.append(_refused(item.value, error))
        revision = (
            applied.revision if parsed.documents or dry_run else _judged_under(results, applied.revision)
        )
        return _answer(results, failure, revision, dry_run=dry_run, affected=applied.affected)

    def _all_problems(self, principal: Principal, parsed: Parsed) -> list[Problem]:
        """Of the malformed documents, and of the others as far as they can be judged without those and
        the asker may write them: an author hears everything at once."""
        try:
            self._catalog_scope(principal, parsed)
        except NotPermitted:
            return list(parsed.problems)
        catalog = self._plane.catalog.current
        further = problems_beside(catalog, parsed.documents, parsed.malformed) if parsed.whole else []
        return sorted([*parsed.problems, *further], key=lambda problem: problem.index)

    def _catalog_scope(self, principal: Principal, parsed: Parsed) -> Scope:
        """A platform-admin writes everything; a tenant-admin its projects and the envelopes below its own."""
        if not parsed.documents:
            return authorize(principal, "self.read")
        if may(principal, "catalog.write"):
            return authorize(principal, "catalog.write")
        scope = authorize(principal, "tenant.write")
        _check_writer(principal, [item.value for item in parsed.documents], self._plane.catalog.current)
        return scope

    async def _documents(
        self, request: Request, scope: Scope, parsed: Parsed, version: int | None, *, dry_run: bool
    ) -> tuple[api.ApplyAnswer, Catalog]:
        """What became of them, and the catalog that is (or would be) after them."""
        keeper = self._plane.catalog
        if not parsed.documents:
            return api.ApplyAnswer(results=[], revision=keeper.current.revision), keeper.current
        documents = [item.value for item in parsed.documents]
        expected = {document.key: version for document in documents} if version is not None else {}
        sources = {item.value.key: item.tree for item in parsed.documents}
        if dry_run:
            answer, following = await keeper.foresee(documents, expected, sources)
            return await self._with_affected(request.principal, scope, answer, following), following
        # Again when its turn has come: what the tenant was given may have changed by then.
        check = partial(_check_writer, request.principal, documents)
        applied = await keeper.apply(scope, documents, expected, sources, request.id, once(request), check)
        return applied, keeper.current

    async def _with_affected(
        self, principal: Principal, scope: Scope, told: api.ApplyAnswer, following: Catalog
    ) -> api.ApplyAnswer:
        before = self._plane.catalog.current.documents
        changed = [one for key, one in following.documents.items() if before.get(key) is not one]
        if not changed or not may(principal, "component.read"):
            return told
        affected = await affected_by(self._plane, scope, changed, following)
        return msgspec.structs.replace(told, affected=affected)

    async def _submit(
        self,
        request: Request,
        scope: Scope,
        item: Item[Intent],
        number: int,
        version: int | None,
        *,
        several: bool,
    ) -> api.Result:
        key = once(request)
        if key is not None and several:
            key = key.part(number)
        submission = Submission(item.value, request.id, key, version, trace=request.trace)
        return await submit(self._plane, scope, submission)

    async def _plan(
        self, scope: Scope, intent: Intent, catalog: Catalog, version: int | None, *, alone: bool
    ) -> api.Result:
        """The decision, and what the engine would do with it; nothing is kept."""
        seen = await foresee(self._plane, scope, intent, catalog, version)
        decision, plan = seen.decision, None
        if seen.decided.work is not None and catalog is not self._plane.catalog.current:
            plan = api.Plan(placement=[], after=[], message=_AFTER_THE_CATALOG)
        elif seen.decided.work is not None and seen.outcome != "unchanged":
            plan, starts = self._foretold(scope, intent, seen.decided.work.shape)
            if not alone:
                told = ". ".join(part.rstrip(".") for part in (plan.message, _NOT_COUNTED) if part)
                plan = msgspec.structs.replace(plan, message=told)
            if decision.estimate is not None and starts is not None:
                estimate = msgspec.structs.replace(decision.estimate, starts_at=format_timestamp(starts))
                decision = msgspec.structs.replace(decision, estimate=estimate)
        return api.Result(
            kind="Component",
            name=intent.name,
            project=intent.project,
            env=intent.spec.env,
            tenant=seen.decided.tenant,
            outcome=seen.outcome,
            decision=decision,
            plan=plan,
            reasons=decision.reasons if seen.outcome == "rejected" else [],
            message=seen.message,
        )

    def _foretold(self, scope: Scope, intent: Intent, shape: Shape) -> tuple[api.Plan, Ms | None]:
        """Where it would go and after whom, or why it would wait; and when it would start."""
        now = self._plane.clock()
        guess = what_if(self._plane.scheduler.state, Waiting(intent.path, shape, now), now)
        placed = guess.placement.workers if guess.placement else ()
        plan = api.Plan(
            placement=[
                api.PlannedWorker(worker=at.worker, node=at.node, gpus=list(at.gpus)) for at in placed
            ],
            after=[named(self._plane, scope, path) for path in guess.after],
            cause=guess.cause.cause if guess.cause else None,
            message=heard(self._plane, scope, guess.cause.message) if guess.cause else "",
            ahead=guess.position.ahead if guess.position else None,
        )
        return plan, guess.estimate.starts if guess.estimate else None


def read_body(request: Request) -> list[Tree]:
    return read_json(request.body) if request.media == "json" else read_yaml(request.body)


def _check_writer(principal: Principal, documents: Sequence[Document], catalog: Catalog) -> None:
    if may(principal, "catalog.write"):
        return
    for document in documents:
        _check_tenant_document(principal, document, catalog)


def _check_tenant_document(principal: Principal, document: Document, catalog: Catalog) -> None:
    if not may(principal, "tenant.write", owned(document)):
        raise _not_theirs(principal, document)
    before = catalog.documents.get(document.key)
    if before is not None and not may(principal, "tenant.write", owned(before)):
        raise NotPermitted(
            f"{document.key} would take the place of what the platform has put there",
            remedy="use another metadata.name",
        )
    beyond = list(beyond_the_tenant(document, catalog)) if isinstance(document.spec, Envelope) else []
    if beyond:
        raise NotPermitted(
            f"Envelope {document.metadata.name}: {beyond[0].message}",
            remedy=beyond[0].remedy,
            reasons=beyond,
        )


def _not_theirs(principal: Principal, document: Document) -> NotPermitted:
    if document.metadata.tenant is None:
        return NotPermitted(
            f"{document.key} belongs to the platform", remedy="ask a platform-admin to apply it"
        )
    if document.metadata.tenant != principal.tenant:
        return NotPermitted(
            f"{document.metadata.tenant} is not your tenant",
            remedy=f"use metadata.tenant: {principal.tenant}",
        )
    return NotPermitted(
        "only a platform-admin writes a tenant's own envelope",
        remedy="set scope.project to divide what the tenant has, or ask for a larger envelope",
    )


def _if_match(request: Request, parsed: Parsed) -> int | None:
    version = request.if_match
    if version is not None and len(parsed.documents) + len(parsed.intents) != 1:
        raise BadRequest("If-Match goes with exactly one document", remedy="or set metadata.version in each")
    return version


def _answer(
    results: list[api.Result],
    failure: WindlassError | None,
    revision: int,
    *,
    dry_run: bool,
    affected: api.Affected | None,
) -> Response:
    refused = [result.decision for result in results if result.outcome == "rejected" and result.decision]
    if refused:
        raise rejected(refused[0], results)
    if failure is not None:
        failure.extra = {**failure.extra, "results": msgspec.to_builtins(results)}
        raise failure
    return answer(api.ApplyAnswer(results=results, revision=revision, dry_run=dry_run, affected=affected))


def _judged_under(results: list[api.Result], now: int) -> int:
    """The newest revision a decision was made under: the same when the same request comes again, whatever
    the catalog has become and whichever replica answers."""
    return max((result.decision.catalog_revision for result in results if result.decision), default=now)


def _refused(intent: Intent, error: WindlassError) -> api.Result:
    return api.Result(
        kind="Component",
        name=intent.name,
        project=intent.project,
        env=intent.spec.env,
        outcome="conflict",
        message=error.detail,
    )
