"""Whom a change of the catalog would affect: components as they are stored, judged under the catalog that is
and under the one that would be. On the scan thread: it is asked before rare changes, and looks at many.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from windlass.contracts import api
from windlass.control.components.facts import load_facts
from windlass.control.components.stored import stored_intent
from windlass.control.components.wire import reason_wire, spec_of
from windlass.control.db import components
from windlass.control.db.components import Chosen
from windlass.control.db.narrow import Place
from windlass.control.db.port import Row, Tx
from windlass.control.identity.scopes import Scope
from windlass.core.admission.effects import Reach, World, effect_of
from windlass.core.catalog.snapshot import Catalog
from windlass.core.documents.kinds import Document
from windlass.core.lifecycle import FINAL

if TYPE_CHECKING:
    from windlass.control.app import ControlPlane

SHOWN = 100
MOST_JUDGED = 2_000
"""Each is judged twice and rendered twice, about a millisecond."""
_PAGE = 500


async def affected_by(
    plane: ControlPlane, scope: Scope, changed: Iterable[Document], after: Catalog
) -> api.Affected:
    """Of what the scope may see. `changed` are the documents as they would be."""
    before = plane.catalog.current
    documents = list(changed)
    was = [before.documents[one.key] for one in documents if one.key in before.documents]
    reach = Reach([*documents, *was], before, after)

    async def look(tx: Tx) -> api.Affected:
        found: list[api.AffectedComponent] = []
        judged = concerned = 0
        last = ""
        while reach and (page := await components.page(tx, last, _PAGE, Chosen(Place(reach.tenant)))):
            last = page[-1]["component_id"]
            for row in page:
                if not reach.concerns(row["tenant"], row["project"], spec_of(row["body"])):
                    continue
                concerned += 1
                if concerned <= MOST_JUDGED:
                    judged += 1
                    found += await _effect(tx, plane, row, before, after)
        found.sort(key=lambda one: (one.phase in FINAL, one.component))
        return api.Affected(items=found[:SHOWN], total=len(found), judged=judged, concerned=concerned)

    return await plane.store.read(scope, look, scan=True)


async def _effect(
    tx: Tx, plane: ControlPlane, row: Row, before: Catalog, after: Catalog
) -> list[api.AffectedComponent]:
    intent, now = stored_intent(row), plane.clock()
    then = World(before, await load_facts(tx, plane, intent, before, now))
    found = effect_of(intent, then, World(after, await load_facts(tx, plane, intent, after, now)))
    if found is None:
        return []
    return [
        api.AffectedComponent(
            component=intent.path,
            tenant=row["tenant"],
            phase=row["phase"] or "Rejected",
            effect=found.effect,
            reasons=[reason_wire(reason) for reason in found.reasons],
        )
    ]
