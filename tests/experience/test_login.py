"""`windlass login`, `logout` and `whoami`, against a server and a provider on this machine."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.sdk.canned_server import Asked, CannedServer, Reply, problem
from tests.sdk.identity_provider import RotatingProvider

from windlass.contracts import api
from windlass.experience.cli.main import main
from windlass.sdk import contexts, provider

WHOAMI = api.WhoAmI(
    name="corp:ada@acme.test",
    role="developer",
    tenant="acme",
    key_id="corp/acme/u-1",
    expires_at="2030-01-01T00:00:00.000Z",
    may=["component.read"],
    can=["read components"],
    via="oidc",
    provider="corp",
)
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setattr("time.sleep", lambda _: None)

    def invoke(*args: str) -> tuple[int, str, str]:
        code = main(args)
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return invoke


def offers(server: CannedServer, *names: str) -> RotatingProvider:
    idp = RotatingProvider(server, lifetime_s=10**6)
    idp.approved = True
    providers = [
        api.LoginProvider(name=name, issuer=idp.issuer, client_id="cli", scopes=["openid"]) for name in names
    ]
    server.answer("GET", "/v1/identity", api.LoginInfo(providers=providers))
    server.answer("GET", "/v1/whoami", WHOAMI)
    return idp


def test_login_shows_where_to_go_keeps_the_tokens_and_says_who_you_are(
    server: CannedServer, run: Run
) -> None:
    offers(server, "corp")
    code, out, err = run("login", "--server", server.url)
    assert code == 0
    assert f"open   {server.url}/enter" in err and "code   WDJB-MJHT" in err
    assert "corp:ada@acme.test, developer of tenant acme" in out
    assert "a login with corp (corp/acme/u-1), until 2030-01-01" in out
    assert "may      read components" in out
    assert "authorization" not in server.requests("GET", "/v1/identity")[0].headers
    assert server.requests("GET", "/v1/whoami")[0].headers["authorization"] == "Bearer access.1.x"
    file = contexts.load_contexts()
    assert file.current == "127.0.0.1" and file.contexts["127.0.0.1"].login is not None
    assert "access.1.x" not in out + err


@pytest.mark.parametrize(
    ("code", "words"),
    [("expired_token", "the code was not entered in time"), ("invalid_grant", "invalid_grant")],
)
def test_a_login_that_comes_to_nothing_says_why_and_not_that_there_is_no_key(
    server: CannedServer, run: Run, code: str, words: str
) -> None:
    offers(server, "corp")
    server.answer("POST", "/token", Reply(400, {"error": code}))
    status, _, err = run("login", "--server", server.url)
    assert status == 7 and words in err and "you have no key" not in err


def test_login_into_a_context_leaves_its_key_for_after_the_logout(server: CannedServer, run: Run) -> None:
    idp = offers(server, "corp")
    contexts.save_context("local", server.url, "wdl_key")
    assert run("login", "-t", "acme")[0] == 0
    assert contexts.load_contexts().contexts["local"].tenant == "acme"
    assert server.requests("GET", "/v1/whoami")[-1].headers["windlass-tenant"] == "acme"
    code, _, err = run("logout")
    assert (code, err) == (0, "logged out of 'local'\n")
    assert idp.revoked == ["refresh-1"]
    assert run("whoami")[0] == 0
    assert server.asked[-1].headers["authorization"] == "Bearer wdl_key"
    assert run("logout")[2] == "you were not logged in\n"


def test_logout_forgets_also_while_the_provider_is_away(server: CannedServer, run: Run) -> None:
    offers(server, "corp")
    run("login", "--server", server.url)
    server.answer("GET", "/.well-known/openid-configuration", Reply(503, {}))
    code, _, err = run("logout")
    assert code == 0 and "the provider was not told" in err
    assert contexts.load_contexts().contexts["127.0.0.1"].login is None


def test_a_login_takes_a_tenant_on_every_command(server: CannedServer, run: Run) -> None:
    offers(server, "corp")
    run("login", "--server", server.url)
    assert run("whoami", "-t", "globex")[0] == 0
    assert server.asked[-1].headers["windlass-tenant"] == "globex"
    assert run("context", "use", "127.0.0.1", "-t", "acme")[0] == 0
    assert run("whoami")[0] == 0
    assert server.asked[-1].headers["windlass-tenant"] == "acme"


def test_with_several_tenants_login_says_what_to_do_next(server: CannedServer, run: Run) -> None:
    offers(server, "corp")
    refused = problem(403, "not-permitted", "several tenants: acme, globex", remedy="say which: --tenant")
    server.answer("GET", "/v1/whoami", refused)
    code, _, err = run("login", "--server", server.url)
    assert code == 0 and "note: several tenants" in err and "try: say which: --tenant" in err


@pytest.mark.parametrize(
    ("names", "args", "code", "words"),
    [
        ((), (), 4, "no identity provider"),
        (("corp", "partner"), (), 2, "several identity providers: corp, partner"),
        (("corp",), ("--provider", "other"), 4, "use one of corp"),
    ],
)
def test_which_provider_is_never_guessed(
    server: CannedServer, run: Run, names: tuple[str, ...], args: tuple[str, ...], code: int, words: str
) -> None:
    offers(server, *names)
    found, _, err = run("login", "--server", server.url, *args)
    assert found == code and words in err


def test_the_contexts_are_listed_without_tokens(server: CannedServer, run: Run) -> None:
    offers(server, "corp")
    run("login", "--server", server.url)
    for output in ("table", "json", "yaml", "wide"):
        code, out, err = run("context", "list", "-o", output)
        assert code == 0 and "127.0.0.1" in out
        assert "access.1" not in out + err and "refresh-1" not in out + err


@pytest.mark.slow
def test_processes_that_renew_at_the_same_time_do_not_end_the_login(server: CannedServer, home: Path) -> None:
    idp = RotatingProvider(server, lifetime_s=10**6)
    ended = provider.login_of("corp", idp.issuer, provider.Asker("cli"), {**idp.first(), "expires_in": 1}, 0)
    contexts.save_login("prod", server.url, ended)
    server.answer("GET", "/v1/whoami", _whoever("access.2.x"))
    command = [sys.executable, "-m", "windlass.experience.cli.main", "whoami", "-o", "name"]
    started = [subprocess.Popen(command, stdout=subprocess.PIPE, env=dict(os.environ)) for _ in range(4)]
    printed = [process.communicate()[0] for process in started]
    assert printed == [b"corp:ada@acme.test\n"] * 4
    assert (idp.refreshes, idp.ended) == (1, False)


def _whoever(token: str) -> Any:
    def answer(asked: Asked) -> Reply:
        good = asked.headers.get("authorization") == f"Bearer {token}"
        return Reply(value=WHOAMI) if good else problem(401, "unauthenticated", "no")

    return answer
