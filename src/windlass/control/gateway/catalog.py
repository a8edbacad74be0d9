"""Handlers for catalog documents: read now or at an old revision, delete with a guard."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING

from windlass.contracts import api
from windlass.control.catalog.view import visible
from windlass.control.db.idempotency import replay
from windlass.control.gateway.once import once
from windlass.control.gateway.ownership import owned
from windlass.control.gateway.request import Request, Response, answer
from windlass.control.identity.authorize import authorize, may
from windlass.control.identity.scopes import Principal, Scope
from windlass.core.catalog.snapshot import Catalog
from windlass.core.documents.kinds import Document, DocumentKey, Kind
from windlass.core.documents.wire import write_document
from windlass.core.errors import Conflict, NotFound, NotPermitted

if TYPE_CHECKING:
    from windlass.control.app import ControlPlane

Handler = Callable[[Request], Awaitable[Response]]


class Documents:
    """One set of handlers for every kind; `of` binds them to one."""

    def __init__(self, plane: ControlPlane, kind: Kind) -> None:
        self._plane = plane
        self._kind = kind

    async def page(self, request: Request) -> Response:
        catalog = await self._catalog(request)
        after = request.after()
        found = [item for item in self._seen(catalog, request) if _place(item) > after]
        page = found[: request.limit]
        return answer(
            api.DocumentList(
                items=[_wire(item) for item in page],
                revision=catalog.revision,
                cursor=request.cursor(_place(page[-1])) if len(found) > len(page) else None,
            )
        )

    async def get(self, request: Request) -> Response:
        document = self._one(await self._catalog(request), request)
        return answer(_wire(document), version=document.metadata.version)

    async def delete(self, request: Request) -> Response:
        key = once(request)
        if await self._plane.store.read(request.scope, partial(replay, once=key)) is not None:
            return Response(204)
        document = self._one(self._plane.catalog.current, request)
        scope = _delete_scope(request.principal, document)
        # Again when its turn has come: by then the name may be that of something of the platform's.
        check = partial(_check_still_theirs, request.principal, document.key)
        await self._plane.catalog.delete(scope, document.key, request.if_match, request.id, key, check)
        return Response(204)

    async def _catalog(self, request: Request) -> Catalog:
        """The catalog now, or as it was at `?revision=`."""
        wanted = request.whole("revision", self._plane.catalog.current.revision)
        return await self._plane.catalog.at(wanted)

    def _seen(self, catalog: Catalog, request: Request) -> list[Document]:
        tenant = request.query.get("tenant")
        found = [
            shown
            for document in catalog.listed(self._kind.name)
            if (shown := visible(document, request.scope)) is not None
            and (tenant is None or document.metadata.tenant == tenant)
        ]
        return sorted(found, key=_place)

    def _one(self, catalog: Catalog, request: Request) -> Document:
        name = request.parameters["name"]
        found = [item for item in self._seen(catalog, request) if name in (item.key.name, item.metadata.name)]
        exact = [item for item in found if item.key.name == name] or found
        if not exact:
            raise NotFound(
                f"there is no {self._kind.name} {name[:100]}",
                remedy=f"`windlass get {self._kind.plural}` lists them",
            )
        if len({item.key.tenant for item in exact}) > 1:
            tenants = ", ".join(sorted(item.key.tenant for item in exact))
            raise Conflict(f"several tenants have one: {tenants}", remedy="say which with ?tenant=")
        return exact[-1]


def _place(document: Document) -> str:
    """Where it stands in a list. Two tenants may each have one of the same name; neither may be skipped."""
    return f"{document.key.name}/{document.key.tenant}"


def _wire(document: Document) -> api.Document:
    written = write_document(document)
    return api.Document(
        api_version=written["apiVersion"],
        kind=written["kind"],
        metadata=written["metadata"],
        spec=written["spec"],
    )


def _delete_scope(principal: Principal, document: Document) -> Scope:
    if may(principal, "catalog.write"):
        return authorize(principal, "catalog.write")
    scope = authorize(principal, "tenant.write")
    _check_theirs(principal, document)
    return scope


def _check_still_theirs(principal: Principal, key: DocumentKey, catalog: Catalog) -> None:
    document = catalog.documents.get(key)
    if document is not None and not may(principal, "catalog.write"):
        _check_theirs(principal, document)


def _check_theirs(principal: Principal, document: Document) -> None:
    if not may(principal, "tenant.write", owned(document)):
        raise NotPermitted(f"{document.key} belongs to the platform", remedy="ask a platform-admin")
