"""`top`: what the GPUs do at this moment, by class, by tenant and by component."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import click
import msgspec

from windlass.core.errors import NotPermitted
from windlass.core.units import MilliGpu, format_gpus, parse_gpus
from windlass.experience.cli import phrases
from windlass.experience.cli.listing import show_value
from windlass.experience.cli.output import write
from windlass.experience.cli.session import Session, command, pass_session
from windlass.experience.cli.tables import print_table
from windlass.sdk import api

_LOOKED_AT = 500  # the most that one answer holds


class Held(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The GPUs of a class. `free` is on nodes that are ready."""

    gpu_class: str = msgspec.field(name="class")
    nodes: int
    ready: int
    gpus: str
    held: str
    free: str


class Share(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What a tenant holds of a class."""

    tenant: str
    gpu_class: str = msgspec.field(name="class")
    used: str
    borrowed: str


class Top(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """`classes` is null for who may not see the machines; `components` are the largest."""

    classes: list[Held] | None
    tenants: list[Share]
    components: list[api.QueueEntry]
    running_total: int


@command("top", takes=["tenant"], short_help="Show what the GPUs do now.")
@click.option("-w", "--watch", is_flag=True, help="Show it again every two seconds; JSON in one line each.")
@click.option(
    "--limit",
    type=click.IntRange(1, _LOOKED_AT),
    default=10,
    show_default=True,
    help="The N largest components.",
    metavar="N",
)
@pass_session
def top(session: Session, *, watch: bool, limit: int) -> None:
    """Show what the GPUs do now: what is held and free of each class, what each tenant holds, and the
    components that hold most. `windlass queue` shows who waits.

    \b
      windlass top
      windlass top -t acme --watch
    """
    show_value(session, lambda: _look(session, limit), lambda found: _print(session, found), watch=watch)


def _look(session: Session, limit: int) -> Top:
    quotas = session.client.quota(tenant=session.tenant).quotas
    queue = session.client.queue(_LOOKED_AT, tenant=session.tenant)
    largest = sorted(queue.running, key=lambda one: -parse_gpus(one.gpus))  # of equal ones the oldest first
    return Top(
        classes=_classes(session),
        tenants=list(_shares(quotas)),
        components=largest[:limit],
        running_total=queue.running_total,
    )


def _classes(session: Session) -> list[Held] | None:
    try:
        nodes = session.client.nodes().items
    except NotPermitted:
        return None
    names = sorted({one.gpu_class for one in nodes})
    return [_held(name, [one for one in nodes if one.gpu_class == name]) for name in names]


def _held(gpu_class: str, nodes: list[api.NodeInfo]) -> Held:
    ready = [one for one in nodes if one.state == "ready"]
    gpus = sum(one.gpus for one in nodes)
    left = sum(parse_gpus(one.free) for one in nodes)
    return Held(
        gpu_class=gpu_class,
        nodes=len(nodes),
        ready=len(ready),
        gpus=str(gpus),
        held=format_gpus(MilliGpu(gpus * 1000 - left)),
        free=format_gpus(MilliGpu(sum(parse_gpus(one.free) for one in ready))),
    )


def _shares(quotas: Iterable[api.QuotaLine]) -> Iterator[Share]:
    """Of whole tenants, those that hold something."""
    for line in quotas:
        if "/" not in line.scope and parse_gpus(line.used):
            yield Share(tenant=line.scope, gpu_class=line.gpu_class, used=line.used, borrowed=line.borrowed)


def _print(session: Session, found: Top) -> None:
    if session.output == "name":
        for entry in found.components:
            write(f"component/{entry.component}")
        return
    for one in found.classes or ():
        nodes = "1 node" if one.nodes == 1 else f"{one.nodes} nodes"
        away = f", {one.nodes - one.ready} not ready" if one.ready < one.nodes else ""
        write(f"{one.gpu_class}: {one.held} of {one.gpus} GPUs held, {one.free} free, {nodes}{away}")
    if found.classes:
        write("")
    if found.tenants:
        rows = [[one.tenant, one.gpu_class, one.used, one.borrowed] for one in found.tenants]
        print_table(session, ["TENANT", "CLASS", "HELD", "BORROWED"], rows)
        write("")
    if not found.components:
        write("Nothing runs.")
        return
    now = session.now_ms()
    rows = [_row(entry, now) for entry in found.components]
    print_table(session, ["COMPONENT", "TENANT", "CLASS", "GPUS", "WORKERS", "PHASE", "FOR"], rows)
    if found.running_total > len(rows):
        session.say(f"({len(rows)} of {found.running_total} shown; --limit shows more)")


def _row(entry: api.QueueEntry, now_ms: int) -> list[str]:
    size = [entry.gpu_class, entry.gpus, str(entry.workers)]
    return [entry.component, entry.tenant, *size, entry.phase, phrases.age(entry.since, now_ms)]
