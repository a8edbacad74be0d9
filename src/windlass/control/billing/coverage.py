"""`windlass coverage`: the GPU time of a period by tenant and type, from what was held."""

from __future__ import annotations

from typing import TYPE_CHECKING

from windlass.contracts import api
from windlass.control.db import ledger
from windlass.control.db.narrow import Place
from windlass.control.db.port import Tx
from windlass.control.identity.scopes import Scope
from windlass.core.coverage import UNKNOWN, Held, coverage, together
from windlass.core.metering import gpu_hours
from windlass.core.units import GpuUs, Ms, format_duration, format_timestamp

if TYPE_CHECKING:
    from windlass.control.app import ControlPlane

LONGEST = Ms(366 * 86_400_000)


async def covered(plane: ControlPlane, scope: Scope, window: Ms, place: Place) -> api.Coverage:
    now = plane.clock()
    since = Ms(now - window)

    async def load(tx: Tx) -> list[Held]:
        rows = await ledger.time_by_type(tx, since, now, place)
        return [Held(row["tenant"], row["type"], GpuUs(row["gpu_us"])) for row in rows]

    held = together(await plane.store.read(scope, load, scan=True))
    total = coverage(held)
    return api.Coverage(
        window=format_duration(window),
        since=format_timestamp(since),
        at=format_timestamp(now),
        percent=total.percent,
        types_gpu_hours=gpu_hours(total.through_types),
        raw_gpu_hours=gpu_hours(total.raw),
        unknown_gpu_hours=gpu_hours(total.unknown),
        lines=[
            api.CoverageLine(
                tenant=one.tenant,
                type=one.type if one.type != UNKNOWN else None,
                gpu_hours=gpu_hours(one.gpu_us),
            )
            for one in held
        ],
    )
