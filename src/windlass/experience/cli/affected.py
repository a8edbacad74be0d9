"""Whom a change of the catalog would affect, for the person who is about to make it."""

from __future__ import annotations

from windlass.experience.cli.complaints import reason_line
from windlass.experience.cli.output import write
from windlass.experience.cli.session import Session
from windlass.experience.cli.tables import print_table
from windlass.sdk import api

_EFFECTS = {
    "refused": "would be refused",
    "admitted": "would be admitted again",
    "rendered": "would run otherwise",
    "scheduled": "would be scheduled otherwise",
}


def print_affected(session: Session, found: api.Affected | None) -> None:
    if found is None or session.output == "name":
        return
    write("")
    if not found.total:
        write(f"nobody would be affected ({_judged(found)})")
        return
    what = "1 component" if found.total == 1 else f"{found.total} components"
    write(f"{what} would be affected at the next admission ({_judged(found)}); what runs is not touched")
    rows = [[one.component, one.phase, _EFFECTS[one.effect], _why(one)] for one in found.items]
    print_table(session, ["COMPONENT", "PHASE", "NEXT TIME", "BECAUSE"], rows)
    if found.total > len(found.items):
        write(f"and {found.total - len(found.items)} more")


def _judged(found: api.Affected) -> str:
    if found.judged == found.concerned:
        return f"{found.judged} looked at"
    return f"{found.judged} of {found.concerned} looked at"


def _why(one: api.AffectedComponent) -> str:
    return "; ".join(reason_line(reason) for reason in one.reasons)
