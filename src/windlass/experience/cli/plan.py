"""`plan -f`: the decision, where it would go, when, at what price; nothing is committed."""

from __future__ import annotations

from collections.abc import Sequence

from windlass.experience.cli import phrases
from windlass.experience.cli.affected import print_affected
from windlass.experience.cli.apply import files_option, name_of
from windlass.experience.cli.columns import price_of
from windlass.experience.cli.complaints import reason_line, warning_line
from windlass.experience.cli.files import Source, read_sources
from windlass.experience.cli.output import print_value, write
from windlass.experience.cli.session import Session, command, pass_session
from windlass.experience.cli.tables import painted
from windlass.sdk import api


@command("plan", short_help="Show what apply would do, where, when, at what price.")
@files_option
@pass_session
def plan(session: Session, files: Sequence[str]) -> int:
    """Show what apply would do, where, when, at what price. Commits nothing.

    Exits with 3 when something would be rejected. `-o json` prints the API's answer: one result
    per document, with its decision and plan.

    \b
      windlass plan -f train.yaml
    """
    sources = read_sources(files)
    # Catalog documents first, as apply would: components are judged by what they would make.
    sources.sort(key=lambda one: one.is_component)
    documents = [one.document for one in sources]
    answer = session.client.plan(documents[0] if len(documents) == 1 else documents)
    if session.machine:
        print_value(answer, session.output)
    else:
        for source, result in zip(sources, answer.results, strict=True):
            _print(session, source, result)
        print_affected(session, answer.affected)
    return 3 if any(_rejected(one) for one in answer.results) else 0


def _rejected(result: api.Result) -> bool:
    return result.outcome == "rejected" or (
        result.decision is not None and result.decision.verdict == "rejected"
    )


def _print(session: Session, source: Source, result: api.Result) -> None:
    if session.output == "name":
        write(name_of(result))
        return
    if result.outcome == "unchanged":
        write(f"{name_of(result)} would be unchanged" + (f": {result.message}" if result.message else ""))
        return
    word = result.decision.verdict if result.decision else result.outcome
    write(f"{name_of(result)} would be {painted(session, word)}")
    for reason in result.reasons or (result.decision.reasons if result.decision else []):
        write(f"  {source.where(reason.field)}: {reason_line(reason)}")
        if reason.remedy:
            write(f"    try: {reason.remedy}")
    for warning in result.decision.warnings if result.decision else []:
        write(f"  warning: {source.where(warning.field)}: {warning_line(warning)}")
    for label, text in _facts(session, result):
        write(f"  {label:<8}  {text}")


def _facts(session: Session, result: api.Result) -> list[tuple[str, str]]:
    facts: list[tuple[str, str]] = []
    decision, plan = result.decision, result.plan
    if decision and decision.verdict != "rejected":
        facts.append(("price", price_of(decision) or "no price in force"))
        facts.append(("when", _when(session, decision, plan)))
    if plan:
        for worker in plan.placement:
            gpus = f" (GPUs {phrases.ranges(worker.gpus)})" if worker.gpus else ""
            facts.append(("where", f"worker {worker.worker} on {worker.node}{gpus}"))
        if plan.after:
            facts.append(("after", f"{', '.join(plan.after)} made room"))
    if decision:
        facts.append(("decided", f"at catalog revision {decision.catalog_revision}"))
    return facts


def _when(session: Session, decision: api.Decision, plan: api.Plan | None) -> str:
    starts_at = decision.estimate.starts_at if decision.estimate else None
    words = phrases.when(starts_at, session.now_ms())
    if plan is None or plan.cause is None:
        unknown = f"not known yet: {plan.message}" if plan and plan.message else "not known"
        return words or ("now" if plan and plan.placement else unknown)
    ahead = f", {plan.ahead} ahead" if plan.ahead else ""
    message = f" ({plan.message})" if plan.message else ""
    return f"{words or 'not known'}: it would wait for {plan.cause}{ahead}{message}"
