"""Whoever comes with a credential of any kind, and whether it still holds while an answer goes on.

What is known of credentials is in memory, and as old as what was last heard of the database. A replica that
is cut off from it learns of no revoked key and of no change by others: it lets nobody in until it hears.
"""

from __future__ import annotations

from collections.abc import Callable

from windlass.control.db import port
from windlass.control.identity.keys import Keyring
from windlass.control.identity.logins import Logins
from windlass.control.identity.scopes import Principal
from windlass.core.catalog.snapshot import Catalog
from windlass.core.errors import NotPermitted, Unauthenticated, Unavailable
from windlass.core.identity.secret_form import is_ours


class Door:
    def __init__(
        self, store: port.Store, keyring: Keyring, logins: Logins, catalog: Callable[[], Catalog]
    ) -> None:
        self._store = store
        self._keyring = keyring
        self._logins = logins
        self._catalog = catalog

    @property
    def cut_off(self) -> bool:
        return self._store.silent_s > port.SILENT_S

    async def authenticate(self, token: str, tenant: str | None) -> Principal:
        """`tenant` is the one the request names as the one to act in, if it does."""
        if self.cut_off:
            raise Unavailable(
                "the database has not answered for a while; nothing was changed",
                remedy="try again in a few seconds, or at another server",
            )
        if not is_ours(token) and token.count(".") == 2:
            return await self._logins.authenticate(token, tenant)
        principal = await self._keyring.authenticate(token)
        if not self._logins.still_gives(principal):
            raise Unauthenticated(
                "the login that this token was exchanged for does not count any more",
                remedy="log in again with `windlass login`, and exchange that",
            )
        if tenant is not None and principal.tenant not in (None, tenant):
            raise NotPermitted(
                f"this key is of the tenant {principal.tenant}",
                remedy="leave Windlass-Tenant out, or use another key",
            )
        return principal

    def holds(self, principal: Principal) -> bool:
        """Nobody acts for a tenant that is gone, and nobody is told more by one who hears nothing."""
        if self.cut_off:
            return False
        if principal.tenant is not None and principal.tenant not in self._catalog().tenants:
            return False
        keeper = self._logins if principal.via == "oidc" else self._keyring
        return keeper.holds(principal) and self._logins.still_gives(principal)
