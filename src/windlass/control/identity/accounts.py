"""Service accounts: who acts without being a person.

An account is a name with a role, in a tenant or on the platform. Its keys are ordinary keys that name
it; what they do is done by the account, whichever key was shown. To change its role, make another: what
a key may do never changes under the one who holds it. Deleting the account ends its keys.
"""

from __future__ import annotations

from windlass.control.db import accounts, events, keys
from windlass.control.db.idempotency import Answer, Once, keep, replay
from windlass.control.db.port import Store, Tx
from windlass.control.identity.granting import grant_role
from windlass.control.identity.keys import Keyring
from windlass.control.identity.scopes import Principal, Role, Scope
from windlass.core.documents.forms import FORMS
from windlass.core.documents.problems import Problems
from windlass.core.documents.scalars import Form
from windlass.core.errors import BadRequest, Conflict, NotFound, NotPermitted
from windlass.runtime.clock import Clock

_MAX_NOTE = 500


class Accounts:
    def __init__(self, store: Store, clock: Clock, keyring: Keyring) -> None:
        self._store = store
        self._clock = clock
        self._keyring = keyring

    async def create(
        self,
        scope: Scope,
        principal: Principal,
        name: str,
        role: Role,
        tenant: str | None,
        note: str,
        request_id: str,
        once: Once | None,
    ) -> None:
        _check(principal, name, note)
        grant_role(principal, role, tenant)

        async def unit(tx: Tx) -> None:
            if await replay(tx, once) is not None:
                return
            if await accounts.one(tx, name, tenant) is not None:
                raise Conflict(
                    f"there is a service account {name} already",
                    remedy="choose another name, or use that one: `windlass service-account list`",
                )
            now = self._clock()
            await accounts.insert(tx, name, tenant, role, note, now)
            detail = {"role": role}
            await events.audit(
                tx, now, "account.create", name, tenant=tenant, request_id=request_id, detail=detail
            )
            await events.emit(tx, now, "account.created", name, tenant=tenant, data=detail)
            await keep(tx, once, Answer(201, "{}"), now)

        await self._store.unit(scope, unit)

    async def delete(
        self, scope: Scope, name: str, tenant: str | None, request_id: str, once: Once | None
    ) -> None:
        """Its keys, and the tokens exchanged for them, end in the same transaction."""

        async def unit(tx: Tx) -> None:
            if await replay(tx, once) is not None:
                return
            if await accounts.one(tx, name, tenant) is None:
                raise NotFound(
                    f"there is no service account {name[:100]}",
                    remedy="`windlass service-account list` lists them; say --tenant for one of a tenant",
                )
            now = self._clock()
            for row in await keys.of_account(tx, name, tenant):
                await self._keyring.end(tx, row, request_id)
            await accounts.delete(tx, name, tenant)
            await events.audit(tx, now, "account.delete", name, tenant=tenant, request_id=request_id)
            await events.emit(tx, now, "account.deleted", name, tenant=tenant)
            await keep(tx, once, Answer(204, "{}"), now)

        await self._store.unit(scope, unit)


def _check(principal: Principal, name: str, note: str) -> None:
    problems = Problems()
    FORMS[Form.NAME].read(name, ("name",), problems)
    if problems:
        reason = problems.reasons()[0]
        raise BadRequest(reason.message, remedy=reason.remedy, reasons=problems.reasons())
    if len(note) > _MAX_NOTE:
        raise BadRequest(f"a note has at most {_MAX_NOTE} characters", remedy="shorten it")
    if principal.limits.actions is not None:
        raise NotPermitted(
            "a narrowed credential makes no service accounts", remedy="use one that is not narrowed"
        )
