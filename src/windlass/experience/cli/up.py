"""`up` and `demo`: the whole platform in one process. What they do is in `windlass.platform`."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from shutil import which
from typing import TYPE_CHECKING, Any

import click

from windlass.core.errors import Invalid
from windlass.experience.cli.limits import chosen, limit_options
from windlass.experience.cli.output import print_value
from windlass.experience.cli.session import Session, command, pass_session

if TYPE_CHECKING:
    from windlass.platform import Ready

DEFAULT_LISTEN = "127.0.0.1:7420"
LOG_LEVELS = ("debug", "info", "warning", "error")
_SIMULATED = "h100-80gx8,l40s-48gx4"


def fleet_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """What GPUs a site has, where they are simulated."""
    nodes = click.option(
        "--nodes",
        type=click.IntRange(min=1),
        default=2,
        show_default=True,
        help="Nodes of each kind to simulate.",
    )
    gpus = click.option(
        "--gpus",
        metavar="CLASSxN[,…]",
        help=f"Simulate nodes with N GPUs of a class; without real GPUs, {_SIMULATED}.",
    )
    return gpus(nodes(function))


otlp_option = click.option(
    "--otlp",
    metavar="URL",
    help="Send traces to this OpenTelemetry collector, such as http://127.0.0.1:4318.",
)


@command("up", short_help="Start the whole platform on this machine.")
@click.option(
    "--data",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Where it keeps its data; else ~/.local/share/windlass.",
)
@click.option(
    "--listen", default=DEFAULT_LISTEN, show_default=True, metavar="HOST:PORT", help="Port 0: a free one."
)
@click.option("--demo", is_flag=True, help="With two tenants and something to try.")
@fleet_options
@otlp_option
@limit_options
@pass_session
def up(
    session: Session,
    *,
    data: Path | None,
    listen: str,
    demo: bool,
    gpus: str | None,
    nodes: int,
    otlp: str | None,
    limit_principal: str | None,
    limit_tenant: str | None,
    limit_address: str | None,
    connections: int | None,
    streams: int | None,
) -> None:
    """Start the whole platform on this machine, and write the context `local`. Ctrl-C stops it.

    With `-o json` stdout says where it listens, once it does. Logs are JSON lines on stderr;
    WINDLASS_LOG_LEVEL=info shows everything that happens.

    \b
      windlass up --demo
      windlass up --listen 127.0.0.1:0 --gpus h100-80gx8 --nodes 4
    """
    host, port = host_and_port(listen)
    bounds = chosen(limit_principal, limit_tenant, limit_address, connections, streams)
    from windlass.platform import UpOptions, is_loopback, run_up

    options = UpOptions(
        data=data or default_data(),
        host=host,
        port=port,
        demo=demo,
        gpus=gpus,
        nodes=nodes,
        log_level=log_level(),
        otlp=collector() if otlp is None else otlp,
        bounds=bounds,
    )
    if not is_loopback(host):
        session.say(
            f"note: jobs run as your user, and {host} can be reached from elsewhere;"
            " whoever has a key can run programs here",
            fg="yellow",
        )
    with suppress(KeyboardInterrupt):  # the way to stop it
        run_up(options, lambda ready: _tell(session, ready, demo=demo))
    session.say("stopped; jobs that run go on, and are found again at the next start")


@command("demo", short_help="Tell the whole story on a private platform.")
def demo() -> int:
    """Tell the whole story on a private platform: a free port, a temporary folder, one minute.

    Exits with 0 only if every step held.

    \b
      windlass demo
    """
    from windlass.experience.cli.demo import run_demo

    return run_demo()


def host_and_port(listen: str, flag: str = "--listen") -> tuple[str, int]:
    host, colon, port = listen.rpartition(":")
    if not colon or not port.isdigit() or int(port) > 65_535:
        raise Invalid(f"{flag} {listen}: this is not HOST:PORT", remedy=f"such as {DEFAULT_LISTEN}")
    return host.strip("[]") or "127.0.0.1", int(port)


def log_level() -> str:
    level = os.environ.get("WINDLASS_LOG_LEVEL", "warning")
    return level if level in LOG_LEVELS else "warning"


def collector() -> str:
    """Our own variable, else the one of every program that speaks OTLP."""
    own = os.environ.get("WINDLASS_OTLP_ENDPOINT")
    return own if own is not None else os.environ.get("OTEL_EXPORTER_OTLP_ENDPOINT", "")


def default_data() -> Path:
    base = os.environ.get("XDG_DATA_HOME")
    return (Path(base) if base else Path.home() / ".local" / "share") / "windlass"


def _tell(session: Session, ready: Ready, *, demo: bool) -> None:
    """Where it is, who you are, and three things to try."""
    context = ready.context or ""
    if session.machine:
        print_value({"address": ready.address, "context": context, "data": str(ready.data)}, session.output)
        sys.stdout.flush()
    gpus = sum(node.gpus for node in ready.inventory.nodes)
    fake = ", simulated" if any(node.simulated for node in ready.inventory.nodes) else ""
    session.say(f"Windlass is up at {ready.address}", bold=True)
    session.say(f"  you are   admin (platform-admin), in the context {context!r}")
    session.say(f"  it has    {len(ready.inventory.nodes)} nodes with {gpus} GPUs{fake}")
    session.say(f"  data in   {ready.data}")
    session.say("Try, in another terminal:")
    tries = (
        [
            "run --gpus 2 -p atlas -e dev -- env",
            "queue",
            "quota show -t aurora",
        ]
        if demo
        else ["whoami", "apply -f YOUR-CATALOG/", "node list"]
    )
    other = "" if context == "local" else f"--context {context} "
    for line in tries:
        session.say(f"  {_program()} {other}{line}")


def _program() -> str:
    """As the reader has to type it here."""
    found = which("windlass")
    here = Path(sys.argv[0])
    if found or not here.is_absolute():
        return "windlass" if found else str(here)
    return min(str(here), os.path.relpath(here), key=len)
