"""`windlass sim`: the scheduling engine in virtual time. What is simulated is in `windlass.sim`."""

from __future__ import annotations

from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import click

from windlass.experience.cli.output import print_value
from windlass.experience.cli.session import Group, Session, pass_session
from windlass.experience.cli.tables import print_table

if TYPE_CHECKING:
    from windlass.sim.world import World


@click.group("sim", cls=Group, short_help="Run the scheduling engine on a day of work, in virtual time.")
def sim() -> None:
    """Run the scheduling engine on a day of work, in virtual time.

    \b
      windlass sim run --nodes 100 --report day.html
    """


@sim.command("run", short_help="Simulate a world and report what it was like.")
@click.option(
    "-f", "--file", "source", type=click.File("rb"), help="A scenario: nodes, quotas, what runs and waits."
)
@click.option("--trace", type=click.File("rb"), help="Arrivals as CSV; needs a scenario for the fleet.")
@click.option(
    "--nodes", type=click.IntRange(1, 20_000), default=1000, show_default=True, help="Of a seeded world."
)
@click.option("--sites", type=click.IntRange(1, 100), default=2, show_default=True, help="Of a seeded world.")
@click.option(
    "--load",
    type=click.FloatRange(0.01, 10),
    default=1.0,
    show_default=True,
    help="Of a seeded world: what is asked for, as a part of the fleet.",
)
@click.option(
    "--hours", type=click.FloatRange(0.01, 24 * 31), help="How long; else a day, or the length of the trace."
)
@click.option("--seed", type=int, default=0, show_default=True, help="Another seed, another world.")
@click.option(
    "--report",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Also write a page with curves: one HTML file that needs nothing else.",
)
@pass_session
def run(
    session: Session,
    *,
    source: IO[bytes] | None,
    trace: IO[bytes] | None,
    nodes: int,
    sites: int,
    load: float,
    hours: float | None,
    seed: int,
    report: Path | None,
) -> None:
    """Simulate a world and report what it was like: utilisation, waits by tier, who had what, preemptions,
    and how good the estimates were.

    Needs no server. Without a scenario the world is made from the seed: nodes of eight GPUs, four tenants
    with two projects each, three tiers. The same options always give the same report.

    \b
      windlass sim run --nodes 100 --hours 12 --report day.html
      windlass sim run -f scenario.yaml --trace arrivals.csv -o json
    """
    from windlass.sim.page import in_words, page
    from windlass.sim.run import simulate
    from windlass.sim.world import seeded

    if trace is not None and source is None:
        raise click.UsageError("--trace needs a scenario with the fleet and the quotas: -f FILE")
    if source is None:
        world = seeded(nodes=nodes, sites=sites, hours=hours or 24, seed=seed, load=load)
    else:
        world = _described(source, trace, hours)
    told = simulate(world).report()
    if report is not None:
        report.write_text(page(told), encoding="utf-8")
        session.say(f"wrote {report}")
    if session.machine:
        print_value(told, session.output)
    elif session.output == "name":
        click.echo(told["world"]["origin"])
    else:
        _show(session, told, in_words)


def _described(source: IO[bytes], trace: IO[bytes] | None, hours: float | None) -> World:
    from windlass.core.scheduling.scenario import parse_scenario
    from windlass.sim.trace import described, read_trace, traced

    scenario = parse_scenario(_text(source))
    if trace is None:
        return described(scenario, hours=hours or 24)
    return traced(scenario, read_trace(_text(trace), scenario), hours=hours)


def _text(source: IO[bytes]) -> str:
    from windlass.core.errors import Invalid, Reason

    try:
        return source.read().decode()
    except UnicodeDecodeError as error:
        reason = Reason("document.invalid", f"byte {error.start} is not UTF-8")
        raise Invalid(f"{source.name} is not UTF-8 text", reasons=[reason]) from None


def _show(session: Session, told: dict[str, Any], in_words: Any) -> None:
    world, estimates = told["world"], told["estimates"]
    preempted = ", ".join(f"{count} {reason}" for reason, count in told["preemptions"]["byReason"].items())
    rows = [
        ("fleet", f"{world['nodes']} nodes, {world['gpus']:g} GPUs, {world['hours']:g} h"),
        ("workloads", f"{world['arrivals']} came, {told['started']} started, {told['finished']} ended"),
        ("utilisation", f"{100 * told['utilisation']:.1f} %"),
        ("fairness", "-" if told["fairness"]["index"] is None else f"{told['fairness']['index']:.3f}"),
        ("preempted", preempted or "nobody"),
    ]
    if estimates["scored"]:
        inside = f"{100 * estimates['inside']:.0f} % of {estimates['scored']} inside"
        rows.append(("estimates", f"{inside}, median error {in_words(estimates['medianErrorSeconds'])}"))
    print_table(session, ("WHAT", "HOW"), rows)
    waits = [
        (tier, str(it["count"]), *(in_words(it[key]) for key in ("mean", "p50", "p90", "p99")))
        for tier, it in told["waitSeconds"].items()
    ]
    print_table(session, ("TIER", "STARTED", "MEAN", "HALF", "9 OF 10", "99 OF 100"), waits)
