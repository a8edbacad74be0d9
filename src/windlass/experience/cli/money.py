"""`quota show`, `budget`, `cost`, `usage`: what is mine, what it costs, what was used."""

from __future__ import annotations

import click

from windlass.core.units import Micros, format_money, parse_money
from windlass.experience.cli import phrases
from windlass.experience.cli.listing import say_more
from windlass.experience.cli.output import print_value, show, write
from windlass.experience.cli.session import SCOPE, Session, command, group, pass_session
from windlass.experience.cli.tables import print_table
from windlass.sdk import api


@group("quota", short_help="Show what is yours, what is free, what it costs.")
def quota() -> None:
    """Show what is yours, what is free, what it costs.

    \b
      windlass quota show -t acme
    """


@quota.command("show", takes=SCOPE)
@pass_session
def quota_show(session: Session) -> None:
    """Show what is yours, what you could get now, and what each profile costs.

    AVAILABLE is what could start at this moment without anybody giving way: what quota allows, borrowing
    included, as far as nodes have room.

    \b
      windlass quota show -p nlp -e prod
    """
    found = session.client.quota(tenant=session.tenant, project=session.project, env=session.env)
    if session.machine:
        print_value(found, session.output)
        return
    if session.output == "name":
        for line in found.quotas:
            write(f"quota/{line.scope}/{line.gpu_class}")
        return
    write("GPUs")
    headers = ["SCOPE", "CLASS", "GUARANTEED", "MAX", "USED", "BORROWED", "AVAILABLE"]
    print_table(session, headers, [_quota_row(line) for line in found.quotas])
    if found.profiles:
        write("\nPrices")
        headers = ["PROFILE", "CLASS", "SHARING", "SHARE", "PER UNIT AND HOUR", "ENTITLED"]
        print_table(session, ["TENANT", *headers], [_price_row(line) for line in _prices(session, found)])
    if found.budgets:
        write("\nBudgets")
        headers = ["SCOPE", "BUDGET", "PERIOD", "SPENT", "HELD", "WHEN EXHAUSTED"]
        print_table(session, headers, [_budget_row(line) for line in found.budgets])


def _prices(session: Session, found: api.QuotaAnswer) -> list[api.ProfilePrice]:
    """Those of the tenants whose quota is shown, when a project was asked for."""
    tenants = {line.scope.partition("/")[0] for line in found.quotas}
    if not session.project or not tenants:
        return found.profiles
    return [line for line in found.profiles if line.tenant in tenants] or found.profiles


def _quota_row(line: api.QuotaLine) -> list[str]:
    ceiling = "none" if line.max is None else line.max
    return [
        line.scope,
        line.gpu_class,
        line.guaranteed,
        ceiling,
        line.used,
        line.borrowed,
        line.available,
    ]


def _price_row(line: api.ProfilePrice) -> list[str]:
    price = "" if line.per_unit_hour is None else f"{line.per_unit_hour} {line.currency}"
    entitled = "yes" if line.entitled else "no"
    return [line.tenant, line.profile, line.gpu_class, line.sharing, line.share, price, entitled]


def _budget_row(line: api.BudgetLine) -> list[str]:
    amount = f"{line.amount} {line.currency}"
    return [line.scope, amount, line.period, line.spent, line.held, line.on_exhausted]


@command("cost", takes=SCOPE, short_help="Show what was spent, by tenant, project or component.")
@click.option(
    "--by",
    type=click.Choice(["tenant", "project", "component"]),
    default="tenant",
    show_default=True,
    help="One line for each.",
)
@pass_session
def cost(session: Session, by: str) -> None:
    """Show what was spent, by tenant, project or component.

    POSTED is in the ledger, RUNNING is what live work has added since.

    \b
      windlass cost --by project -t acme
    """
    found = session.client.costs(
        by=by, tenant=session.tenant, project=session.chosen_project, env=session.chosen_env
    )
    headers = ["TENANT"] if by == "tenant" else ["TENANT", by.upper()]
    headers += ["GPU-HOURS", "POSTED", "RUNNING", "TOTAL", "CURRENCY"]
    rows = [_cost_row(line, by) for line in found.lines]
    show(session, found, headers, rows, [_cost_name(line) for line in found.lines])
    if session.output in {"table", "wide"}:
        for total in found.totals:
            write(f"total {total.total} {total.currency} for {total.gpu_hours} GPU-hours")
        unbalanced = {currency: rest for currency, rest in found.ledger_sum.items() if float(rest)}
        if unbalanced:
            session.complain(f"the ledger does not sum to zero: {unbalanced}; tell the operator", fg="red")


def _cost_row(line: api.CostLine, by: str) -> list[str]:
    who = [line.tenant] if by == "tenant" else [line.tenant, _cost_name(line).partition("/")[2]]
    return [*who, line.gpu_hours, line.cost, line.running, line.total, line.currency]


def _cost_name(line: api.CostLine) -> str:
    if line.component:
        return f"component/{line.project}/{line.env}/{line.component.rpartition('/')[2]}"
    return f"project/{line.project}" if line.project else f"tenant/{line.tenant}"


@command("budget", takes=SCOPE, short_help="Show budgets, and what is left of them.")
@pass_session
def budget(session: Session) -> None:
    """Show budgets, and what is left of them.

    HELD is what admitted work may still cost; LEFT is what new work may. An Envelope sets a budget.

    \b
      windlass budget -t acme
      windlass budget -p nlp -o json
    """
    found = session.client.quota(tenant=session.tenant, project=session.project, env=session.env).budgets
    headers = ["SCOPE", "BUDGET", "PERIOD", "SPENT", "HELD", "LEFT", "WHEN EXHAUSTED"]
    rows = [[*row[:5], _left(line), *row[5:]] for line in found for row in [_budget_row(line)]]
    show(session, {"items": found}, headers, rows, [f"budget/{line.scope}" for line in found])


def _left(line: api.BudgetLine) -> str:
    amount, spent, held = (parse_money(text) for text in (line.amount, line.spent, line.held))
    return format_money(Micros(max(0, amount - spent - held)))


@command("usage", takes=SCOPE, short_help="List the GPU time that was metered.")
@click.option("--limit", type=click.IntRange(min=1), default=50, show_default=True, help="At most so many.")
@pass_session
def usage(session: Session, limit: int) -> None:
    """List the GPU time that was metered: who held how many GPUs from when to when.

    \b
      windlass usage -p nlp
      windlass usage -t acme -o json
    """
    found = session.client.usage(
        tenant=session.tenant, project=session.chosen_project, env=session.chosen_env, limit=limit
    )
    headers = ["COMPONENT", "CLASS", "GPUS", "FROM (UTC)", "UNTIL (UTC)", "GPU-HOURS"]
    rows = [
        [
            "/".join((line.project, line.env, line.component.rpartition("/")[2])),
            line.gpu_class,
            line.gpus,
            phrases.clock(line.since),
            phrases.clock(line.until) or "now",
            line.gpu_hours,
        ]
        for line in found.items
    ]
    show(session, found, headers, rows, [f"usage/{line.id}" for line in found.items])
    say_more(session, len(found.items), limit)
