"""Handlers for defragmentation: what moving would free, and carrying that out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from windlass.contracts import api
from windlass.control.gateway.bodies import read_body
from windlass.control.gateway.once import once
from windlass.control.gateway.request import MAX_WORKER, Request, Response, answer
from windlass.control.scheduler.defragment import MoveOrder, carry_out, propose
from windlass.core.errors import BadRequest
from windlass.core.scheduling.defrag import named_hole, profiled_hole
from windlass.core.scheduling.model import Shape
from windlass.core.units import GPU, parse_gpus

if TYPE_CHECKING:
    from windlass.control.app import ControlPlane

HOLE = {
    "class": "for a hole in this class of GPUs",
    "profile": "for a hole in the units of this hardware profile",
    "gpus": "of a hole: GPUs, or units of the profile, per worker; 1 without it",
    "workers": "of a hole: how many workers; 1 without it",
    "topology": "of a hole: all workers at one value of this node label",
}


class Defragmentation:
    def __init__(self, plane: ControlPlane) -> None:
        self._plane = plane

    async def proposals(self, request: Request) -> Response:
        component, hole = request.query.get("component"), self._hole(request)
        if component and hole is not None:
            raise BadRequest(
                "a plan is for a component or for a hole",
                remedy="leave out component, or what describes a hole",
            )
        return answer(await propose(self._plane, component or hole))

    async def carry_out(self, request: Request) -> Response:
        wanted = read_body(request, api.DefragRequest, "a plan to carry out")
        order = MoveOrder(wanted.component, wanted.digest, request.id, once(request))
        return answer(await carry_out(self._plane, request.scope, order))

    def _hole(self, request: Request) -> Shape | None:
        told = {name: request.query[name] for name in HOLE if request.query.get(name)}
        if not told:
            return None
        if ("class" in told) == ("profile" in told):
            raise BadRequest("a hole is of a class or of a profile", remedy="send class or profile, and gpus")
        try:
            gpus = parse_gpus(told.get("gpus", "1"))
        except ValueError as error:
            raise BadRequest(f"gpus is wrong: {error}", remedy="send a number such as 4 or 0.25") from None
        workers = request.whole("workers", 1, least=1, most=MAX_WORKER)
        if "class" in told:
            try:
                return named_hole(told["class"], gpus, workers, told.get("topology"))
            except ValueError as error:
                raise BadRequest(str(error), remedy="send whole GPUs, or less than one") from None
        profile = self._plane.catalog.current.profiles.get(told["profile"])
        if profile is None or gpus % GPU:
            raise BadRequest(
                f"no hardware profile {told['profile'][:53]} has {told.get('gpus', '1')[:20]} units",
                remedy="`windlass get hardwareprofiles` lists them; gpus are whole units of one",
            )
        return profiled_hole(profile, gpus // GPU, workers, told.get("topology"))
