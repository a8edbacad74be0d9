"""The price timeline in memory: what every GPU-hour cost at every instant since the beginning.

Made from the stored history of price books, so that a restart re-rates nothing: a change of a book
counts from the revision that accepted it. Before there was a project nothing could be held; so the
books that were there by then count from their `effectiveFrom`, and a clock that is stepped back behind
their acceptance makes no work free.
"""

from __future__ import annotations

import msgspec

from windlass.control.db import documents
from windlass.control.db.port import Tx
from windlass.core.documents.kinds import PriceBook
from windlass.core.documents.shape import read
from windlass.core.errors import Reason
from windlass.core.ledger.prices import PriceChange, PriceTimeline
from windlass.core.units import Ms


class Prices:
    """The timeline in force; the catalog's keeper replaces it together with the catalog."""

    def __init__(self) -> None:
        self.timeline = PriceTimeline(())


async def stored_timeline(tx: Tx) -> PriceTimeline:
    rows = await documents.history(tx, "PriceBook")
    first_project = await documents.first_revision_of(tx, "Project")
    changes = []
    for revision in await documents.revisions_of(tx, "PriceBook"):
        number = revision["revision"]
        books = tuple(
            (row["name"], _book(row["body"]))
            for row in rows
            if row["from_revision"] <= number and (row["to_revision"] is None or row["to_revision"] > number)
        )
        before_any_work = first_project is None or number <= first_project
        at = Ms(0) if before_any_work else Ms(revision["at_ms"])
        changes.append(PriceChange(at, tuple(sorted(books, key=lambda book: book[0]))))
    return PriceTimeline(tuple(changes))


def _book(body: str) -> PriceBook:
    problems: list[Reason] = []
    book = read(PriceBook, msgspec.json.decode(body)["spec"], "spec", problems)
    assert book is not None and not problems, f"a stored price book does not parse: {problems}"
    return book
