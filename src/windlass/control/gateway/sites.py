"""What a site's agent asks and tells, over HTTP: the far end of control/sites/link.py. And what people say
of a site whose agent says nothing any more (control/sites/loss.py).

An agent's key names its site, and it can do nothing else: not read another site, nor anybody's things.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeVar

import msgspec

from windlass.contracts import api
from windlass.contracts.agent import LogAnswer, LogQuestions, SiteReport
from windlass.control.gateway.bodies import read_body
from windlass.control.gateway.once import once
from windlass.control.gateway.request import MAX_EVENT, Request, Response, answer
from windlass.control.sites.loss import LossOrder, give_up
from windlass.core.errors import BadRequest, Conflict, NotFound

if TYPE_CHECKING:
    from windlass.control.app import ControlPlane

MAX_WAIT_S = 60
T = TypeVar("T")


class Agents:
    def __init__(self, plane: ControlPlane) -> None:
        self._plane = plane

    async def desired(self, request: Request) -> Response:
        """What the site should hold; with `generation`, once there is something newer, or after `wait`."""
        site = _own_site(request)
        self._refuse_other_orchestrators(site)
        await self._plane.presence.heard(site)
        if "generation" in request.query:
            known = request.whole("generation", 0, most=MAX_EVENT)
            try:
                async with asyncio.timeout(_wait_s(request)):
                    await self._plane.link.changed(site, known)
            except TimeoutError:
                pass
        return answer(await self._plane.link.desired(site))

    async def report(self, request: Request) -> Response:
        site = _own_site(request)
        report = _read(request, SiteReport)
        if report.site != site:
            raise BadRequest(f"this is a report of another site than {site}", remedy="report your own")
        self._refuse_other_orchestrators(site)
        await self._plane.link.report(report)
        return Response(204)

    def _refuse_other_orchestrators(self, site: str) -> None:
        """Agents of this release run work on their own machine, whatever the site's document says."""
        told = self._plane.catalog.current.sites.get(site)
        if told is not None and told.orchestrator != "local":
            raise Conflict(
                f"the site {site} is one of {told.orchestrator}, and this agent runs jobs on its own machine",
                remedy="give it a site with orchestrator: local",
            )

    async def questions(self, request: Request) -> Response:
        site = _own_site(request)
        found = await self._plane.remote_logs.questions(site, _wait_s(request))
        return answer(LogQuestions(questions=tuple(found)))

    async def answer(self, request: Request) -> Response:
        self._plane.remote_logs.answered(_own_site(request), _read(request, LogAnswer))
        return Response(204)


class Sites:
    """What the platform's people do about a site, besides its document."""

    def __init__(self, plane: ControlPlane) -> None:
        self._plane = plane

    async def lose(self, request: Request) -> Response:
        wanted = read_body(request, api.SiteLossRequest, "why a site is given up")
        order = LossOrder(request.parameters["name"], wanted.reason, request.id, once(request))
        return answer(await give_up(self._plane, request.scope, order))


def _own_site(request: Request) -> str:
    site = request.parameters["name"]
    if request.principal.limits.site != site:
        raise NotFound(
            f"there is no site {site[:53]} that this key speaks for",
            remedy="`windlass key create --role agent --site NAME` makes one for a site",
        )
    return site


def _wait_s(request: Request) -> float:
    return request.whole("wait", 25, most=MAX_WAIT_S)


def _read(request: Request, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(request.body, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise BadRequest(
            f"the request is not understood: {error}", remedy="agent and server must fit"
        ) from None
