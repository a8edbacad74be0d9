"""The blocking client against a real HTTP server."""

from __future__ import annotations

import socket
import threading
from typing import Any

import msgspec
import pytest
from tests.sdk import samples
from tests.sdk.canned_server import CannedServer, Reply, problem

from windlass.contracts import api
from windlass.core import errors
from windlass.sdk import Client, Retries

DOCUMENT = {"apiVersion": "windlass.dev/v1", "kind": "Tier", "metadata": {"name": "gold"}, "spec": {}}
WHOAMI = api.WhoAmI(name="ada", role="developer", tenant="acme", key_id="key_1", expires_at=None, may=[])


class Pauses(list[float]):
    """A sleep that only counts, and a clock that moves by what was slept."""

    def __call__(self, seconds: float) -> None:
        self.append(seconds)

    def clock(self) -> float:
        return sum(self)


def client_of(server: CannedServer, **options: Any) -> tuple[Client, Pauses]:
    pauses = Pauses()
    client = Client(server.url, "wl_secret", sleep=pauses, clock=pauses.clock, **options)
    return client, pauses


def test_a_request_carries_the_key_and_the_answer_is_typed(server: CannedServer) -> None:
    server.answer("GET", "/v1/whoami", WHOAMI)
    client, _ = client_of(server)
    assert client.whoami() == WHOAMI
    assert server.asked[0].headers["authorization"] == "Bearer wl_secret"
    assert "idempotency-key" not in server.asked[0].headers


def test_one_connection_serves_many_requests(server: CannedServer) -> None:
    server.answer("GET", "/v1/whoami", WHOAMI)
    client, _ = client_of(server)
    for _ in range(3):
        client.whoami()
    assert len({one.connection for one in server.asked}) == 1


def test_a_write_that_is_sent_again_keeps_its_idempotency_key(server: CannedServer) -> None:
    server.answer(
        "POST",
        "/v1/apply",
        Reply(cut=True),
        problem(503, "unavailable", "starting"),
        Reply(429, {}, headers={"Retry-After": "2"}),
        samples.applied(samples.result()),
    )
    ids = iter(["one", "two"])
    client, pauses = client_of(server, ids=lambda: next(ids))
    assert client.apply(DOCUMENT).revision == 43
    assert [one.headers["idempotency-key"] for one in server.asked] == ["one"] * 4
    assert len({one.body for one in server.asked}) == 1
    assert pauses == [0.2, 0.4, 2.0]


def test_two_writes_have_two_keys(server: CannedServer) -> None:
    server.answer("POST", "/v1/apply", samples.applied(samples.result()))
    client, _ = client_of(server)
    client.apply(DOCUMENT)
    client.apply([DOCUMENT, DOCUMENT], if_match=7)
    first, second = (one.headers for one in server.asked)
    assert first["idempotency-key"] != second["idempotency-key"]
    assert second["if-match"] == "7"
    assert server.asked[1].json == [DOCUMENT, DOCUMENT]


@pytest.mark.parametrize(
    ("status", "kind", "tries"),
    [
        (400, errors.Invalid, 1),
        (401, errors.Unauthenticated, 1),
        (403, errors.NotPermitted, 1),
        (404, errors.NotFound, 1),
        (409, errors.Conflict, 1),
        (412, errors.StaleVersion, 1),
        (413, errors.TooLarge, 1),
        (422, errors.Rejected, 1),
        (429, errors.TooMany, 4),
        (500, errors.WindlassError, 1),
        (502, errors.Unavailable, 4),
        (503, errors.Unavailable, 4),
        (504, errors.Unavailable, 1),
    ],
)
def test_each_status_is_its_error_and_only_the_curable_are_tried_again(
    server: CannedServer, status: int, kind: type[errors.WindlassError], tries: int
) -> None:
    reason = msgspec.to_builtins(samples.OVER)
    server.answer("GET", "/v1/whoami", problem(status, "code", "said no", reasons=[reason], remedy="ask"))
    client, _ = client_of(server)
    with pytest.raises(errors.WindlassError) as caught:
        client.whoami()
    assert type(caught.value) is kind
    assert (caught.value.detail, caught.value.remedy) == ("said no", "ask")
    assert caught.value.reasons[0].rule == "entitlement.max"
    assert caught.value.extra["requestId"] == "req_1"
    assert len(server.asked) == tries


def test_a_pause_longer_than_we_wait_is_not_waited_for(server: CannedServer) -> None:
    server.answer("GET", "/v1/whoami", Reply(429, {}, headers={"Retry-After": "3600"}))
    client, pauses = client_of(server)
    with pytest.raises(errors.TooMany):
        client.whoami()
    assert pauses == []


def test_a_rejection_carries_its_decision_and_results(server: CannedServer) -> None:
    decision = samples.decision("rejected", reasons=[samples.OVER])
    rejected = samples.result("rejected", decision=decision)
    server.answer("POST", "/v1/apply", problem(422, "rejected", "no", decision=decision, results=[rejected]))
    client, _ = client_of(server)
    with pytest.raises(errors.Rejected) as caught:
        client.apply(DOCUMENT)
    assert caught.value.extra["decision"] == decision
    assert caught.value.extra["results"] == [rejected]


def test_a_plan_that_would_be_rejected_is_an_answer(server: CannedServer) -> None:
    rejected = samples.result("rejected", decision=samples.decision("rejected", reasons=[samples.OVER]))
    server.answer("POST", "/v1/apply", problem(422, "rejected", "no", results=[rejected]))
    client, _ = client_of(server)
    assert client.plan(DOCUMENT) == api.ApplyAnswer(results=[rejected], revision=42, dry_run=True)
    assert server.asked[0].query == {"dryRun": "true"}


def test_nobody_there_is_said_at_once_with_what_to_do() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        pauses = Pauses()
        client = Client(f"http://127.0.0.1:{unused.getsockname()[1]}", sleep=pauses)
        with pytest.raises(errors.Unavailable) as caught:
            client.whoami()
    assert "connection refused" in caught.value.detail
    assert "windlass up" in caught.value.remedy
    assert pauses == []


def test_a_server_that_hangs_is_given_up_after_the_timeout() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        client = Client(f"http://127.0.0.1:{silent.getsockname()[1]}", timeout_s=0.05)
        with pytest.raises(errors.Unavailable, match=r"did not answer within 0\.05 s"):
            client.whoami()


@pytest.mark.parametrize("garbage", [b"hello\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc"])
def test_what_is_not_a_whole_http_answer_is_a_lost_connection(garbage: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(65_536)
                connection.sendall(garbage)

        thread = threading.Thread(target=serve)
        thread.start()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        with pytest.raises(errors.Unavailable, match="was lost"):
            Client(url, retries=Retries(attempts=1)).whoami()
        thread.join()


def test_an_answer_this_client_does_not_know_is_no_traceback(server: CannedServer) -> None:
    server.answer("GET", "/v1/whoami", {"name": 3})
    client, _ = client_of(server)
    with pytest.raises(errors.WindlassError, match="not what this client knows"):
        client.whoami()


def test_fields_of_a_newer_server_are_ignored(server: CannedServer) -> None:
    server.answer("GET", "/v1/whoami", msgspec.to_builtins(WHOAMI) | {"mood": "good"})
    client, _ = client_of(server)
    assert client.whoami() == WHOAMI


def test_a_list_is_read_to_its_last_page(server: CannedServer) -> None:
    one, two = samples.component(path="nlp/prod/a"), samples.component(path="nlp/prod/b")
    server.answer("GET", "/v1/components", samples.components(one, cursor="more"), samples.components(two))
    client, _ = client_of(server)
    assert client.components(project="nlp").items == [one, two]
    assert server.asked[0].query == {"project": "nlp", "limit": "500"}
    assert server.asked[1].query == {"project": "nlp", "limit": "500", "cursor": "more"}


def test_a_limit_stops_the_reading(server: CannedServer) -> None:
    server.answer("GET", "/v1/components", samples.components(samples.component(), cursor="more"))
    client, _ = client_of(server)
    found = client.components(limit=1)
    assert (len(found.items), found.cursor) == (1, "more")
    assert server.asked[0].query == {"limit": "1"}


def test_names_are_percent_encoded(server: CannedServer) -> None:
    server.answer("GET", "/v1/tenants/a b?", samples.document("Tenant", "a b?"))
    client, _ = client_of(server)
    assert client.document("Tenant", "a b?").metadata["name"] == "a b?"


@pytest.mark.parametrize("path", ["sft-run", "nlp/sft-run", "nlp//x", "a/b/c/d", ""])
def test_what_is_not_a_path_is_refused_before_it_is_sent(server: CannedServer, path: str) -> None:
    client, _ = client_of(server)
    with pytest.raises(errors.Invalid):
        client.component(path)
    assert server.asked == []


def test_a_key_with_a_line_break_cannot_forge_a_header(server: CannedServer) -> None:
    with pytest.raises(errors.Invalid):
        Client(server.url, "key\r\nX-Evil: 1").whoami()
    assert server.asked == []


@pytest.mark.parametrize(
    ("method", "call", "path", "body"),
    [
        ("POST", lambda c: c.cancel(samples.PATH), f"{samples.ROUTE}/actions/cancel", {}),
        ("POST", lambda c: c.rerun(samples.PATH), f"{samples.ROUTE}/actions/rerun", {}),
    ],
)
def test_actions_go_to_their_route(
    server: CannedServer, method: str, call: Any, path: str, body: dict[str, Any]
) -> None:
    server.answer(method, path, samples.component())
    client, _ = client_of(server)
    call(client)
    assert server.requests(method, path)[0].json == body


def test_deletions_answer_nothing(server: CannedServer) -> None:
    server.answer("DELETE", samples.ROUTE, Reply(204))
    server.answer("DELETE", "/v1/envelopes/x", Reply(204))
    server.answer("DELETE", "/v1/keys/key_1", Reply(204))
    client, _ = client_of(server)
    client.delete_component(samples.PATH)
    client.delete_document("Envelope", "x", tenant="acme")
    client.revoke_key("key_1")
    assert server.asked[1].query == {"tenant": "acme"}
    assert all("idempotency-key" in one.headers for one in server.asked)


def test_an_error_has_the_code_that_the_server_gave(server: CannedServer) -> None:
    for status, code, kind in (
        (400, "request.invalid", errors.BadRequest),
        (400, "document.invalid", errors.Invalid),
        (400, "name.invalid", errors.Invalid),
        (405, "method.not-allowed", errors.BadRequest),
        (412, "version.stale", errors.StaleVersion),
        (415, "media.unsupported", errors.UnsupportedMedia),
        (431, "request.head-too-large", errors.HeadTooLarge),
    ):
        server.answer("GET", "/v1/whoami", problem(status, code, "because", remedy="do that"))
        client, _ = client_of(server)
        with pytest.raises(errors.WindlassError) as raised:
            client.whoami()
        assert type(raised.value) is kind, code
        assert (raised.value.remedy, raised.value.exit_code) == ("do that", 2 if status != 412 else 5)


def test_keys_and_nodes_come_whole_however_many_pages_there_are(server: CannedServer) -> None:
    node = api.NodeInfo(
        name="n",
        site="local",
        gpu_class="h100-80g",
        gpus=8,
        free="8",
        state="ready",
        simulated=True,
        labels={},
    )
    key = api.Key(
        id="key_1", name="ci", role="viewer", tenant="acme", created_at="", expires_at=None, revoked_at=None
    )
    server.answer("GET", "/v1/nodes", api.NodeList(items=[node], cursor="c"), api.NodeList(items=[node]))
    server.answer("GET", "/v1/keys", api.KeyList(items=[key], cursor="c"), api.KeyList(items=[key]))
    client, _ = client_of(server)
    assert (len(client.nodes().items), len(client.keys(tenant="acme").items)) == (2, 2)
    assert [one.query.get("cursor") for one in server.asked] == [None, "c", None, "c"]
