"""`key …`, `token …`, `service-account …`: credentials, and who acts without being a person."""

from __future__ import annotations

import click

from windlass.core.errors import Invalid, NotFound
from windlass.experience.cli import columns
from windlass.experience.cli.actions import seconds
from windlass.experience.cli.listing import show_items
from windlass.experience.cli.output import print_value, write
from windlass.experience.cli.session import Session, group, pass_session
from windlass.sdk import api

ROLES = ("platform-admin", "platform-viewer", "tenant-admin", "developer", "viewer", "agent")

_ACTION = click.option(
    "--action", "actions", multiple=True, metavar="ACTION", help="Only this action of the role; repeatable."
)


@group("key", short_help="Create, list, rotate and revoke API keys.")
def key() -> None:
    """Create, list, rotate and revoke API keys.

    \b
      windlass key create --name ci --role developer -t acme
      windlass key list
    """


@key.command("create", takes=["tenant", "project"])
@click.option("--name", default="", help="Who or what it is for; else the service account's name.")
@click.option("--role", metavar="ROLE", help=f"One of {', '.join(ROLES)}.")
@click.option("--service-account", "account", metavar="NAME", help="Whose key it is, instead of a role.")
@click.option("--expires", metavar="DURATION", help="Not valid any more after, such as 30d.")
@click.option("--site", metavar="NAME", help="Of an agent's key: the site it speaks for.")
@_ACTION
@pass_session
def key_create(
    session: Session,
    name: str,
    role: str | None,
    account: str | None,
    expires: str | None,
    site: str | None,
    actions: tuple[str, ...],
) -> None:
    """Create an API key. Its secret is shown this once, alone on stdout.

    With -p it is for that project only, with --action for those actions only.

    \b
      export WINDLASS_API_KEY=$(windlass key create --name ci --role developer -t acme)
      windlass key create --service-account ci -t acme -p nlp --expires 30d
    """
    if (role is None) == (account is None):
        raise Invalid(
            "a key has a role of its own, or belongs to a service account",
            remedy="give --name and --role, or --service-account",
        )
    made = session.client.create_key(
        name,
        role,
        tenant=session.tenant,
        expires_in_s=_whole_seconds(expires),
        service_account=account,
        actions=list(actions) or None,
        project=session.chosen_project,
        site=site,
    )
    _show_secret(session, made, f"key/{made.key.id} created", made.secret)


@key.command("list", takes=["tenant"])
@pass_session
def key_list(session: Session) -> None:
    """List the API keys you may see, without their secrets.

    \b
      windlass key list -t acme
    """
    show_keys(session)


def show_keys(session: Session, name: str | None = None) -> None:
    """All, or the one with this id; or those with this name, for names may repeat."""
    found = session.client.keys(tenant=session.tenant)
    items = found.items
    value: api.KeyList | api.Key = found
    if name is not None:
        wanted = name.removeprefix("key/")
        items = [one for one in items if one.id == wanted] or [one for one in items if one.name == wanted]
        if not items:
            raise NotFound(f"no key {wanted!r} that you may see", remedy="`windlass key list` shows them")
        value = items[0] if len(items) == 1 else api.KeyList(items=items)
    show_items(session, value, columns.KEYS, items, lambda one: f"key/{one.id}")


@key.command("rotate")
@click.argument("id")
@click.option(
    "--overlap",
    default="24h",
    show_default=True,
    metavar="DURATION",
    help="How long the old key works on; 0s ends it at once.",
)
@pass_session
def key_rotate(session: Session, id: str, overlap: str) -> None:
    """Make a successor of a key. Its secret is shown this once, alone on stdout.

    The successor has the same name, role and limits, and lives as long as the old key was made to.

    \b
      windlass key rotate key_… --overlap 1h > key.txt
    """
    length_s = _whole_seconds(overlap)
    assert length_s is not None
    old = id.removeprefix("key/")
    made = session.client.rotate_key(old, overlap_s=length_s)
    until = f"works on for {overlap}" if length_s else "has ended"
    _show_secret(session, made, f"key/{made.key.id} created; key/{old} {until}", made.secret)


@key.command("revoke")
@click.argument("id")
@pass_session
def key_revoke(session: Session, id: str) -> None:
    """Make an API key useless from now on, with every token that was exchanged for it.

    \b
      windlass key revoke key_…
    """
    session.client.revoke_key(id.removeprefix("key/"))
    if not session.machine:
        write(f"key/{id.removeprefix('key/')} revoked")


# --- short-lived tokens -----------------------------------------------------------------------


@group("token", short_help="Exchange your key or login for a short-lived token.")
def token() -> None:
    """Exchange your key or login for a short-lived token, list and revoke them.

    \b
      windlass token create --lifetime 5m
      windlass token list
    """


@token.command("create", takes=["project"])
@click.option(
    "--lifetime",
    default="15m",
    show_default=True,
    metavar="DURATION",
    help="At most 1h, and never longer than what it is exchanged for.",
)
@_ACTION
@pass_session
def token_create(session: Session, lifetime: str, actions: tuple[str, ...]) -> None:
    """Exchange your credential for a token that lives shortly and may do no more than you.

    \b
      WINDLASS_API_KEY=$(windlass token create -p nlp --action component.read) ./report.py
    """
    made = session.client.create_token(
        lifetime_s=_whole_seconds(lifetime) or 0,
        actions=list(actions) or None,
        project=session.chosen_project,
    )
    _show_secret(session, made, f"token/{made.token.id} until {made.token.expires_at}", made.secret)


@token.command("list", takes=["tenant"])
@pass_session
def token_list(session: Session) -> None:
    """List short-lived tokens, without their secrets.

    \b
      windlass token list -t acme
    """
    found = session.client.tokens(tenant=session.tenant)
    show_items(session, found, columns.TOKENS, found.items, lambda one: f"token/{one.id}")


@token.command("revoke")
@click.argument("id")
@pass_session
def token_revoke(session: Session, id: str) -> None:
    """Make a short-lived token useless at once.

    \b
      windlass token revoke tok_…
    """
    session.client.revoke_token(id.removeprefix("token/"))
    if not session.machine:
        write(f"token/{id.removeprefix('token/')} revoked")


# --- service accounts -------------------------------------------------------------------------


@group("service-account", short_help="Who acts without being a person: create, list, delete.")
def service_account() -> None:
    """Who acts without being a person: a name with a role, and keys of its own.

    \b
      windlass service-account create ci --role developer -t acme
      windlass service-account list
    """


@service_account.command("create", takes=["tenant"])
@click.argument("name")
@click.option("--role", required=True, metavar="ROLE", help=f"One of {', '.join(ROLES)}.")
@click.option("--note", default="", help="What it is for.")
@pass_session
def service_account_create(session: Session, name: str, role: str, note: str) -> None:
    """Create a service account; `key create --service-account NAME` makes a key for it.

    \b
      windlass service-account create ci --role developer -t acme --note "the build"
    """
    made = session.client.create_service_account(name, role, tenant=session.tenant, note=note)
    if session.machine:
        print_value(made, session.output)
    else:
        write(f"serviceaccount/{made.name} created")


@service_account.command("list", takes=["tenant"])
@pass_session
def service_account_list(session: Session) -> None:
    """List the service accounts you may see.

    \b
      windlass service-account list -t acme
    """
    found = session.client.service_accounts(tenant=session.tenant)
    show_items(session, found, columns.ACCOUNTS, found.items, lambda one: f"serviceaccount/{one.name}")


@service_account.command("delete", takes=["tenant"])
@click.argument("name")
@pass_session
def service_account_delete(session: Session, name: str) -> None:
    """Delete a service account. Its keys end at once.

    \b
      windlass service-account delete ci -t acme
    """
    plain = name.removeprefix("serviceaccount/")
    session.client.delete_service_account(plain, tenant=session.tenant)
    if not session.machine:
        write(f"serviceaccount/{plain} deleted; its keys do not work any more")


def _whole_seconds(duration: str | None) -> int | None:
    length_s = seconds(duration)
    return None if length_s is None else int(length_s)


def _show_secret(session: Session, made: object, note: str, secret: str) -> None:
    if session.machine:
        print_value(made, session.output)
    else:
        session.say(f"{note}; keep the secret, it is not shown again")
        write(secret)
