"""Waiting for a phase, logs, and events that survive a lost connection."""

from __future__ import annotations

import pytest
from tests.sdk import samples
from tests.sdk.canned_server import CannedServer, Reply, problem
from tests.sdk.test_client import client_of

from windlass.contracts import api
from windlass.core import errors
from windlass.sdk import flows

PHASES = [*sorted(api.LIVE_PHASES), *sorted(api.FINAL_PHASES)]


@pytest.mark.parametrize(
    ("phase", "wanted", "standing"),
    [
        ("Running", "Running", "reached"),
        ("Pending", "Running", "not yet"),
        ("Preempted", "Running", "not yet"),
        ("Succeeded", "Running", "reached"),
        ("Running", "Admitted", "reached"),
        ("Failed", "Running", "missed"),
        ("Cancelled", "Succeeded", "missed"),
        ("Failed", "Failed", "reached"),
        ("Failed", "final", "reached"),
        ("Rejected", "final", "reached"),
        ("Running", "final", "not yet"),
        ("Succeeded", "Failed", "missed"),
    ],
)
def test_where_a_component_stands(phase: str, wanted: str, standing: str) -> None:
    assert flows.standing(phase, wanted) == standing


@pytest.mark.parametrize("wanted", [*PHASES, flows.FINAL])
@pytest.mark.parametrize("phase", sorted(api.FINAL_PHASES))
def test_final_work_is_never_waited_for(phase: str, wanted: str) -> None:
    assert flows.standing(phase, wanted) != "not yet"


def test_waiting_asks_until_the_phase_is_there(server: CannedServer) -> None:
    server.answer(
        "GET", samples.ROUTE, *(samples.component(phase) for phase in ("Pending", "Starting", "Running"))
    )
    client, pauses = client_of(server)
    assert client.wait(samples.PATH, "Running").status.phase == "Running"
    assert len(pauses) == 2
    assert pauses[1] > pauses[0]


def test_waiting_for_what_ended_elsewhere_is_a_conflict(server: CannedServer) -> None:
    server.answer("GET", samples.ROUTE, samples.component("Failed"))
    client, _ = client_of(server)
    with pytest.raises(errors.Conflict, match="ended as Failed"):
        client.wait(samples.PATH, "Succeeded")


def test_waiting_stops_when_the_time_is_over(server: CannedServer) -> None:
    server.answer("GET", samples.ROUTE, samples.component("Pending"))
    client, pauses = client_of(server)
    with pytest.raises(errors.Unavailable, match="not yet Running, after 5 s"):
        client.wait(samples.PATH, "Running", timeout_s=5)
    assert sum(pauses) <= 5


def test_waiting_outlasts_a_restart_of_the_server(server: CannedServer) -> None:
    down = problem(503, "unavailable", "restarting")
    server.answer("GET", samples.ROUTE, *[down] * 6, samples.component("Succeeded"))
    client, _ = client_of(server)
    assert client.wait(samples.PATH).status.phase == "Succeeded"


def test_waiting_for_no_phase_is_refused(server: CannedServer) -> None:
    client, _ = client_of(server)
    with pytest.raises(errors.Invalid, match="not a phase"):
        client.wait(samples.PATH, "Done")


def test_logs_come_in_pieces_and_whole_characters(server: CannedServer) -> None:
    server.answer(
        "GET", f"{samples.ROUTE}/logs", Reply(chunks=[b"step 1\n\xc3", b"\xa9tape 2\n", b"bad \xff"])
    )
    client, _ = client_of(server)
    assert "".join(client.logs(samples.PATH, follow=True, worker=1)) == "step 1\nétape 2\nbad \ufffd"
    assert server.asked[0].query == {"worker": "1", "follow": "true"}


def test_a_log_that_breaks_off_is_not_taken_for_whole(server: CannedServer) -> None:
    server.answer("GET", f"{samples.ROUTE}/logs", Reply(chunks=[b"step 1\n"], cut=True))
    client, _ = client_of(server)
    pieces = client.logs(samples.PATH, follow=True)
    assert next(pieces) == "step 1\n"
    with pytest.raises(errors.Unavailable):
        next(pieces)


def test_no_log_is_the_error_the_server_says(server: CannedServer) -> None:
    server.answer("GET", f"{samples.ROUTE}/logs", problem(404, "not-found", "it has not started"))
    client, _ = client_of(server)
    with pytest.raises(errors.NotFound, match="has not started"):
        next(client.logs(samples.PATH))


def sse(*events: api.Event) -> bytes:
    import msgspec

    return b"".join(
        b"id: %d\nevent: %s\ndata: %s\n\n" % (one.id, one.type.encode(), msgspec.json.encode(one))
        for one in events
    )


def test_watching_takes_up_after_the_last_event(server: CannedServer) -> None:
    one, two, three = (samples.event(number) for number in (1, 2, 3))
    first = sse(one, two)
    server.answer(
        "GET",
        "/v1/events",
        Reply(chunks=[first[:30], first[30:]], cut=True),
        problem(503, "unavailable", "restarting"),
        Reply(chunks=[b": keep-alive\n\n", sse(two, three)]),
    )
    client, pauses = client_of(server)
    watching = client.watch()
    assert [next(watching) for _ in range(3)] == [one, two, three]
    assert [asked.query.get("since") for asked in server.asked] == [None, "2", "2"]
    assert len(pauses) == 2


def test_watching_gives_up_when_nothing_comes_back(server: CannedServer) -> None:
    server.answer("GET", "/v1/events", Reply(chunks=[]))
    client, pauses = client_of(server)
    with pytest.raises(errors.Unavailable):
        next(client.watch())
    assert len(pauses) == 7
