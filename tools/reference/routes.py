"""The table of routes without a server: a control plane on an empty store that is thrown away."""

from __future__ import annotations

import asyncio
import json
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from windlass.control.app import parts
from windlass.control.db.sqlite import SqliteStore
from windlass.control.gateway.request import Response
from windlass.control.gateway.routes import Route
from windlass.control.gateway.table import routes
from windlass.core.units import Ms

# A real plane and not a stand-in: a route that looks at the plane while it is made still works here.


@cache
def all_routes() -> tuple[Route, ...]:
    return _loaded()[0]


@cache
def openapi() -> dict[str, Any]:
    """What `GET /openapi.json` answers."""
    return _loaded()[1]


@cache
def _loaded() -> tuple[tuple[Route, ...], dict[str, Any]]:
    return asyncio.run(_load())


async def _load() -> tuple[tuple[Route, ...], dict[str, Any]]:
    with TemporaryDirectory(prefix="windlass-reference-") as folder:
        store = SqliteStore(Path(folder) / "windlass.db")
        try:
            found = routes(await parts(store, lambda: Ms(0), lambda prefix: f"{prefix}_0"))
            described = await next(one for one in found if one.pattern == "/openapi.json").open({})
        finally:
            await store.close()
    assert isinstance(described, Response)
    return found, json.loads(described.body)


def canonical_openapi() -> str:
    """Sorted and indented, so that a change reads well as a diff."""
    return json.dumps(openapi(), sort_keys=True, indent=2, ensure_ascii=False) + "\n"
