"""`whoami`, `context …`: who talks to which server."""

from __future__ import annotations

import click
import msgspec

from windlass.experience.cli import phrases
from windlass.experience.cli.output import print_value, show, write
from windlass.experience.cli.session import Session, command, group, pass_session
from windlass.sdk import api

_SECRET = ("api_key", "login")


@command("whoami", short_help="Show who you are and what you may do.")
@pass_session
def whoami(session: Session) -> None:
    """Show who you are and what you may do.

    \b
      windlass whoami
      windlass whoami --context local -o json
    """
    show_person(session, session.client.whoami())


def show_person(session: Session, found: api.WhoAmI) -> None:
    if session.machine:
        print_value(found, session.output)
    elif session.output == "name":
        write(found.name)
    else:
        tenant = f" of tenant {found.tenant}" if found.tenant else ""
        write(f"{found.name}, {found.role}{tenant}, on {session.client.server.url}")
        ends = phrases.when(found.expires_at, session.now_ms())
        write(f"  by       {shown_by(found)}" + (f", until {found.expires_at} ({ends})" if ends else ""))
        write(f"  context  {session.access.context or 'none'}")
        if found.project:
            write(f"  only     in the project {found.project}")
        write(f"  may      {'; '.join(found.can or found.may)}")


def shown_by(found: api.WhoAmI) -> str:
    """What the server recognised you by."""
    match found.via:
        case "oidc":
            return f"a login with {found.provider} ({found.key_id})"
        case "token":
            return f"the short-lived token {found.key_id}"
        case _:
            account = f" of the service account {found.service_account}" if found.service_account else ""
            return f"the key {found.key_id}{account}"


@group("context", short_help="List the servers you know, and pick one.")
def context() -> None:
    """List the servers you know, and pick one. `windlass up` writes the context `local`.

    \b
      windlass context list
      windlass context use local
    """


@context.command("list")
@pass_session
def context_list(session: Session) -> None:
    """List the contexts of the configuration file; the keys in it are not shown.

    \b
      windlass context list
    """
    from windlass.sdk.contexts import load_contexts

    file = load_contexts()
    for note in file.notes:
        session.say(f"note: {note}")
    headers = ["CURRENT", "NAME", "SERVER", "LOGIN", "PROJECT", "ENV", "TENANT"]
    rows = [
        [
            "*" if name == file.current else "",
            name,
            one.server,
            one.login.provider if one.login is not None else "",
            one.project or "",
            one.env or "",
            one.tenant or "",
        ]
        for name, one in sorted(file.contexts.items())
    ]
    value = {
        "current": file.current,
        "contexts": {
            name: {
                part: text for part, text in msgspec.to_builtins(one).items() if part not in _SECRET and text
            }
            for name, one in file.contexts.items()
        },
    }
    show(session, value, headers, rows, sorted(file.contexts))


@context.command("use", takes=["tenant"])
@click.argument("name")
@pass_session
def context_use(session: Session, name: str) -> None:
    """Make a context the current one. With -t, that tenant is its default from now on.

    \b
      windlass context use local
    """
    from windlass.sdk.contexts import use_context

    chosen = use_context(name, tenant=session.chosen_tenant)
    if session.machine:
        print_value({"current": name, "server": chosen.server}, session.output)
    elif session.output == "name":
        write(name)
    session.say(f"using {name}: {chosen.server}")
