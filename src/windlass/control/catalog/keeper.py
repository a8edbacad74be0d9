"""The catalog in force: one immutable snapshot, replaced whole by each accepted change.

A change is decided by core/catalog on the snapshot, stored as rows and a revision in one transaction,
and becomes `current` as the last act of its unit, so that a submit behind it in the same transaction
is judged by what it made; if the commit fails, both fail and the old catalog is back. Before any unit
runs, a replica that missed a revision catches up: nobody is judged by an old catalog.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib.resources import files

import msgspec

from windlass.contracts import api
from windlass.control.billing.currencies import recount_budgets, refuse_mixed_money
from windlass.control.billing.prices import Prices, stored_timeline
from windlass.control.catalog.users import refuse_breaking
from windlass.control.db import accounts, components, documents, events, keys, ledger, nodes, workloads
from windlass.control.db.idempotency import Answer, Once, keep, replay
from windlass.control.db.port import Store, Tx
from windlass.control.identity.scopes import Scope, system_scope
from windlass.control.sites import presence
from windlass.core.catalog.changes import Change, apply_documents, delete_document
from windlass.core.catalog.snapshot import EMPTY, Catalog
from windlass.core.documents.kinds import Document, DocumentKey
from windlass.core.documents.parse import parse_all
from windlass.core.documents.problems import Located, invalid
from windlass.core.documents.tree import read_json, read_yaml
from windlass.core.documents.wire import write_document
from windlass.core.errors import Conflict, NotFound
from windlass.core.ledger.prices import PriceTimeline
from windlass.core.units import Ms
from windlass.runtime.clock import Clock
from windlass.runtime.metrics import CATALOG_REVISION

_encode = msgspec.json.Encoder(order="sorted", decimal_format="number").encode
_decode = msgspec.json.Decoder(api.ApplyAnswer).decode

Check = Callable[[Catalog], None]
"""Raises where the change may not be made to this catalog, the one in force when its turn comes."""


def _anything(_: Catalog) -> None:
    """The platform's own changes."""


class CatalogKeeper:
    def __init__(self, store: Store, clock: Clock, prices: Prices) -> None:
        self.current: Catalog = EMPTY
        self._store = store
        self._clock = clock
        self._prices = prices
        self._scope = system_scope("catalog")
        self._older: dict[int, Catalog] = {}
        store.before_units(self._catch_up)

    async def load(self) -> None:
        """The newest revision, from the store."""

        async def newest(tx: Tx) -> tuple[Catalog, PriceTimeline]:
            row = await documents.newest_revision(tx)
            return await _read(tx, row["revision"] if row is not None else 0), await stored_timeline(tx)

        self._become(*await self._store.read(self._scope, newest))

    async def _catch_up(self, tx: Tx) -> None:
        """In the transaction whose units follow: theirs is the newest catalog there is."""
        revision = tx.newest("catalog")
        if revision > self.current.revision:
            self._become(await _read(tx, revision), await stored_timeline(tx))

    async def at(self, revision: int) -> Catalog:
        """The catalog as it was. Old revisions never change, so the last few asked for are kept."""
        if revision == self.current.revision:
            return self.current
        if not 0 <= revision < self.current.revision:
            raise NotFound(
                f"there is no revision {revision}", remedy=f"the catalog is at {self.current.revision}"
            )
        if revision not in self._older:
            while len(self._older) >= 4:
                self._older.pop(next(iter(self._older)))

            async def load(tx: Tx) -> Catalog:
                return await _read(tx, revision)

            self._older[revision] = await self._store.read(self._scope, load)
        return self._older[revision]

    async def apply(
        self,
        scope: Scope,
        changed: Sequence[Document],
        expected: Mapping[DocumentKey, int],
        sources: Mapping[DocumentKey, Located],
        request_id: str,
        once: Once | None,
        check: Check = _anything,
    ) -> api.ApplyAnswer:
        """All or nothing: every document of one request, one new revision (or none, if nothing changed)."""

        async def unit(tx: Tx) -> api.ApplyAnswer:
            replayed = await replay(tx, once)
            if replayed is not None:
                return _decode(replayed.body)
            check(self.current)
            now = self._clock()
            change = apply_documents(self.current, changed, expected=expected, sources=sources)
            await self._refuse_what_breaks(tx, change.catalog)
            await recount_budgets(tx, self.current, change.catalog)
            answer = _answer(change, change.catalog.revision)
            await self._store_change(tx, change, now, request_id)
            await keep(tx, once, Answer(200, msgspec.json.encode(answer).decode()), now)
            await self._replace(tx, change.catalog)
            return answer

        return await self._store.unit(scope, unit)

    async def foresee(
        self,
        changed: Sequence[Document],
        expected: Mapping[DocumentKey, int],
        sources: Mapping[DocumentKey, Located],
    ) -> tuple[api.ApplyAnswer, Catalog]:
        """What `apply` would answer now, and the catalog it would make; nothing changes."""
        change = apply_documents(self.current, changed, expected=expected, sources=sources)

        async def check(tx: Tx) -> None:
            await self._refuse_what_breaks(tx, change.catalog)

        await self._store.read(self._scope, check)
        return _answer(change, self.current.revision), change.catalog

    async def delete(
        self,
        scope: Scope,
        key: DocumentKey,
        expected: int | None,
        request_id: str,
        once: Once | None,
        check: Check = _anything,
    ) -> None:

        async def unit(tx: Tx) -> None:
            if await replay(tx, once) is not None:
                return
            check(self.current)
            now = self._clock()
            if key.kind == "Project" and (users := await components.in_project(tx, key.name)):
                raise Conflict(
                    f"the project {key.name} is in use by {', '.join(users)}",
                    remedy="cancel and delete its components first",
                )
            change = delete_document(self.current, key, expected=expected)
            await refuse_breaking(tx, self.current, change.catalog)
            await _take_along(tx, key, change.catalog, now)
            await self._store_change(tx, change, now, request_id)
            await keep(tx, once, Answer(204, "{}"), now)
            await self._replace(tx, change.catalog)

        await self._store.unit(scope, unit)

    async def _replace(self, tx: Tx, catalog: Catalog) -> None:
        before = self.current, self._prices.timeline
        same = catalog.price_books == self.current.price_books
        prices = self._prices.timeline if same else await stored_timeline(tx)
        tx.on_undo(lambda: self._become(*before))
        self._become(catalog, prices)

    async def _refuse_what_breaks(self, tx: Tx, following: Catalog) -> None:
        await self._refuse_dropped_environments(tx, following)
        await refuse_breaking(tx, self.current, following)
        await refuse_mixed_money(tx, self.current, following)

    async def _refuse_dropped_environments(self, tx: Tx, following: Catalog) -> None:
        for name, entry in following.projects.items():
            before = self.current.projects.get(name)
            dropped = set(before.spec.environments) - set(entry.spec.environments) if before else set()
            for env in sorted(dropped):
                users = await components.in_project(tx, name, env)
                if users:
                    raise Conflict(
                        f"the environment {env} of {name} is in use by {', '.join(users)}",
                        remedy="cancel and delete its components first",
                    )

    async def seed_demo(self) -> None:
        """The demo's documents, into an empty catalog."""
        text = files("windlass.control.catalog").joinpath("demo", "catalog.yaml").read_text(encoding="utf-8")
        parsed = parse_all(read_yaml(text))
        if parsed.problems:
            raise invalid(parsed.problems)
        found = [item.value for item in parsed.documents]
        await self.apply(system_scope("demo"), found, {}, {}, "start", None)

    async def _store_change(self, tx: Tx, change: Change, now: Ms, request_id: str) -> None:
        revision = change.catalog.revision
        if revision == self.current.revision:
            return
        await documents.add_revision(tx, revision, now)
        for outcome in change.outcomes:
            if outcome.result == "unchanged":
                continue
            document, key = outcome.document, outcome.key
            if outcome.result == "deleted":
                await documents.remove(tx, key, revision)
            else:
                body = _encode(write_document(document)).decode()
                await documents.put(tx, key, document.metadata.version or 1, revision, body)
            tenant = document.metadata.name if document.kind == "Tenant" else document.metadata.tenant
            told = {"kind": key.kind, "name": key.name, "revision": revision, "outcome": outcome.result}
            subject = f"{key.kind}/{key.name}"
            await events.audit(
                tx,
                now,
                f"catalog.{outcome.result}",
                subject,
                tenant=tenant,
                request_id=request_id,
                detail=told,
            )
            await events.emit(tx, now, f"catalog.{outcome.result}", subject, tenant=tenant, data=told)

    def _become(self, catalog: Catalog, prices: PriceTimeline) -> None:
        self.current = catalog
        self._prices.timeline = prices
        CATALOG_REVISION.set(catalog.revision)


async def _read(tx: Tx, revision: int) -> Catalog:
    if revision == 0:
        return EMPTY
    parsed = parse_all([tree for row in await documents.at(tx, revision) for tree in read_json(row["body"])])
    assert not parsed.problems, f"stored documents do not parse: {parsed.problems}"
    return Catalog.build(revision, [item.value for item in parsed.documents])


def _answer(change: Change, revision: int) -> api.ApplyAnswer:
    results = [
        api.Result(
            kind=outcome.key.kind,
            name=outcome.key.name,
            tenant=outcome.key.tenant or None,
            outcome="created"
            if outcome.result == "created"
            else "changed"
            if outcome.result == "changed"
            else "unchanged",
            version=outcome.document.metadata.version,
        )
        for outcome in change.outcomes
    ]
    return api.ApplyAnswer(results=results, revision=revision)


async def _take_along(tx: Tx, key: DocumentKey, following: Catalog, now: Ms) -> None:
    """What goes with a document that is deleted."""
    if key.kind == "Tenant":
        # A later tenant of that name is another one.
        await accounts.delete_all_of(tx, key.name)
        await ledger.forget_spent(tx, key.name)
        for id in await keys.revoke_all_of(tx, key.name, now):
            await events.emit(tx, now, "key.revoked", id, tenant=key.name)
    if key.kind == "Site" and key.name not in following.sites:  # `local` is there again, as it was shipped
        await _close_site(tx, key.name, now)
    if key.kind == "IdentityProvider":
        # Nor is a later provider of that name the one whose logins were exchanged.
        for row in await keys.revoke_exchanged_by(tx, key.name, now):
            await events.emit(tx, now, "token.revoked", row["id"], tenant=row["tenant"])


async def _close_site(tx: Tx, site: str, now: Ms) -> None:
    """A later site of that name is another one: it has other machines, and an agent with another key."""
    if users := await workloads.paths_at(tx, site):
        raise Conflict(
            f"the site {site} is in use by {', '.join(users)}",
            remedy="cancel what runs there, and wait until its agent has told that it ended; of a site that"
            f" never comes back, `windlass site lost {site}` ends it",
        )
    await nodes.replace(tx, site, ())
    await presence.forget(tx, site)
    await events.emit(tx, now, "site.nodes", site, tenant=None, data={"nodes": 0})
    for id in await keys.revoke_all_at(tx, site, now):
        await events.emit(tx, now, "key.revoked", id, tenant=None)
