"""`login` and `logout`: a person's own tokens, from an identity provider that the server trusts.

The server says which providers there are. The person answers the provider in a browser, anywhere; the
tokens go from the provider to the context of the server they were asked for, and to no other.
"""

from __future__ import annotations

import time

import click

from windlass.core.errors import Invalid, NotFound, NotPermitted, Unavailable
from windlass.experience.cli.identity import show_person
from windlass.experience.cli.session import Session, command, pass_session
from windlass.sdk import api


@command("login", short_help="Log in with an identity provider.", takes=["tenant"])
@click.option("--provider", metavar="NAME", help="Which identity provider, where the server has several.")
@pass_session
def login(session: Session, provider: str | None) -> None:
    """Log in with an identity provider: open the address that is shown, and enter the code.

    The tokens are kept in the context, and renewed without asking until the provider ends the login.
    With -t, that is the tenant to act in from now on.

    \b
      windlass login --server https://windlass.example.com
      windlass login --provider corp -t acme
    """
    from windlass.sdk import provider as idp
    from windlass.sdk.client import Client
    from windlass.sdk.contexts import save_login

    server = session.access.server
    chosen = _chosen(Client(server).login_info().providers, provider)
    endpoints = idp.discover(chosen.issuer)
    asker = idp.Asker(chosen.client_id, chosen.audience_parameter or "", chosen.audience or "")
    device = idp.start_device(endpoints, asker, chosen.scopes)
    session.complain(f"Log in with {chosen.name} ({chosen.issuer}):")
    session.complain(f"  open   {device.complete_uri or device.uri}")
    session.complain(f"  code   {device.user_code}")
    answer = idp.await_device(endpoints, asker, device, time.sleep, time.monotonic)
    made = idp.login_of(chosen.name, chosen.issuer, asker, answer, time.time())
    context = session.access.context or Client(server).server.host
    save_login(context, server, made, tenant=session.chosen_tenant)
    session.say(f"logged in; kept in the context {context!r}")
    if not made.refresh_token:
        session.say(f"note: it ends at {made.expires_at}; the provider gave no refresh token")
    _show(session, context)


@command("logout", short_help="Forget your login, and end it at the provider.")
@pass_session
def logout(session: Session) -> None:
    """Forget the login of the context, and end it at the provider. A key in the context stays.

    \b
      windlass logout
      windlass logout --context prod
    """
    from windlass.sdk import provider as idp
    from windlass.sdk.contexts import drop_login

    context = session.access.context
    dropped = drop_login(context) if context else None
    if dropped is None:
        session.say("you were not logged in")
        return
    try:
        told = idp.revoke(dropped)
    except (Unavailable, Invalid) as error:
        told = False
        session.say(f"note: {error.detail}")
    ended = "" if told else "; the provider was not told, so its session ends by itself"
    session.say(f"logged out of {context!r}{ended}")


def _chosen(providers: list[api.LoginProvider], name: str | None) -> api.LoginProvider:
    if not providers:
        raise NotFound(
            "this server has no identity provider",
            remedy="use an API key, or have a platform-admin apply an IdentityProvider document",
        )
    names = ", ".join(one.name for one in providers)
    found = [one for one in providers if name in (None, one.name)]
    if not found:
        raise NotFound(f"there is no identity provider {name!r}", remedy=f"use one of {names}")
    if len(found) > 1:
        raise Invalid(f"there are several identity providers: {names}", remedy="choose one with --provider")
    return found[0]


def _show(session: Session, context: str) -> None:
    """Who that makes you. A login without a role, or with several, is one all the same."""
    fresh = Session()
    fresh.context, fresh.server, fresh.output = context, session.server, session.output
    fresh.chosen_tenant, fresh.quiet, fresh.no_color = session.chosen_tenant, session.quiet, session.no_color
    try:
        show_person(fresh, fresh.client.whoami())
    except NotPermitted as error:
        session.say(f"note: {error.detail}")
        if error.remedy:
            session.say(f"  try: {error.remedy}")
