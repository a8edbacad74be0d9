"""Nodes as their sites last reported them."""

from __future__ import annotations

import msgspec

from windlass.contracts.agent import NodeReport
from windlass.control.db.port import Tx

_ALL = "SELECT site, body FROM nodes ORDER BY site, name"
_DELETE = "DELETE FROM nodes WHERE site = $1"
_INSERT = "INSERT INTO nodes (site, name, body) VALUES ($1, $2, $3)"

_decode = msgspec.json.Decoder(NodeReport).decode


async def replace(tx: Tx, site: str, nodes: tuple[NodeReport, ...]) -> None:
    await tx.execute(_DELETE, site)
    for node in nodes:
        await tx.insert(_INSERT, site, node.name, msgspec.json.encode(node).decode())


async def everywhere(tx: Tx) -> list[tuple[str, NodeReport]]:
    return [(row["site"], _decode(row["body"])) for row in await tx.rows(_ALL)]
