"""`server`, `migrate`, `agent`: the processes of a production installation."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from windlass.core.errors import Invalid
from windlass.experience.cli.limits import chosen, limit_options
from windlass.experience.cli.output import print_value
from windlass.experience.cli.session import Session, command, pass_session
from windlass.experience.cli.up import (
    DEFAULT_LISTEN,
    collector,
    default_data,
    fleet_options,
    host_and_port,
    log_level,
    otlp_option,
)

if TYPE_CHECKING:
    from windlass.agent import Joined
    from windlass.server import Open

_DATABASE = click.option(
    "--database",
    metavar="URL",
    help="postgresql://USER@HOST:PORT/NAME; else WINDLASS_DATABASE. PGPASSWORD keeps the password out of it.",
)


@command("server", short_help="Run one replica of the control plane on PostgreSQL.")
@_DATABASE
@click.option("--listen", default=DEFAULT_LISTEN, show_default=True, metavar="HOST:PORT")
@click.option("--name", default="", help="This replica's name in events and logs; else the host's.")
@otlp_option
@limit_options
@pass_session
def server(
    session: Session,
    *,
    database: str | None,
    listen: str,
    name: str,
    otlp: str | None,
    limit_principal: str | None,
    limit_tenant: str | None,
    limit_address: str | None,
    connections: int | None,
    streams: int | None,
) -> None:
    """Run one replica of the control plane on PostgreSQL. Start as many as you like; one of them leads.

    It speaks plain HTTP: put a proxy that speaks TLS in front of it. Sites come in with `windlass agent`.

    \b
      windlass migrate --database postgresql://windlass@db/windlass --admin-key admin.key
      windlass server --database postgresql://windlass@db/windlass --listen 0.0.0.0:7420
    """
    host, port = host_and_port(listen)
    from windlass.server import ServerOptions, run_server

    options = ServerOptions(
        database=_url(database),
        host=host,
        port=port,
        name=name,
        log_level=log_level(),
        otlp=collector() if otlp is None else otlp,
        bounds=chosen(limit_principal, limit_tenant, limit_address, connections, streams),
    )
    with suppress(KeyboardInterrupt):  # the way to stop it
        run_server(options, lambda ready: _tell(session, ready))
    session.say("stopped; another replica leads within seconds, and what runs on the sites runs on")


@command("migrate", short_help="Bring a database to this release's schema.")
@_DATABASE
@click.option(
    "--admin-key",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Also make a platform-admin's key named admin, and write it there; an older one of that name ends.",
)
@pass_session
def migrate(session: Session, *, database: str | None, admin_key: Path | None) -> None:
    """Bring a database to this release's schema. Servers do that too when they start; this makes it a
    step of its own, and makes the first key.

    \b
      windlass migrate --database postgresql://windlass@db/windlass --admin-key admin.key
      WINDLASS_SERVER=http://127.0.0.1:7420 WINDLASS_API_KEY=$(cat admin.key) windlass whoami
    """
    from windlass.server import run_migrate

    run_migrate(_url(database), admin_key)
    session.say("the database has this release's schema")
    if admin_key is not None:
        session.say(f"the key of the platform-admin 'admin' is in {admin_key}")


@command("agent", short_help="Run a site for servers elsewhere.")
@click.option(
    "--site", required=True, metavar="NAME", help="The site it speaks for, as its document names it."
)
@click.option(
    "--key-file",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    metavar="FILE",
    help="The key of the role agent for this site; else WINDLASS_API_KEY.",
)
@click.option(
    "--data",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Where it keeps its jobs; else ~/.local/share/windlass/sites/NAME.",
)
@fleet_options
@otlp_option
@click.option(
    "--metrics", metavar="HOST:PORT", help="Answer there with its metrics, for Prometheus; else it does not."
)
@pass_session
def agent(
    session: Session,
    *,
    site: str,
    key_file: Path | None,
    data: Path | None,
    gpus: str | None,
    nodes: int,
    otlp: str | None,
    metrics: str | None,
) -> None:
    """Run a site for servers elsewhere: its GPUs, its jobs, its logs. It dials out; nothing dials in.

    With --server several addresses may be given, separated by commas: the replicas of one platform.

    \b
      windlass key create --role agent --site fra1 --name fra1-agent > fra1.key
      windlass agent --site fra1 --server http://one:7420,http://two:7420 --key-file fra1.key
    """
    from windlass.agent import AgentOptions, run_agent

    options = AgentOptions(
        site=site,
        servers=tuple(part.strip() for part in session.access.server.split(",")),
        key=key_file.read_text().strip() if key_file is not None else session.access.api_key,
        data=data or default_data() / "sites" / site,
        gpus=gpus,
        nodes=nodes,
        log_level=log_level(),
        otlp=collector() if otlp is None else otlp,
        metrics=host_and_port(metrics, "--metrics") if metrics is not None else None,
    )
    with suppress(KeyboardInterrupt):  # the way to stop it
        run_agent(options, lambda joined: _tell_site(session, joined))
    session.say("stopped; jobs that run go on, and are found again at the next start")


def _tell_site(session: Session, joined: Joined) -> None:
    session.say(f"the site {joined.site} has {joined.nodes} nodes with {joined.gpus} GPUs", bold=True)
    if joined.metrics:
        session.say(f"  metrics at {joined.metrics}")


def _url(database: str | None) -> str:
    url = database or os.environ.get("WINDLASS_DATABASE", "")
    if not url.startswith(("postgresql://", "postgres://")):
        raise Invalid(
            "say which database"
            if not url
            else "the address of the database does not begin with postgresql://",
            remedy="give --database postgresql://USER@HOST:PORT/NAME, or set WINDLASS_DATABASE;"
            " `windlass up` needs none",
        )
    return url


def _tell(session: Session, ready: Open) -> None:
    if session.machine:
        print_value({"address": ready.address, "replica": ready.replica}, session.output)
    session.say(f"Windlass serves at {ready.address} as {ready.replica}", bold=True)
