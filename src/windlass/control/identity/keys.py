"""API keys and short-lived tokens: made, shown once, stored as a hash, checked, rotated, revoked.

How a secret is written is `core/identity/secret_form.py`. It holds 256 bits of chance, and random
secrets need no slow hash: SHA-256 is what is stored and looked up.
"""

from __future__ import annotations

import asyncio
import hashlib
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import msgspec

from windlass.control.db import accounts, events, keys
from windlass.control.db.idempotency import Answer, Once, keep, replay
from windlass.control.db.keys import KeyRow
from windlass.control.db.port import EventRow, Row, Store, Tx
from windlass.control.identity.granting import Wish, checked_role, exchange, grant_key
from windlass.control.identity.scopes import Limits, Principal, Role, Scope, system_scope
from windlass.core.errors import BadRequest, Conflict, NotFound, Unauthenticated, Unavailable
from windlass.core.identity.secret_form import Kind, is_ours, is_whole, written
from windlass.core.units import Ms, format_timestamp, parse_timestamp
from windlass.runtime.clock import Clock
from windlass.runtime.ids import Ids

MAX_TOKEN_S = 3600
_MAX_CACHED = 10_000
_STORE_USE_S = 60.0
_REMEMBER_TOKENS = Ms(86_400_000)
"""How long the row of an expired token is kept, for whoever asks what it was."""


@dataclass(frozen=True, slots=True)
class NewKey:
    id: str
    secret: str


class Keyring:
    """Authenticates; remembers keys it has seen so that a request costs one hash and one look-up."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        ids: Ids,
        chance: Callable[[], str] = lambda: secrets.token_urlsafe(32),
    ) -> None:
        self._store = store
        self._clock = clock
        self._ids = ids
        self._chance = chance
        self._scope = system_scope("identity")
        self._known: dict[str, Principal] = {}
        store.listen(self._heard)
        self._revoked: set[str] = set()
        self._ends: dict[str, Ms] = {}
        """When rotated keys end; whoever opened a stream with one has another end in mind."""
        self.used: dict[str, Ms] = {}
        """Keys used since their use was last stored, and when."""

    async def authenticate(self, token: str) -> Principal:
        digest = _digest(token)
        principal = self._known.get(digest)
        if principal is None:
            principal = await self._look_up(token, digest)
        if principal.expires is not None and self._clock() >= principal.expires:
            self._known.pop(digest, None)
            what = "API key" if principal.via == "key" else "token"
            raise Unauthenticated(f"this {what} has expired", remedy="ask for a new one")
        self.used[principal.key_id] = self._clock()
        return principal

    async def store_use(self) -> None:
        """When each key was last used, in one transaction for all; what a crash loses is a minute of it."""
        noted, self.used = self.used, {}

        async def unit(tx: Tx) -> None:
            for id, at in noted.items():
                await keys.note_used(tx, id, at)
            await keys.forget_tokens(tx, Ms(self._clock() - _REMEMBER_TOKENS))

        if not noted:
            return
        try:
            await self._store.unit(self._scope, unit)
        except Unavailable:
            self.used = {**noted, **self.used}

    async def keep_use(self) -> None:
        """For ever, off the path of every request."""
        while True:
            await asyncio.sleep(_STORE_USE_S)
            await self.store_use()

    def holds(self, principal: Principal) -> bool:
        """Whether the key that was shown is still good; for answers that go on."""
        shown = {principal.key_id, principal.parent or ""}
        ends = [self._ends[id] for id in shown & self._ends.keys()]
        if principal.expires is not None:
            ends.append(principal.expires)
        return self._revoked.isdisjoint(shown) and all(self._clock() < end for end in ends)

    async def create(
        self,
        scope: Scope,
        principal: Principal,
        wish: Wish,
        expires_in: Ms | None,
        request_id: str,
        once: Once | None = None,
    ) -> NewKey:
        """The secret is in the answer and nowhere else, so a replay cannot repeat it: it is a conflict
        that names the key, and no second key is made."""
        now = self._clock()
        granted = grant_key(principal, wish)
        row = _row("key", granted, now, Ms(now + expires_in) if expires_in is not None else None)

        async def unit(tx: Tx) -> NewKey:
            await _refuse_replay(tx, once)
            if granted.account is not None:
                account = await accounts.one(tx, granted.account, granted.tenant)
                if account is None or account["role"] != granted.role:
                    raise NotFound(f"there is no service account {granted.account}")
            return await self._make(tx, row, request_id, once)

        return await self._store.unit(scope, unit)

    async def exchange(
        self,
        scope: Scope,
        principal: Principal,
        asked: Limits,
        lifetime: Ms,
        request_id: str,
        once: Once | None = None,
    ) -> NewKey:
        """A token for what was shown: the same person, never wider, never longer."""
        now = self._clock()
        limits = exchange(principal, asked)
        expires = Ms(min(now + lifetime, principal.expires if principal.expires is not None else 2**62))
        wish = Wish(principal.name, principal.role, principal.tenant, limits, principal.account)
        row = _row("token", wish, now, expires, principal.key_id)

        async def unit(tx: Tx) -> NewKey:
            await _refuse_replay(tx, once)
            return await self._make(tx, row, request_id, once)

        return await self._store.unit(scope, unit)

    async def rotate(
        self,
        scope: Scope,
        principal: Principal,
        id: str,
        overlap: Ms,
        request_id: str,
        once: Once | None = None,
    ) -> NewKey:
        """A successor with the same rights and length of life; the old key works on for the overlap."""

        async def unit(tx: Tx) -> NewKey:
            await _refuse_replay(tx, once)
            now = self._clock()
            row = await keys.with_id(tx, id)
            _check_rotatable(row, id, now)
            assert row is not None
            wish = grant_key(principal, _wish(row))
            lived = row["expires_ms"] - row["created_ms"] if row["expires_ms"] is not None else None
            successor = _row("key", wish, now, Ms(now + lived) if lived is not None else None)
            made = await self._make(tx, successor, request_id, once)
            until = Ms(min(now + overlap, row["expires_ms"] if row["expires_ms"] is not None else 2**62))
            await keys.replace(tx, id, made.id, until)
            told = {"successor": made.id, "until": format_timestamp(until)}
            tenant = row["tenant"]
            await events.audit(tx, now, "key.rotate", id, tenant=tenant, request_id=request_id, detail=told)
            await events.emit(tx, now, "key.rotated", id, tenant=tenant, data=told)
            return made

        return await self._store.unit(scope, unit)

    async def bootstrap(self, name: str, role: Role, tenant: str | None = None) -> NewKey:
        """A key made by the platform itself at start; older keys of that name stop working."""

        async def unit(tx: Tx) -> NewKey:
            for row in await keys.with_name(tx, name):
                if (row["role"], row["tenant"]) == (role, tenant):  # others may share the name
                    await self.end(tx, row, "start")
            made = _row("key", Wish(name, role, tenant), self._clock(), None)
            return await self._make(tx, made, "start")

        return await self._store.unit(self._scope, unit)

    async def revoke(self, scope: Scope, id: str, request_id: str, once: Once | None = None) -> None:
        """Twice is once: what is revoked stays as it is."""

        async def unit(tx: Tx) -> None:
            if await replay(tx, once) is not None:
                return
            row = await keys.with_id(tx, id)
            if row is None:
                raise NotFound(f"there is no key {id[:100]}", remedy="`windlass key list` lists them")
            await self.end(tx, row, request_id)
            await keep(tx, once, Answer(204, "{}"), self._clock())

        await self._store.unit(scope, unit)
        self._forget({id})  # others hear of it, here it counts from the answer on

    async def end(self, tx: Tx, row: Row, request_id: str) -> None:
        """Within somebody's transaction; what is remembered of it goes with the event, after the commit."""
        now, id, tenant = self._clock(), row["id"], row["tenant"]
        if await keys.revoke(tx, id, now):
            action = f"{row['kind']}.revoke"
            await events.audit(tx, now, action, id, tenant=tenant, request_id=request_id)
            await events.emit(tx, now, f"{action}d", id, tenant=tenant)

    async def _make(self, tx: Tx, row: KeyRow, request_id: str, once: Once | None = None) -> NewKey:
        id = self._ids(row.kind)
        secret = written(row.kind, id, self._chance())
        await keys.insert(tx, replace(row, id=id, hash=_digest(secret)))
        detail = {"name": row.name, "role": row.role} | _told(row)
        action = f"{row.kind}.create"
        await events.audit(
            tx, row.created, action, id, tenant=row.tenant, request_id=request_id, detail=detail
        )
        await events.emit(tx, row.created, f"{action}d", id, tenant=row.tenant, data=detail)
        await keep(tx, once, Answer(201, id), row.created)
        return NewKey(id, secret)

    def _heard(self, rows: Sequence[EventRow]) -> None:
        """What was revoked or rotated, by whomever, is not as we remember it."""
        for row in rows:
            if row.type == "key.rotated":
                self._ends[row.subject] = parse_timestamp(msgspec.json.decode(row.data)["until"])
                self._forget_known({row.subject})
        if gone := {row.subject for row in rows if row.type in ("key.revoked", "token.revoked")}:
            self._forget(gone)

    def _forget(self, gone: set[str]) -> None:
        """They open nothing any more, and what they opened ends."""
        self._revoked |= gone
        self._forget_known(gone)

    def _forget_known(self, changed: set[str]) -> None:
        self._known = {
            digest: known
            for digest, known in self._known.items()
            if changed.isdisjoint((known.key_id, known.parent))
        }

    async def _look_up(self, token: str, digest: str) -> Principal:
        if is_ours(token) and not is_whole(token):
            raise Unauthenticated(
                "this API key is mistyped or cut off: its checksum does not fit",
                remedy="copy it again, whole; check WINDLASS_API_KEY or the context",
            )

        async def load(tx: Tx) -> Row | None:
            return await keys.with_hash(tx, digest)

        row = await self._store.read(self._scope, load)
        if row is None or row["revoked_ms"] is not None or row["id"] in self._revoked:  # or while we looked
            raise Unauthenticated(
                "this API key is not known or was revoked",
                remedy="check WINDLASS_API_KEY or the context; `windlass up` writes a fresh key for `local`",
            )
        principal = _principal(row)
        if len(self._known) >= _MAX_CACHED:
            self._known.clear()
        self._known[digest] = principal
        return principal


def _principal(row: Row) -> Principal:
    wish = _wish(row)
    return Principal(
        f"service-account:{wish.account}" if wish.account is not None else wish.name,
        wish.role,
        wish.tenant,
        row["id"],
        row["expires_ms"],
        via=row["kind"],
        account=wish.account,
        parent=row["parent"],
        limits=wish.limits,
    )


def _wish(row: Row) -> Wish:
    actions = frozenset(row["actions"].split()) or None
    limits = Limits(actions, row["project"], row["site"])
    return Wish(row["name"], checked_role(row["role"]), row["tenant"], limits, row["account"])


def _row(kind: Kind, wish: Wish, now: Ms, expires: Ms | None, parent: str | None = None) -> KeyRow:
    """Without its id and secret, which are drawn in the transaction."""
    return KeyRow(
        id="",
        kind=kind,
        name=wish.name,
        role=wish.role,
        tenant=wish.tenant,
        hash="",
        created=now,
        expires=expires,
        parent=parent,
        account=wish.account,
        actions=" ".join(sorted(wish.limits.actions or ())),
        project=wish.limits.project,
        site=wish.limits.site,
    )


def _told(row: KeyRow) -> dict[str, str]:
    """What else is worth an event, of what there is."""
    found = {
        "serviceAccount": row.account,
        "actions": row.actions,
        "project": row.project,
        "site": row.site,
        "parent": row.parent,
    }
    return {name: value for name, value in found.items() if value}


def _check_rotatable(row: Row | None, id: str, now: Ms) -> None:
    if row is None or row["kind"] != "key":
        raise NotFound(f"there is no key {id[:100]}", remedy="`windlass key list` lists them")
    if row["replaced_by"] is not None:
        raise Conflict(
            f"{id} was rotated already; its successor is {row['replaced_by']}",
            remedy=f"rotate {row['replaced_by']}, or revoke both and make another",
        )
    if row["revoked_ms"] is not None or (row["expires_ms"] is not None and now >= row["expires_ms"]):
        raise Conflict(f"{id} does not work any more", remedy="make a new key with `windlass key create`")


async def _refuse_replay(tx: Tx, once: Once | None) -> None:
    if (kept := await replay(tx, once)) is not None:
        raise Conflict(
            f"{kept.body} was made in answer to this Idempotency-Key; a secret is shown only once",
            remedy=f"if the answer was lost, revoke {kept.body} and make another with a new key",
        )


def checked_lifetime(seconds: int) -> Ms:
    if not 1 <= seconds <= MAX_TOKEN_S:
        raise BadRequest(
            f"a token lives for 1 to {MAX_TOKEN_S} seconds, not {seconds}",
            remedy="send lifetimeS within that",
        )
    return Ms(seconds * 1000)


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).hexdigest()
