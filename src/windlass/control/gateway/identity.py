"""Handlers for who acts: keys, short-lived tokens, service accounts, and who I am."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from windlass.contracts import api
from windlass.control.db import accounts, keys
from windlass.control.db.port import Row, Tx
from windlass.control.gateway.bodies import read_body
from windlass.control.gateway.once import once
from windlass.control.gateway.request import Request, Response, answer
from windlass.control.identity.authorize import PHRASES, Thing, actions_of, may
from windlass.control.identity.granting import Wish, checked_actions, checked_role
from windlass.control.identity.keys import NewKey, checked_lifetime
from windlass.control.identity.scopes import Limits, Principal, Scope
from windlass.core.documents.problems import shown
from windlass.core.errors import BadRequest, NotFound
from windlass.core.units import Ms, format_timestamp

if TYPE_CHECKING:
    from windlass.control.app import ControlPlane


class People:
    def __init__(self, plane: ControlPlane) -> None:
        self._plane = plane

    async def whoami(self, request: Request) -> Response:
        principal = request.principal
        allowed = sorted(actions_of(principal))
        return answer(
            api.WhoAmI(
                name=principal.name,
                role=principal.role,
                tenant=principal.tenant,
                key_id=principal.key_id,
                expires_at=format_timestamp(principal.expires) if principal.expires is not None else None,
                may=list(allowed),
                can=[PHRASES[action] for action in allowed],
                via=principal.via,
                provider=principal.provider,
                service_account=principal.account,
                project=principal.limits.project,
            )
        )

    # --- keys -----------------------------------------------------------------------------------

    async def keys(self, request: Request) -> Response:
        limit = request.limit

        async def load(tx: Tx) -> Sequence[Row]:
            return await keys.page(tx, request.after(), limit + 1, request.place.tenant, "key")

        rows = await self._plane.store.read(request.scope, load)
        used = self._plane.keyring.used
        items = [_key(row, used.get(row["id"])) for row in rows[:limit]]
        return answer(
            api.KeyList(items=items, cursor=request.cursor(items[-1].id) if len(rows) > limit else None)
        )

    async def create_key(self, request: Request) -> Response:
        wanted = read_body(request, api.KeyRequest, "a key request")
        _check_length(wanted.expires_in_s)
        wish = await self._wish(request.scope, wanted)
        made = await self._plane.keyring.create(
            request.scope,
            request.principal,
            wish,
            Ms(wanted.expires_in_s * 1000) if wanted.expires_in_s is not None else None,
            request.id,
            once(request),
        )
        return await self._made_key(request, made)

    async def rotate_key(self, request: Request) -> Response:
        wanted = read_body(request, api.RotateRequest, "a rotation")
        if not 0 <= wanted.overlap_s <= api.MAX_OVERLAP_S:
            raise BadRequest(
                f"two keys overlap for 0 to {api.MAX_OVERLAP_S} seconds (30 days), not {wanted.overlap_s}",
                remedy="send overlapS within that",
            )
        overlap = Ms(wanted.overlap_s * 1000)
        made = await self._plane.keyring.rotate(
            request.scope, request.principal, request.parameters["id"], overlap, request.id, once(request)
        )
        return await self._made_key(request, made)

    async def revoke_key(self, request: Request) -> Response:
        await self._plane.keyring.revoke(request.scope, request.parameters["id"], request.id, once(request))
        return Response(204)

    async def _wish(self, scope: Scope, wanted: api.KeyRequest) -> Wish:
        tenant = self._tenant(scope, wanted.tenant)
        limits = Limits(
            checked_actions(wanted.actions), self._project(wanted.project, tenant), self._site(wanted.site)
        )
        if wanted.service_account is None:
            if wanted.role is None:
                raise BadRequest("a key has a role", remedy="send role, or serviceAccount")
            return Wish(_checked_name(wanted.name, "a key"), checked_role(wanted.role), tenant, limits)
        account = await self._account(scope, wanted.service_account, tenant)
        if wanted.role not in (None, account["role"]):
            raise BadRequest(
                f"the service account {wanted.service_account} has the role {account['role']}",
                remedy="leave role out: a key of an account has the account's",
            )
        name = _checked_name(wanted.name or wanted.service_account, "a key")
        return Wish(name, checked_role(account["role"]), tenant, limits, wanted.service_account)

    def _tenant(self, scope: Scope, wanted: str | None) -> str | None:
        known = wanted in self._plane.catalog.current.tenants and scope.covers(wanted)
        if wanted is not None and not known:
            raise BadRequest(f"there is no tenant {wanted[:100]}", remedy="`windlass get tenants` lists them")
        return scope.tenant if scope.tenant is not None else wanted

    def _site(self, wanted: str | None) -> str | None:
        if wanted is not None and wanted not in self._plane.catalog.current.sites:
            raise BadRequest(f"there is no site {wanted[:100]}", remedy="`windlass site list` lists them")
        return wanted

    def _project(self, wanted: str | None, tenant: str | None) -> str | None:
        if wanted is None:
            return None
        found = self._plane.catalog.current.projects.get(wanted)
        if found is None or tenant not in (None, found.tenant):
            raise BadRequest(
                f"there is no project {wanted[:100]}", remedy="`windlass get projects` lists them"
            )
        return wanted

    async def _made_key(self, request: Request, made: NewKey) -> Response:
        return answer(api.NewKey(key=_key(await self._row(request, made.id)), secret=made.secret), 201)

    async def _row(self, request: Request, id: str) -> Row:
        async def load(tx: Tx) -> Row | None:
            return await keys.with_id(tx, id)

        row = await self._plane.store.read(request.scope, load)
        assert row is not None, "it was just committed"
        return row

    # --- short-lived tokens ---------------------------------------------------------------------

    async def tokens(self, request: Request) -> Response:
        limit = request.limit

        async def load(tx: Tx) -> Sequence[Row]:
            return await keys.page(tx, request.after(), limit + 1, request.place.tenant, "token")

        rows = await self._plane.store.read(request.scope, load)
        items = [_token(row) for row in rows[:limit]]
        return answer(
            api.TokenList(items=items, cursor=request.cursor(items[-1].id) if len(rows) > limit else None)
        )

    async def create_token(self, request: Request) -> Response:
        wanted = (
            read_body(request, api.TokenRequest, "a token request") if request.body else api.TokenRequest()
        )
        principal = request.principal
        limits = Limits(checked_actions(wanted.actions), self._project(wanted.project, principal.tenant))
        lifetime = checked_lifetime(wanted.lifetime_s)
        made = await self._plane.keyring.exchange(
            request.scope, principal, limits, lifetime, request.id, once(request)
        )
        row = await self._row(request, made.id)
        return answer(api.NewToken(token=_token(row), secret=made.secret), 201)

    async def revoke_token(self, request: Request) -> Response:
        """One's own, or with the right to revoke keys any of the scope."""
        id, principal = request.parameters["id"], request.principal

        async def load(tx: Tx) -> Row | None:
            return await keys.with_id(tx, id)

        row = await self._plane.store.read(request.scope, load)
        if row is None or row["kind"] != "token" or not _may_end(principal, row):
            raise NotFound(
                f"there is no token {id[:100]} of yours", remedy="`windlass token list` lists them"
            )
        await self._plane.keyring.revoke(request.scope, id, request.id, once(request))
        return Response(204)

    # --- service accounts -----------------------------------------------------------------------

    async def accounts(self, request: Request) -> Response:
        limit = request.limit
        name, _, tenant = request.after().partition("/")

        async def load(tx: Tx) -> Sequence[Row]:
            return await accounts.page(tx, (name, tenant), limit + 1, request.place.tenant)

        rows = await self._plane.store.read(request.scope, load)
        last = rows[limit - 1] if len(rows) > limit else None
        items = [_account(row) for row in rows[:limit]]
        cursor = request.cursor(f"{last['name']}/{last['tenant']}") if last is not None else None
        return answer(api.ServiceAccountList(items=items, cursor=cursor))

    async def create_account(self, request: Request) -> Response:
        wanted = read_body(request, api.ServiceAccountRequest, "a service account")
        tenant = self._tenant(request.scope, wanted.tenant)
        await self._plane.accounts.create(
            request.scope,
            request.principal,
            wanted.name,
            checked_role(wanted.role),
            tenant,
            wanted.note,
            request.id,
            once(request),
        )
        return answer(_account(await self._account(request.scope, wanted.name, tenant)), 201)

    async def delete_account(self, request: Request) -> Response:
        tenant = self._tenant(request.scope, request.place.tenant)
        name = request.parameters["name"]
        await self._plane.accounts.delete(request.scope, name, tenant, request.id, once(request))
        return Response(204)

    async def _account(self, scope: Scope, name: str, tenant: str | None) -> Row:
        async def load(tx: Tx) -> Row | None:
            return await accounts.one(tx, name, tenant)

        row = await self._plane.store.read(scope, load)
        if row is None:
            where = f"of {tenant}" if tenant is not None else "of the platform"
            raise NotFound(
                f"there is no service account {name[:100]} {where}",
                remedy="`windlass service-account list` lists them; say --tenant for one of a tenant",
            )
        return row


def login_info(plane: ControlPlane) -> api.LoginInfo:
    """What everybody may know: whom to log in with, and as which client."""
    found = sorted(plane.catalog.current.identity_providers.items())
    return api.LoginInfo(
        providers=[
            api.LoginProvider(
                name=name,
                issuer=one.issuer,
                client_id=one.client_id,
                scopes=list(one.scopes),
                audience_parameter=one.audience_parameter,
                audience=one.audience if one.audience_parameter is not None else None,
            )
            for name, one in found
        ]
    )


def _may_end(principal: Principal, row: Row) -> bool:
    token = Thing("Token", row["tenant"], own=principal.key_id in (row["id"], row["parent"]))
    return may(principal, "token.revoke", token) or may(principal, "key.write", token)


def _checked_name(name: str, what: str) -> str:
    # Names are shown on terminals, as actors too: one that could move a cursor is none.
    if not name.strip() or len(name) > 100 or not name.isprintable():
        raise BadRequest(
            f"{what} has a name of 1 to 100 printable characters", remedy="name it after who will use it"
        )
    if ":" in name or name.startswith("windlass/"):
        # In the audit log these are people of a provider, service accounts, and the platform's own loops.
        raise BadRequest(
            f"{shown(name)} is not a name for {what}: it has a colon or begins with windlass/",
            remedy="leave those out",
        )
    return name


def _check_length(expires_in_s: int | None) -> None:
    if expires_in_s is not None and not 1 <= expires_in_s <= api.MAX_KEY_LIFE_S:
        raise BadRequest("a key expires after one second to ten years", remedy="send expiresInS within that")


def _instant(row: Row, column: str) -> str | None:
    return format_timestamp(row[column]) if row[column] is not None else None


def _key(row: Row, used: Ms | None = None) -> api.Key:
    """`used` is what is not stored yet."""
    return api.Key(
        id=row["id"],
        name=row["name"],
        role=row["role"],
        tenant=row["tenant"],
        created_at=format_timestamp(row["created_ms"]),
        expires_at=_instant(row, "expires_ms"),
        revoked_at=_instant(row, "revoked_ms"),
        last_used_at=format_timestamp(used) if used is not None else _instant(row, "last_used_ms"),
        service_account=row["account"],
        actions=row["actions"].split() or None,
        project=row["project"],
        site=row["site"],
        replaced_by=row["replaced_by"],
    )


def _token(row: Row) -> api.Token:
    return api.Token(
        id=row["id"],
        name=row["name"],
        role=row["role"],
        tenant=row["tenant"],
        parent=row["parent"],
        created_at=format_timestamp(row["created_ms"]),
        expires_at=format_timestamp(row["expires_ms"]),
        revoked_at=_instant(row, "revoked_ms"),
        actions=row["actions"].split() or None,
        project=row["project"],
    )


def _account(row: Row) -> api.ServiceAccount:
    return api.ServiceAccount(
        name=row["name"],
        role=row["role"],
        tenant=row["tenant"] or None,
        note=row["note"],
        created_at=format_timestamp(row["created_ms"]),
        created_by=row["created_by"],
    )
