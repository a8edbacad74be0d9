"""Who stands in the way of a change of types and traits: components that it would break."""

from __future__ import annotations

from windlass.control.components.stored import stored_intent
from windlass.control.db import components
from windlass.control.db.narrow import Place
from windlass.control.db.port import Tx
from windlass.core.catalog.snapshot import Catalog
from windlass.core.catalog.uses import broken_by, names_changed
from windlass.core.catalog.whole import CONFLICT
from windlass.core.documents.kinds import DocumentKey
from windlass.core.errors import Conflict, Reason

_PAGE = 500
_NAMED = 20


async def refuse_breaking(tx: Tx, before: Catalog, after: Catalog) -> None:
    """Raises Conflict with the users of each type and trait that may not go, or not change so."""
    users: dict[tuple[DocumentKey, str], list[str]] = {}
    for kind, name in sorted(names_changed(before, after)):
        last = ""
        while page := await components.naming(tx, kind, name, last, _PAGE, Place()):
            last = page[-1]["component_id"]
            for row in page:
                intent = stored_intent(row)
                alive = row["phase"] is not None and row["finished_ms"] is None
                made_of = (row["type"] if alive else "") or intent.spec.type
                for found in broken_by(intent, made_of, before, after, alive=alive):
                    users.setdefault(found, []).append(intent.path)
            if len(page) < _PAGE:
                break
    if users:
        raise _in_use(users)


def _in_use(users: dict[tuple[DocumentKey, str], list[str]]) -> Conflict:
    reasons = [
        Reason(
            CONFLICT,
            f"{key} is used by {path}: {why}",
            remedy=_remedy(key),
            value=path,
        )
        for (key, why), paths in users.items()
        for path in dict.fromkeys(paths[:_NAMED])
    ]
    (first, _), paths = next(iter(users.items()))
    named = list(dict.fromkeys(paths))
    more = f" and {len(named) - _NAMED} more" if len(named) > _NAMED else ""
    return Conflict(
        f"{first} is in use by {', '.join(named[:_NAMED])}{more}", remedy=_remedy(first), reasons=reasons
    )


def _remedy(key: DocumentKey) -> str:
    if key.kind == "Trait":
        return "publish the change as another version; or change or delete those components first"
    return (
        "publish the change as another version and move to it with `windlass type migrate`; or delete those"
        " components when they have ended"
    )
