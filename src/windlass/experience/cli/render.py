"""`render -f`: what an orchestrator would be told, as canonical JSON. The compiler of the server, here.

With `--catalog` it needs no server; without, it reads the documents you may see from yours. Shipped
types and traits are part of every catalog.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

import click
import msgspec

from windlass.core.errors import Invalid, Rejected
from windlass.experience.cli.apply import files_option
from windlass.experience.cli.files import Source, read_sources
from windlass.experience.cli.output import print_value, write
from windlass.experience.cli.session import Session, command, pass_session

if TYPE_CHECKING:
    from windlass.core.catalog.snapshot import Catalog
    from windlass.core.documents.scalars import Target

TARGETS = ("kubernetes", "slurm", "local")


catalog_option = click.option(
    "--catalog",
    type=click.Path(exists=True),
    metavar="DIR",
    help="Catalog documents to render under; then no server is needed.",
)


@command("render", short_help="Show what the orchestrator would be told to run.")
@files_option
@click.option("--target", type=click.Choice(TARGETS), default="local", show_default=True)
@click.option("--site", metavar="NAME", help="The site to render for; else the first of the target.")
@catalog_option
@pass_session
def render(
    session: Session, files: Sequence[str], target: str, site: str | None, catalog: str | None
) -> None:
    """Show what the orchestrator would be told to run: canonical JSON, the same bytes every time.

    \b
      windlass render -f train.yaml --catalog catalog/
      windlass render -f train.yaml --target kubernetes -o yaml

    What it would be refused for, it is refused for here. Where the catalog has no site of the target, it is
    rendered for one with nothing special about it.
    """
    sources = read_sources(files)
    others = [one.label for one in sources if not one.is_component]
    if others:
        raise Invalid(
            f"only components are rendered, not {others[0]}", remedy="give catalog documents with --catalog"
        )
    known = read_catalog(session, catalog)
    manifests = [_manifest(session, one, known, cast("Target", target), site) for one in sources]
    shown: Any = manifests[0] if len(manifests) == 1 else manifests
    if session.output == "yaml":
        print_value(shown, "yaml")
    else:
        write(msgspec.json.encode(shown, order="sorted").decode())


def _manifest(
    session: Session, source: Source, catalog: Catalog, target: Target, site: str | None
) -> dict[str, Any]:
    """Compiled, if nothing but budget and fleet could stand in its way. What is rendered does not depend on
    the time; whether it would be refused does (bursts, retired types, policies with hours)."""
    from windlass.core.admission.case import Facts, open_case
    from windlass.core.admission.decide import judge
    from windlass.core.admission.traits import missing_at, usable_sites, with_sharing
    from windlass.core.compiler.compile import Uncompilable, compile_component
    from windlass.core.compiler.local import compile_shape
    from windlass.core.documents.parse import parse_all
    from windlass.core.units import Ms

    (item,) = parse_all([source.tree]).intents
    where, known = _site(catalog, target, site)
    case = with_sharing(open_case(item.value, known, Facts(now=Ms(session.now_ms())), None))
    reasons = judge(case)
    if reasons:
        raise Rejected(
            f"{item.value.path} would be rejected",
            reasons=reasons,
            extra={"where": [source.where(reason.field) for reason in reasons]},
        )
    if missing := missing_at(case, where):
        raise Rejected(
            f"{item.value.path} does not run on {target}: {'; '.join(missing)}",
            remedy="render it for another --target, or ask a platform engineer for what is missing",
        )
    try:
        compiled = compile_component(case, where)
    except Uncompilable as error:
        raise Rejected(
            f"{item.value.path} cannot be rendered for {target}: {error}",
            remedy="change what it names, or ask a platform engineer to mend the type",
        ) from None
    made = {"component": item.value.path, "target": target, "site": where}
    if target == "local":
        shape = compile_shape(case, usable_sites(case))
        return {**made, "manifest": compiled.manifests, "shape": msgspec.to_builtins(shape)}
    return {**made, "manifests": compiled.manifests}


def _site(catalog: Catalog, target: Target, wanted: str | None) -> tuple[str, Catalog]:
    """The site to render for, and the catalog in which it is."""
    from dataclasses import replace

    from windlass.core.documents.kinds import Site

    there = sorted(name for name, site in catalog.sites.items() if site.orchestrator == target)
    if wanted is not None and wanted not in there:
        known = f"use one of {', '.join(there)}" if there else f"declare a Site with orchestrator: {target}"
        raise Invalid(f"there is no {target} site {wanted}", remedy=known)
    if wanted or there:
        return wanted or there[0], catalog
    return target, replace(catalog, sites={**catalog.sites, target: Site(target)})


def read_catalog(session: Session, files: str | None) -> Catalog:
    return _from_files(files) if files else _from_server(session)


def _from_files(name: str) -> Catalog:
    """Judged as a server would judge it, had it nothing yet."""
    from windlass.core.catalog.changes import apply_documents
    from windlass.core.catalog.snapshot import EMPTY
    from windlass.core.documents.parse import parse_all

    sources = read_sources([name])
    items = parse_all([one.tree for one in sources if not one.is_component]).documents
    lines = {item.value.key: item.tree for item in items}
    return apply_documents(EMPTY, [item.value for item in items], sources=lines).catalog


def _from_server(session: Session) -> Catalog:
    """Not judged again: of what its asker may not see, names can be missing."""
    from windlass.core.catalog.snapshot import Catalog
    from windlass.core.documents.kinds import KINDS
    from windlass.core.documents.parse import parse_all
    from windlass.core.documents.problems import invalid
    from windlass.core.documents.tree import Tree

    documents = [
        msgspec.to_builtins(document)
        for kind in KINDS.values()
        for document in session.client.documents(kind.plural).items
    ]
    parsed = parse_all([Tree(document) for document in documents if not _is_shipped(document)])
    if parsed.problems:
        raise invalid(parsed.problems)
    return Catalog.build(0, [item.value for item in parsed.documents])


def _is_shipped(document: dict[str, Any]) -> bool:
    """Shipped documents carry no version of their own; they are in every catalog anyway."""
    return document["kind"] in ("ComponentType", "Trait") and not document["metadata"].get("version")
