"""Logins that are kept fresh, shared by processes, and never lost to a refresh token used twice."""

from __future__ import annotations

import asyncio
import stat
import threading
from pathlib import Path
from typing import Any

import pytest
from tests.sdk.canned_server import Asked, CannedServer, Reply, problem
from tests.sdk.identity_provider import DEVICE, RotatingProvider

from windlass.contracts import api
from windlass.core.errors import Invalid, NotPermitted, Unauthenticated, Unavailable
from windlass.core.units import format_timestamp
from windlass.sdk import AsyncClient, Client, contexts, provider
from windlass.sdk.contexts import Login
from windlass.sdk.logins import KeptLogin, kept_login

NOW_S = 1_800_000_000.0
WHOAMI = api.WhoAmI(name="ada", role="developer", tenant="acme", key_id="k", expires_at=None, may=[])


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "config.toml"
    monkeypatch.setenv("WINDLASS_CONFIG", str(path))
    for name in ("SERVER", "API_KEY", "CONTEXT"):
        monkeypatch.delenv(f"WINDLASS_{name}", raising=False)
    return path


CLI = provider.Asker("cli")


def logged_in(idp: RotatingProvider, server: str, **more: Any) -> Login:
    login = provider.login_of("corp", idp.issuer, CLI, idp.first(), NOW_S)
    contexts.save_login("prod", server, login, **more)
    return login


def kept(login: Login, *, at_s: float = NOW_S) -> KeptLogin:
    return KeptLogin("prod", login, now=lambda: at_s)


def accepts(*tokens: str) -> Any:
    def answer(asked: Asked) -> Reply:
        token = asked.headers.get("authorization", "").removeprefix("Bearer ")
        return Reply(value=WHOAMI) if token in tokens else problem(401, "unauthenticated", "no")

    return answer


# --- what is kept -----------------------------------------------------------------------------


def test_a_login_is_kept_in_its_context_beside_the_key_and_nobody_else_may_read_it(
    server: CannedServer, file: Path
) -> None:
    contexts.save_context("prod", server.url, "wdl_key", project="nlp")
    login = logged_in(RotatingProvider(server), server.url, tenant="acme")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    found = contexts.load_contexts().contexts["prod"]
    assert (found.login, found.api_key, found.project, found.tenant) == (login, "wdl_key", "nlp", "acme")
    contexts.save_context("prod", server.url, "wdl_other")
    assert contexts.load_contexts().contexts["prod"].login is None, "a new key is meant to be used"


def test_a_login_goes_to_its_own_server_only_and_a_key_of_the_environment_beats_it(
    server: CannedServer, file: Path
) -> None:
    login = logged_in(RotatingProvider(server), server.url)
    assert contexts.resolve(environ={"WINDLASS_CONFIG": str(file)}).login == login
    elsewhere = {"WINDLASS_CONFIG": str(file), "WINDLASS_SERVER": "https://evil.example"}
    assert contexts.resolve(environ=elsewhere).login is None
    assert contexts.resolve(context="prod", environ=elsewhere).login is None
    keyed = contexts.resolve(environ={"WINDLASS_CONFIG": str(file), "WINDLASS_API_KEY": "wdl_x"})
    assert (keyed.login, keyed.api_key) == (None, "wdl_x")


# --- renewing ---------------------------------------------------------------------------------


def test_a_token_is_renewed_shortly_before_it_ends_and_not_sooner(server: CannedServer, file: Path) -> None:
    idp = RotatingProvider(server)
    login = logged_in(idp, server.url)
    assert kept(login, at_s=NOW_S + 269).bearer() == "access.1.x"
    assert idp.refreshes == 0
    late = kept(login, at_s=NOW_S + 270)
    assert (late.bearer(), late.bearer()) == ("access.2.x", "access.2.x")
    assert idp.refreshes == 1
    stored = contexts.load_contexts().contexts["prod"].login
    assert stored is not None
    assert (stored.refresh_token, stored.expires_at) == (
        "refresh-2",
        format_timestamp(int((NOW_S + 570) * 1000)),
    )


def test_many_at_once_renew_once_and_none_loses_the_login(server: CannedServer, file: Path) -> None:
    idp = RotatingProvider(server)
    login = logged_in(idp, server.url)
    together = threading.Barrier(8)
    found: list[str] = []

    def ask() -> None:
        own = kept(login, at_s=NOW_S + 299)  # each as a process of its own would have it
        together.wait()
        found.append(own.bearer())

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (set(found), idp.refreshes, idp.ended) == ({"access.2.x"}, 1, False)


def test_without_the_lock_the_provider_would_have_ended_the_login(server: CannedServer) -> None:
    """The test's own check: the provider does notice a refresh token that is used twice."""
    idp = RotatingProvider(server)
    login = provider.login_of("corp", idp.issuer, CLI, idp.first(), NOW_S)
    provider.refresh(login, NOW_S)
    with pytest.raises(Unauthenticated, match="invalid_grant"):
        provider.refresh(login, NOW_S)
    assert idp.ended


def test_a_refused_token_is_renewed_once_and_the_write_keeps_its_key(
    server: CannedServer, file: Path
) -> None:
    idp = RotatingProvider(server)
    login = logged_in(idp, server.url)
    server.answer("POST", "/v1/apply", _refuse_first("access.1.x"))
    client = Client(server.url, login=kept(login), tenant="acme")
    client.apply({"kind": "Tier"})
    first, second = server.requests("POST", "/v1/apply")
    assert second.headers["authorization"] == "Bearer access.2.x"
    assert first.headers["idempotency-key"] == second.headers["idempotency-key"]
    assert {one.headers["windlass-tenant"] for one in (first, second)} == {"acme"}


def _refuse_first(token: str) -> Any:
    def answer(asked: Asked) -> Reply:
        if asked.headers["authorization"] == f"Bearer {token}":
            return problem(401, "unauthenticated", "rotated")
        return Reply(value=api.ApplyAnswer(results=[], revision=1))

    return answer


def test_a_token_that_is_refused_again_is_not_renewed_for_ever(server: CannedServer, file: Path) -> None:
    idp = RotatingProvider(server)
    login = logged_in(idp, server.url)
    server.answer("GET", "/v1/whoami", problem(401, "unauthenticated", "never"))
    with pytest.raises(Unauthenticated, match="never"):
        Client(server.url, login=kept(login)).whoami()
    assert (len(server.requests("GET", "/v1/whoami")), idp.refreshes) == (2, 1)


def test_what_another_process_got_is_taken_after_a_refusal(server: CannedServer, file: Path) -> None:
    idp = RotatingProvider(server)
    login = logged_in(idp, server.url)
    assert kept(login, at_s=NOW_S + 280).bearer() == "access.2.x"
    server.answer("GET", "/v1/whoami", accepts("access.2.x"))
    assert Client(server.url, login=kept(login)).whoami() == WHOAMI
    assert idp.refreshes == 1


def test_the_asynchronous_client_renews_too(server: CannedServer, file: Path) -> None:
    idp = RotatingProvider(server)
    login = logged_in(idp, server.url)
    server.answer("GET", "/v1/whoami", accepts("access.3.x"))

    async def ask() -> api.WhoAmI:
        async with AsyncClient(server.url, login=kept(login, at_s=NOW_S + 290)) as client:
            return await client.whoami()

    assert asyncio.run(ask()) == WHOAMI
    assert idp.refreshes == 2, "once because it was about to end, once because it was refused"


def test_a_login_that_was_ended_elsewhere_says_to_log_in_again(server: CannedServer, file: Path) -> None:
    idp = RotatingProvider(server)
    login = logged_in(idp, server.url)
    idp.ended = True
    with pytest.raises(Unauthenticated, match="your login has ended") as ended:
        kept(login, at_s=NOW_S + 300).bearer()
    assert "windlass login" in ended.value.remedy
    contexts.drop_login("prod")
    with pytest.raises(Unauthenticated, match="logged out"):
        kept(login, at_s=NOW_S + 300).bearer()


def test_while_the_provider_is_away_the_old_token_is_used_for_as_long_as_it_lasts(
    server: CannedServer, file: Path
) -> None:
    login = logged_in(RotatingProvider(server), server.url)
    server.answer("POST", "/token", Reply(502, {}))
    assert kept(login, at_s=NOW_S + 299).bearer() == "access.1.x"
    with pytest.raises(Unavailable):
        kept(login, at_s=NOW_S + 300).bearer()


def test_a_provider_that_does_not_rotate_keeps_its_refresh_token(server: CannedServer, file: Path) -> None:
    login = logged_in(RotatingProvider(server), server.url)
    answer = {"access_token": "a.b.c", "token_type": "bearer", "expires_in": 60}
    server.answer("POST", "/token", Reply(value=answer))
    assert provider.refresh(login, NOW_S).refresh_token == "refresh-1"


def test_a_client_from_a_context_uses_its_login_and_its_tenant(server: CannedServer, file: Path) -> None:
    idp = RotatingProvider(server, lifetime_s=10**8)
    logged_in(idp, server.url, tenant="acme")
    server.answer("GET", "/v1/whoami", accepts("access.1.x"))
    assert Client.from_context().whoami() == WHOAMI
    assert server.asked[-1].headers["windlass-tenant"] == "acme"
    assert kept_login(contexts.resolve()) is not None


# --- device codes -----------------------------------------------------------------------------


class Pace(list[float]):
    def sleep(self, seconds: float) -> None:
        self.append(seconds)

    def clock(self) -> float:
        return sum(self)


def waited(server: CannedServer, *answers: Reply, expires_in: int = 600) -> tuple[Any, Pace]:
    RotatingProvider(server)
    server.answer("POST", "/device", Reply(value={**DEVICE, "expires_in": expires_in, **_enter(server)}))
    server.answer("POST", "/token", *answers)
    endpoints, pace = provider.discover(server.url), Pace()
    device = provider.start_device(endpoints, CLI, ["openid", "offline_access"])
    return lambda: provider.await_device(endpoints, CLI, device, pace.sleep, pace.clock), pace


def _enter(server: CannedServer) -> dict[str, str]:
    return {"verification_uri": f"{server.url}/enter"}


def oauth_error(code: str) -> Reply:
    return Reply(400, {"error": code})


def test_a_device_code_is_asked_for_at_the_providers_pace(server: CannedServer) -> None:
    good = Reply(value={"access_token": "a.b.c", "token_type": "Bearer"})
    slow, pending, broken = oauth_error("slow_down"), oauth_error("authorization_pending"), Reply(503, {})
    wait, pace = waited(server, pending, slow, pending, broken, good)
    assert wait()["access_token"] == "a.b.c"
    assert pace == [5, 5, 10, 10, 15]
    asked = server.requests("POST", "/device")[0]
    assert b"scope=openid+offline_access" in asked.body and b"client_id=cli" in asked.body


@pytest.mark.parametrize(
    ("status", "code"), [(200, "pending"), (403, "pending"), (428, "pending"), (429, "slow")]
)
def test_a_provider_that_says_wait_with_another_status_is_understood(
    server: CannedServer, status: int, code: str
) -> None:
    said = {"pending": "authorization_pending", "slow": "slow_down"}[code]
    wait, pace = waited(
        server, Reply(status, {"error": said}), Reply(value={"access_token": "a.b.c", "token_type": "Bearer"})
    )
    assert wait()["access_token"] == "a.b.c"
    assert pace == [5, 5 if code == "pending" else 10]


@pytest.mark.parametrize(
    "reply", [Reply(429, {"error": "too_many_requests"}), Reply(400, {"error": "server_error"})]
)
def test_a_provider_that_has_no_time_for_a_login_has_not_ended_it(server: CannedServer, reply: Reply) -> None:
    login = provider.login_of("corp", server.url, CLI, RotatingProvider(server).first(), NOW_S)
    server.answer("POST", "/token", reply)
    with pytest.raises(Unavailable):
        provider.refresh(login, NOW_S)


@pytest.mark.parametrize("parameter", ["resource", "audience", ""])
def test_a_provider_that_wants_to_be_told_the_audience_is_told_each_time(
    server: CannedServer, file: Path, parameter: str
) -> None:
    idp = RotatingProvider(server)
    asker = provider.Asker("cli", parameter, "https://windlass.example.com")
    endpoints, pace = provider.discover(server.url), Pace()
    device = provider.start_device(endpoints, asker, ["openid"])
    idp.approved = True
    answer = provider.await_device(endpoints, asker, device, pace.sleep, pace.clock)
    contexts.save_login("prod", server.url, provider.login_of("corp", server.url, asker, answer, NOW_S))
    kept_login = contexts.load_contexts(file).contexts["prod"].login
    assert kept_login is not None
    provider.refresh(kept_login, NOW_S)
    bodies = [
        asked.body.decode() for path in ("/device", "/token") for asked in server.requests("POST", path)
    ]
    named = f"{parameter}=https%3A%2F%2Fwindlass.example.com"
    assert len(bodies) == 3 and all((named in body) == bool(parameter) for body in bodies)
    assert parameter or not any("windlass.example.com" in body for body in bodies)


@pytest.mark.parametrize(
    ("code", "error", "words"),
    [
        ("access_denied", NotPermitted, "denied"),
        ("expired_token", Unauthenticated, "not entered in time"),
        ("server_said_no", Unauthenticated, "server_said_no"),
    ],
)
def test_a_login_that_fails_says_why(
    server: CannedServer, code: str, error: type[Exception], words: str
) -> None:
    wait, _ = waited(server, oauth_error(code))
    with pytest.raises(error, match=words):
        wait()


def test_a_code_that_nobody_enters_ends_by_itself(server: CannedServer) -> None:
    wait, pace = waited(server, oauth_error("authorization_pending"), expires_in=30)
    with pytest.raises(Unauthenticated, match="not entered in time"):
        wait()
    assert sum(pace) < 30


# --- a provider that misbehaves ---------------------------------------------------------------


@pytest.mark.parametrize(
    "about",
    [
        Reply(404, {}),
        Reply(302, {}, headers={"Location": "http://127.0.0.1:1/"}),
        Reply(text="<html>"),
        Reply(text="[" * 50_000),
        Reply(value=[]),
        Reply(value={"issuer": "https://evil.example", "token_endpoint": "https://evil.example/t"}),
        Reply(cut=True),
        Reply(text="x" * 300_000),
    ],
)
def test_a_provider_that_does_not_describe_itself_is_not_logged_in_with(
    server: CannedServer, about: Reply
) -> None:
    server.answer("GET", "/.well-known/openid-configuration", about)
    with pytest.raises(Unavailable):
        provider.discover(server.url)


@pytest.mark.parametrize("issuer", ["http://login.example.com", "ftp://x", "https://u:p@x", ""])
def test_an_issuer_off_tls_is_not_logged_in_with(issuer: str) -> None:
    with pytest.raises(Invalid):
        provider.discover(issuer)


def test_endpoints_that_lead_elsewhere_are_not_used(server: CannedServer) -> None:
    about = {"issuer": server.url, "token_endpoint": "http://evil.example/t"}
    server.answer("GET", "/.well-known/openid-configuration", about)
    with pytest.raises(Unavailable, match="names no token endpoint"):
        provider.discover(server.url)


@pytest.mark.parametrize(
    "device",
    [
        {},
        {**DEVICE, "verification_uri": "http://evil.example"},
        {**DEVICE, "verification_uri": "https://x/\x1b[2J"},
        {**DEVICE, "user_code": "\x1b[2Jevil", "verification_uri": "https://x"},
        {**DEVICE, "user_code": 7, "verification_uri": "https://x"},
    ],
)
def test_what_cannot_be_shown_to_a_person_safely_is_not_shown(
    server: CannedServer, device: dict[str, Any]
) -> None:
    RotatingProvider(server)
    server.answer("POST", "/device", Reply(value=device))
    with pytest.raises(Unavailable):
        provider.start_device(provider.discover(server.url), CLI, ["openid"])


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        ({"token_type": "Bearer"}, Unavailable),
        ({"access_token": "a.b.c", "token_type": "DPoP"}, Unavailable),
        ({"access_token": "a.b\r\nX: y.c", "token_type": "Bearer"}, Unavailable),
        ({"access_token": "opaque", "token_type": "Bearer"}, Invalid),
    ],
)
def test_tokens_that_are_of_no_use_are_not_kept(answer: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        provider.login_of("corp", "https://login.example.com", CLI, answer, NOW_S)
