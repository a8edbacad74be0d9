"""Busy neighbours, all of whose names and words carry a mark, for the tests of isolation; and a way to see
what the store was asked."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.control.documents import CATALOG, intent
from tests.control.worlds import Reply, World, make_key

from windlass.control.db.port import Row, Store, T, Tx, Work
from windlass.control.identity.scopes import Scope

MARK = "zqx"
ABSENT = "jqk"
_ID = re.compile(r"\b(dec|req|cmp|wl|key|token|plan)_[0-9a-f]{32}(/[0-9]+)?")

MARKED = (
    CATALOG
    + """
---
apiVersion: windlass.dev/v1
kind: Tenant
metadata: {name: zqxgold, labels: {zqxlabel: zqxvalue}}
spec: {displayName: zqx Gold, tier: gold, contacts: [zqx@zqx.example], currency: EUR}
---
apiVersion: windlass.dev/v1
kind: Project
metadata: {name: zqxchat, tenant: zqxgold}
spec: {environments: [prod, zqxenv], traits: [], defaultProfile: h100-80g}
---
apiVersion: windlass.dev/v1
kind: Envelope
metadata: {name: zqxenvelope, tenant: zqxgold}
spec: {scope: {tenant: zqxgold}, gpus: [{profileClass: h100-80g, guaranteed: 8, max: 16}]}
---
apiVersion: windlass.dev/v1
kind: PriceBook
metadata: {name: foreign}
spec:
  currency: EUR
  effectiveFrom: "2026-01-01T00:00:00Z"
  prices: [{profileClass: h100-80g, perGpuHour: "777"}]
---
apiVersion: windlass.dev/v1
kind: Site
metadata: {name: zqxsite}
spec: {orchestrator: local, tenants: [zqxgold, zqxlow]}
---
apiVersion: windlass.dev/v1
kind: Site
metadata: {name: local}
spec: {orchestrator: local, tenants: [acme, globex, umbra, zqxgold, zqxlow]}
---
apiVersion: windlass.dev/v1
kind: Tenant
metadata: {name: zqxlow}
spec: {displayName: zqx Low, tier: best-effort}
---
apiVersion: windlass.dev/v1
kind: Project
metadata: {name: zqxcheap, tenant: zqxlow}
spec: {environments: [dev], traits: [], defaultProfile: h100-80g}
---
apiVersion: windlass.dev/v1
kind: Envelope
metadata: {name: zqxlow, tenant: zqxlow}
spec: {scope: {tenant: zqxlow}, gpus: [{profileClass: h100-80g, guaranteed: 0, max: 16}]}
---
apiVersion: windlass.dev/v1
kind: IdentityProvider
metadata: {name: corp}
spec:
  issuer: https://login.example.com
  audience: https://windlass.example.com
  clientId: windlass
  mappings:
  - {group: zqx-people, role: developer, tenant: zqxgold}
  - {group: zqx-operators, role: platform-admin}
  - {group: acme-people, role: developer, tenant: acme}
"""
)


def marked(path: str, gpus: int, **spec: Any) -> dict[str, Any]:
    return intent(
        path,
        gpus,
        labels={"zqxlabel": "zqxvalue"},
        image="ghcr.io/zqx/zqx:zqx",
        command=["zqx", "--zqx"],
        variables={"ZQX": "zqx"},
        **spec,
    )


@dataclass(frozen=True)
class Ids:
    """Of what neighbours have, or of nothing."""

    key: str
    rotated: str
    token: str
    decision: str

    def all(self) -> tuple[str, ...]:
        return self.key, self.rotated, self.token, self.decision


NOTHING = Ids("key_" + "f" * 32, "key_" + "e" * 32, "token_" + "f" * 32, "dec_" + "f" * 32)


async def others_everywhere(world: World) -> Ids:
    """zqxlow borrows the whole fleet; zqxgold was refused and waits; its programs have keys and tokens."""
    key = await make_key(world, "zqxkey", "tenant-admin", "zqxgold")
    await make_key(world, "zqxlowkey", "tenant-admin", "zqxlow")
    await world.settle()
    for name in ("zqxone", "zqxtwo"):
        assert (await world.apply(marked(f"zqxcheap/dev/{name}", 8), by="zqxlowkey")).status == 200
    await world.settle()
    for path in ("zqxcheap/dev/zqxone", "zqxcheap/dev/zqxtwo"):
        found = world.workload(path)
        assert found["phase"] == "Running"
        world.site.say(found["id"], found["attempt"], 0, b"zqx says the log\n")
    refused = await world.apply(marked("zqxchat/prod/zqxrefused", 99), by="zqxkey", idempotency_key="zqx")
    ids = Ids(key, await _rotated_key(world), await _token(world), refused.json["decision"]["id"])
    world.advance(60)
    return ids


async def _rotated_key(world: World) -> str:
    """Of a service account, and narrowed to a project."""
    account = {"name": "zqxbot", "role": "developer", "note": "zqx"}
    once = {"Idempotency-Key": "zqx-account"}
    made = await world.call("POST", "/v1/serviceaccounts", account, by="zqxkey", headers=once)
    assert made.status == 201, made.body
    asked = {"name": "zqxbotkey", "serviceAccount": "zqxbot", "project": "zqxchat"}
    made = await world.call("POST", "/v1/keys", asked, by="zqxkey", headers={"Idempotency-Key": "zqx-key"})
    assert made.status == 201, made.body
    id = str(made.json["key"]["id"])
    assert (await world.call("POST", f"/v1/keys/{id}/rotate", {}, by="zqxkey")).status == 201
    return id


async def _token(world: World) -> str:
    once = {"Idempotency-Key": "zqx-token"}
    made = await world.call("POST", "/v1/tokens", {"project": "zqxchat"}, by="zqxkey", headers=once)
    assert made.status == 201, made.body
    return str(made.json["token"]["id"])


def theirs_stored(world: World) -> list[tuple[Any, ...]]:
    tables = ["components", "workloads", "decisions", "holdings", "api_keys", "service_accounts"]
    tables += ["events", "audit", "documents"]
    return [
        tuple(row)
        for table in tables
        for row in world.rows(f"SELECT * FROM {table} WHERE tenant LIKE 'zqx%'")  # noqa: S608 (own tables)
    ]


def plain(reply: Reply, mark: str) -> tuple[int, dict[str, str], str]:
    """The answer without what differs between any two answers: ids, and the mark of the question."""
    headers = {name: value for name, value in reply.headers.items() if name != "x-request-id"}
    headers.pop("content-length", None)
    headers.pop("ratelimit-remaining", None)  # how much the asker may still ask
    headers.pop("ratelimit-reset", None)
    return reply.status, headers, _ID.sub("ID", reply.body.decode()).replace(mark, "MARK")


# --- what the store was asked -----------------------------------------------------------------


@dataclass
class Asked:
    """Statements in order, each with how many rows it gave or changed: the work that was done."""

    work: list[tuple[str, int]] = field(default_factory=list)

    def taken(self) -> list[tuple[str, int]]:
        found, self.work = self.work, []
        return found


async def watched(world: World) -> Asked:
    """From now on, what this world's store is asked."""
    asked = Asked()
    world.database = _Database(world.database, asked)
    await world.restart()
    return asked


class _Around:
    """Everything else is as what it stands around."""

    def __init__(self, inner: Any, asked: Asked) -> None:
        self._inner = inner
        self._asked = asked

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


class _Database(_Around):
    async def open(self) -> Store:
        store: Any = _Store(await self._inner.open(), self._asked)
        return store  # type: ignore[no-any-return]

    def rows(self, statement: str, *args: object) -> Sequence[Any]:
        return self._inner.rows(statement, *args)  # type: ignore[no-any-return]


class _Store(_Around):
    async def unit(self, scope: Scope, work: Work[T]) -> T:
        return await self._inner.unit(scope, self._seen(work))  # type: ignore[no-any-return]

    async def read(self, scope: Scope, work: Work[T], *, scan: bool = False) -> T:
        return await self._inner.read(scope, self._seen(work), scan=scan)  # type: ignore[no-any-return]

    def _seen(self, work: Work[T]) -> Work[T]:
        async def seen(tx: Tx) -> T:
            through: Any = _Tx(tx, self._asked)
            return await work(through)

        return seen


class _Tx(_Around):
    async def rows(self, statement: str, *args: object) -> Sequence[Row]:
        found: Sequence[Row] = await self._inner.rows(statement, *args)
        self._asked.work.append((statement, len(found)))
        return found

    async def rows_of(self, statement: str, keys: Sequence[str], *args: object) -> Sequence[Row]:
        found: Sequence[Row] = await self._inner.rows_of(statement, keys, *args)
        self._asked.work.append((statement, len(found)))
        return found

    async def row(self, statement: str, *args: object) -> Row | None:
        found: Row | None = await self._inner.row(statement, *args)
        self._asked.work.append((statement, found is not None))
        return found

    async def execute(self, statement: str, *args: object) -> int:
        changed: int = await self._inner.execute(statement, *args)
        self._asked.work.append((statement, changed))
        return changed

    async def insert(self, statement: str, *args: object) -> None:
        await self._inner.insert(statement, *args)
        self._asked.work.append((statement, 1))

    async def execute_many(self, statement: str, rows: Sequence[Sequence[object]]) -> int:
        changed: int = await self._inner.execute_many(statement, rows)
        self._asked.work.append((statement, changed))
        return changed

    async def insert_many(self, statement: str, rows: Sequence[Sequence[object]]) -> None:
        await self._inner.insert_many(statement, rows)
        self._asked.work.append((statement, len(rows)))
