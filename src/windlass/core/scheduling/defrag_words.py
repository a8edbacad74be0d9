"""A proposal as people and programs read it: plain values, the same offline and from a server."""

from __future__ import annotations

from typing import Any

from windlass.core.metering import gpu_hours
from windlass.core.scheduling.defrag import Move, NoPlan, Plan
from windlass.core.scheduling.model import Placement, Shape
from windlass.core.units import format_gpus


def told(proposal: Plan | NoPlan) -> dict[str, Any]:
    """`why` is empty where there is a plan; else there is no hole, no move and no digest."""
    wanted = {"for": proposal.id or None, "wanted": _wanted(proposal.shape)}
    if isinstance(proposal, NoPlan):
        nothing = {"digest": "", "hole": [], "moves": [], "lostGpuHours": "0", "restartedWorkers": 0}
        return {**wanted, **nothing, "why": proposal.why}
    return {
        **wanted,
        "digest": proposal.digest,
        "hole": _places(proposal.hole),
        "moves": [_move(move) for move in proposal.moves],
        "lostGpuHours": gpu_hours(proposal.lost),
        "restartedWorkers": proposal.restarted,
        "why": "",
    }


def _wanted(shape: Shape) -> dict[str, Any]:
    topology = shape.topology
    return {
        "class": shape.gpu_class,
        "gpus": format_gpus(shape.gpus),
        "workers": shape.fewest,
        "topology": None if topology is None else {"level": topology.level, "mode": topology.mode},
    }


def _move(move: Move) -> dict[str, Any]:
    return {
        "workload": move.id,
        "from": _places(move.source),
        "to": _places(move.target),
        "lostGpuHours": gpu_hours(move.lost),
        "restartedWorkers": len(move.source.workers),
    }


def _places(placement: Placement) -> list[dict[str, Any]]:
    return [
        {"worker": worker.worker, "node": worker.node, "gpus": list(worker.gpus)}
        for worker in placement.workers
    ]
