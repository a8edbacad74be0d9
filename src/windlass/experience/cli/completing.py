"""What the shell offers after TAB: kinds, and names the server knows if it answers at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

import click

from windlass.experience.cli.session import Session

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from windlass.sdk.client import Client

T = TypeVar("T")

_PATIENCE_S = 0.3  # beyond this, TAB feels broken


def complete_kind(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:  # noqa: ARG001
    from windlass.experience.cli.kinds import KINDS

    return [kind.plural for kind in KINDS if kind.plural.startswith(incomplete.lower())]


def complete_phase(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:  # noqa: ARG001
    from windlass.experience.cli.phases import PHASES

    return [phase for phase in PHASES if phase.lower().startswith(incomplete.lower())]


def complete_phase_or_final(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    last = ["final"] if "final".startswith(incomplete.lower()) else []
    return [*complete_phase(ctx, param, incomplete), *last]


def complete_file(
    ctx: click.Context,  # noqa: ARG001
    param: click.Parameter,  # noqa: ARG001
    incomplete: str,
) -> list[CompletionItem]:
    """The shell knows its files best."""
    from click.shell_completion import CompletionItem

    return [CompletionItem(incomplete, type="file")]


def complete_name(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Names of the kind that was typed before; nothing for kinds whose members have no names."""
    from windlass.core.errors import Invalid
    from windlass.experience.cli.kinds import find_kind

    try:
        kind = find_kind(str(ctx.params.get("kind") or ""))
    except Invalid:
        return []
    if kind.kind == "Component":
        return complete_component(ctx, param, incomplete)

    def names(client: Client, session: Session) -> list[str]:
        if kind.document:
            found = client.documents(kind.plural, tenant=kind.tenant_of(session), limit=200)
            return [str(one.metadata["name"]) for one in found.items]
        match kind.kind:
            case "Node":
                return [one.name for one in client.nodes().items]
            case "Key":
                return [one.id for one in client.keys(tenant=session.tenant).items]
            case "Decision":
                return [one.id for one in client.decisions(limit=50).items]
        return []

    return [name for name in sorted(_ask(ctx, names)) if name.startswith(incomplete)]


def complete_place(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Tenants, projects, or the environments of the project that was said."""

    def names(client: Client, session: Session) -> list[str]:
        if param.opts[0] == "-t":
            return [str(one.metadata["name"]) for one in client.documents("Tenant", limit=200).items]
        found = client.documents("Project", tenant=session.tenant, limit=200).items
        if param.opts[0] == "-p":
            return [str(one.metadata["name"]) for one in found]
        chosen = [one for one in found if session.project in (None, one.metadata["name"])]
        return sorted({str(env) for one in chosen for env in one.spec.get("environments", [])})

    return [name for name in sorted(_ask(ctx, names)) if name.startswith(incomplete)]


def complete_type(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:  # noqa: ARG001
    """Component types, by name and version."""

    def names(client: Client, _: Session) -> list[str]:
        found = client.documents("ComponentType", limit=200)
        return [f"{one.metadata['name']}@{one.spec['version']}" for one in found.items]

    return [name for name in sorted(_ask(ctx, names)) if name.startswith(incomplete)]


def complete_component(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:  # noqa: ARG001
    """Full paths, and plain names as long as no slash was typed."""

    def components(client: Client, session: Session) -> list[tuple[str, str, str]]:
        listed = client.components(
            project=session.chosen_project, env=session.chosen_env, tenant=session.tenant, limit=200
        )
        return [(one.metadata.project, one.metadata.env, one.metadata.name) for one in listed.items]

    found = _ask(ctx, components)
    paths = [f"{one[0]}/{one[1]}/{one[2]}" for one in found]
    names = sorted({one[2] for one in found}) if "/" not in incomplete else []
    return [word for word in (*names, *paths) if word.startswith(incomplete)]


def _ask(ctx: click.Context, question: Callable[[Client, Session], list[T]]) -> list[T]:
    """Nothing, rather than an error, when the server is away or slow: this runs inside a shell."""
    from windlass.core.errors import WindlassError
    from windlass.sdk.client import Client
    from windlass.sdk.retries import Retries

    session = ctx.find_object(Session) or Session()
    try:
        access = session.access
        client = Client(
            access.server,
            access.login.access_token if access.login is not None else access.api_key,
            timeout_s=_PATIENCE_S,
            connect_timeout_s=_PATIENCE_S,
            retries=Retries(attempts=1),
        )
        return question(client, session)
    except WindlassError:
        return []
