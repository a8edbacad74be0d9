"""Handlers about component types beyond their documents: what differs between two, moving to another."""

from __future__ import annotations

from typing import TYPE_CHECKING

from windlass.contracts import api
from windlass.control.components.retyping import Move, Retyping, differences, migrate
from windlass.control.gateway.once import once
from windlass.control.gateway.request import Request, Response, answer
from windlass.core.errors import BadRequest

if TYPE_CHECKING:
    from windlass.control.app import ControlPlane


class Types:
    def __init__(self, plane: ControlPlane) -> None:
        self._plane = plane

    async def diff(self, request: Request) -> Response:
        return answer(await differences(self._plane, request.scope, _retyping(request)))

    async def migrate(self, request: Request) -> Response:
        wanted, dry_run = _retyping(request), request.flag("dryRun")
        move = Move(wanted, request.id, once(request), request.after(), dry_run=dry_run)
        items, last = await migrate(self._plane, request.scope, move)
        return answer(
            api.Migration(
                type=wanted.type,
                other=wanted.other,
                items=items,
                dry_run=dry_run,
                cursor=request.cursor(last) if last is not None else None,
            )
        )


def _retyping(request: Request) -> Retyping:
    other = request.query.get("to")
    if not other:
        raise BadRequest("to is missing", remedy="name the other type: ?to=training-job@2.0.0")
    return Retyping(request.parameters["name"], other, request.place)
