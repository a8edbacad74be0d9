"""The whole way with a certified OpenID provider: log in, act, renew, rotate, outage, log out."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import urlopen

import pytest
from tests.journeys.platforms import Platform, eventually
from tests.oidc.worlds import AUDIENCE, Desk, RealProvider

pytestmark = pytest.mark.oidc

WHOAMI = "/v1/whoami"


def test_a_person_logs_in_acts_in_their_tenant_and_logs_out(
    desk: Desk, idp: RealProvider, server: Platform
) -> None:
    code, out, err = desk.log_in("alice")
    assert code == 0, err
    assert "corp:alice@acme.test, developer of tenant acme" in out
    assert "a login with corp (corp/acme/alice)" in out
    assert desk.config.stat().st_mode & 0o777 == 0o600
    code, out, err = desk.run("token", "create", "--action", "component.read")
    assert code == 0, err
    status, who = server.call("GET", WHOAMI, key=out.strip())
    assert (status, who["via"], who["name"]) == (200, "token", "corp:alice@acme.test")
    refresh = desk.tokens()["refresh_token"]
    assert desk.run("logout")[0] == 0
    assert desk.run("whoami")[0] == 7
    form = {"grant_type": "refresh_token", "refresh_token": refresh, "client_id": "windlass-cli"}
    with pytest.raises(HTTPError) as ended:
        urlopen(f"{idp.issuer}/token", urlencode(form).encode())  # noqa: S310 (loopback)
    with ended.value as answer:
        assert json.load(answer)["error"] == "invalid_grant"


def test_commands_at_the_same_time_renew_in_turn_and_the_login_lasts(desk: Desk) -> None:
    """Each access token is about to end when it comes, and the provider ends a login whose refresh token
    is used twice."""
    assert desk.log_in("alice")[0] == 0
    seen = {desk.tokens()["refresh_token"]}
    for _ in range(2):
        processes = [desk.begin("whoami", "-o", "name") for _ in range(4)]
        printed = [process.communicate(timeout=120) for process in processes]
        assert [out for out, _ in printed] == ["corp:alice@acme.test\n"] * 4, printed
        seen.add(desk.tokens()["refresh_token"])
    assert len(seen) == 3


def test_who_has_several_tenants_says_which(desk: Desk) -> None:
    code, _, err = desk.log_in("bob")
    assert code == 0 and "acme, globex" in err
    code, _, err = desk.run("whoami")
    assert code == 7 and "--tenant" in err
    code, out, _ = desk.run("whoami", "-t", "globex")
    assert code == 0 and "viewer of tenant globex" in out
    code, _, err = desk.run("whoami", "-t", "umbra")
    assert code == 7 and "no role in the tenant umbra" in err


def test_who_has_no_role_is_told_whom_to_ask(desk: Desk) -> None:
    code, _, err = desk.log_in("carol")
    assert code == 0 and "none of your groups has a role" in err
    assert desk.run("whoami")[0] == 7


def test_tokens_of_the_provider_for_others_or_of_nobody_do_not_pass(
    idp: RealProvider, server: Platform
) -> None:
    status, answer = server.call("GET", WHOAMI, key=idp.machine_token("https://other.example.com"))
    assert (status, "audience" in answer["detail"]) == (401, True)
    status, answer = server.call("GET", WHOAMI, key=idp.machine_token(AUDIENCE))
    assert status in (401, 403), "a client is nobody: it has no groups, and no subject or its own"


def test_a_new_signing_key_is_learned_and_an_outage_outlasted(
    desk: Desk, idp: RealProvider, server: Platform, tmp_path: Path
) -> None:
    assert desk.log_in("alice")[0] == 0
    idp.rotate()
    # A key that is asked for within ten seconds of the last reading is not looked for yet.
    eventually(lambda: desk.run("whoami")[0] == 0, "a token signed with the new key")
    token = desk.tokens()["access_token"]
    idp.process.kill()
    idp.process.wait()
    assert server.call("GET", WHOAMI, key=token)[0] == 200, "the keys are known"
    server.stop()
    server.key = server.start()
    status, answer = server.call("GET", WHOAMI, key=token)
    assert (status, answer["code"]) == (503, "unavailable"), "and now they are not"
    assert server.call("GET", "/v1/version")[0] == 200, "a key needs no provider"


def test_the_provider_is_the_certified_one() -> None:
    from tests.oidc.node import OIDC_PROVIDER, installed

    node, folder = installed()
    found = json.loads((folder / "node_modules" / "oidc-provider" / "package.json").read_text())
    assert f"oidc-provider@{found['version']}" == OIDC_PROVIDER
    assert subprocess.run([str(node), "--version"], check=True, capture_output=True).stdout
