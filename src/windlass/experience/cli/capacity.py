"""`node list`, `site list`, `site render`: what there is to run on, and what a site needs for it. `site lost`
gives up one that never comes back."""

from __future__ import annotations

import click
import msgspec

from windlass.core.errors import NotFound
from windlass.experience.cli import columns
from windlass.experience.cli.listing import show_items
from windlass.experience.cli.output import print_value, write
from windlass.experience.cli.render import catalog_option, read_catalog
from windlass.experience.cli.session import Session, group, pass_session
from windlass.sdk import api


@group("node", short_help="Show the machines.")
def node() -> None:
    """Show the machines.

    \b
      windlass node list
    """


@node.command("list")
@pass_session
def node_list(session: Session) -> None:
    """List the machines, their GPUs and what is free.

    \b
      windlass node list -o wide
    """
    show_nodes(session)


def show_nodes(session: Session, name: str | None = None) -> None:
    found = session.client.nodes()
    items = [one for one in found.items if name is None or one.name == name]
    if name is not None and not items:
        raise NotFound(f"no node {name!r}", remedy="`windlass node list` shows them")
    value = found if name is None else items[0]
    show_items(session, value, columns.NODES, items, lambda one: f"node/{one.name}")


@group("site", short_help="Show the sites, or give one up.")
def site() -> None:
    """Show the sites, or give one up.

    \b
      windlass site list
      windlass site render fra1
      windlass site lost fra1 --reason "the hall burnt down"
    """


@site.command("list")
@pass_session
def site_list(session: Session) -> None:
    """List the sites and what runs them.

    \b
      windlass site list -o yaml
    """
    found = session.client.documents("Site")
    show_items(
        session, found, columns.documents("Site"), found.items, lambda one: f"site/{one.metadata['name']}"
    )


@site.command("lost")
@click.argument("name")
@click.option("--reason", required=True, metavar="TEXT", help="Why, for the audit log.")
@pass_session
def site_lost(session: Session, name: str, reason: str) -> None:
    """Give up a site that never comes back. Only for a platform-admin, and only while its agent is away.

    Its work ends as lost, and is not billed for the time after the site was last heard of. Services and jobs
    with retries wait again, and start elsewhere where they may; the rest fails. Should the agent come back
    after all, it stops what it still runs.

    \b
      windlass site lost fra1 --reason "the hall burnt down"
    """
    done = session.client.lose_site(name, reason)
    if session.machine:
        print_value(done, session.output)
    elif session.output == "name":
        write(f"site/{done.site}")
    else:
        write(f"site/{done.site} given up: {_became(done)}")
        session.say(f"nothing there is billed after {done.last_heard}, when it was last heard of")


def _became(done: api.SiteLoss) -> str:
    told = {"waiting again": done.waiting, "failed": done.failed, "cancelled": done.cancelled}
    counted = [f"{count} {what}" for what, count in told.items() if count]
    return ", ".join(counted) or "no work was there"


@site.command("render")
@click.argument("name")
@catalog_option
@pass_session
def site_render(session: Session, name: str, catalog: str | None) -> None:
    """Show what a Kubernetes site needs around the work: queues from the envelopes, priority classes,
    hardware profiles, and for every cell its namespace, quota, rights and network policy. Canonical JSON.
    `requirements` say what has to be installed and set there first.

    \b
      windlass site render fra1
      windlass site render fra1 --catalog catalog/ -o yaml
    """
    from windlass.core.compiler.kubernetes.cell import cell_objects
    from windlass.core.compiler.kubernetes.site import site_objects

    known = read_catalog(session, catalog)
    found = known.sites.get(name)
    if found is None or found.orchestrator != "kubernetes":
        raise NotFound(f"no Kubernetes site {name!r}", remedy="`windlass site list` shows the sites")
    around = site_objects(known, name)
    cells = [
        thing
        for project, entry in sorted(known.projects.items())
        for env in entry.spec.environments
        for thing in cell_objects(known, name, project, env)
    ]
    needed = [msgspec.to_builtins(one) for one in around.requirements]
    shown = {"site": name, "objects": [*around.objects, *cells], "requirements": needed}
    if session.output == "yaml":
        print_value(shown, "yaml")
    else:
        write(msgspec.json.encode(shown, order="sorted").decode())
