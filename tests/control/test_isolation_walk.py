"""No tenant learns anything of another: every route is walked by every role of one tenant while others,
all of whose names and words carry a mark, hold, borrow, wait and are preempted around it.

Two laws: the mark appears in no answer that did not get it from the question; and an answer about
something of another tenant is, byte for byte, the answer about something that does not exist.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.control.documents import envelope, intent, project, quota
from tests.control.neighbours import (
    ABSENT,
    MARK,
    MARKED,
    NOTHING,
    Ids,
    marked,
    others_everywhere,
    plain,
    theirs_stored,
    watched,
)
from tests.control.worlds import Reply, World, cursor, make_key, play, url

from windlass.control.components.hearsay import heard
from windlass.control.gateway.routes import Route
from windlass.control.gateway.table import routes
from windlass.control.identity.authorize import authorize
from windlass.core.documents.kinds import KINDS

ROLES = ("acme-admin", "acme", "acme-viewer")


# --- what a role can look at ------------------------------------------------------------------


def readings(world: World, path: str) -> Iterator[tuple[Route, str]]:
    """Every GET route, filled with acme's own names."""
    names = {"tenants": "acme", "projects": "nlp", "envelopes": "acme", "tiers": "gold", "sites": "local"}
    names |= {"hardwareprofiles": "h100-80g", "pricebooks": "list", "traits": "topology"}
    names |= {"componenttypes": "training-job", "identityproviders": "corp"}
    for route in routes(world.plane):
        if route.method != "GET":
            continue
        own = {"id": "dec_none", **dict(zip(("project", "env", "name"), path.split("/"), strict=True))}
        segment = route.pattern.split("/")[2] if route.pattern.count("/") > 2 else ""
        if route.pattern.endswith("/{name}") and segment in names and route.pattern.count("{") == 1:
            own["name"] = names[segment]
        yield route, re.sub(r"\{(\w+)\}", lambda found, own=own: own[found[1]], route.pattern)  # type: ignore[misc]


async def look_everywhere(world: World, own: str) -> int:
    """Every reading by every role; the number of answers that had something to say."""
    spoke = 0
    for by in ROLES:
        for route, path in readings(world, own):
            reply = await world.call("GET", path, by=by)
            assert MARK not in reply.body.decode().lower(), f"{path} tells {by}: {reply.body.decode()}"
            for name in route.query:
                if name in ("tenant", "project", "env", "component", "cursor"):
                    known = {"tenant": "zqxgold", "component": "zqxchat/prod/zqxrefused"}
                    value = cursor(path, "zqx") if name == "cursor" else known.get(name, "zqx")
                    narrowed = await world.call("GET", f"{path}?{name}={value}", by=by)
                    told = _without_question(narrowed, value)
                    assert MARK not in told.lower(), f"{path}?{name}= tells {by}: {told}"
            spoke += reply.status == 200
        for action in ("cancel", "rerun"):
            await world.call("POST", f"{url(own)}/actions/{action}x", by=by)
        async with world.stream("/v1/events?watch=true&since=0", by=by) as stream:
            heard = b""
            while b"nlp/" not in heard:
                heard += await stream.next()
            while not stream.chunks.empty():
                heard += await stream.next()
            assert MARK.encode() not in heard.lower()
    return spoke


def _without_question(reply: Reply, value: str) -> str:
    return reply.body.decode().replace(value, "")


def test_a_tenant_beside_busy_neighbours_reads_nothing_of_them(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await others_everywhere(world)
        world.site.slow = True
        # acme reclaims its guarantee: it waits for a neighbour's work to leave.
        assert (await world.apply(intent("nlp/prod/mine", 4), by="acme")).status == 200
        await world.settle()
        why = await world.get(f"{url('nlp/prod/mine')}/explanation", by="acme")
        assert (why["phase"], why["cause"]) == ("Pending", "starting")
        assert "another tenant's work" in why["message"]
        assert await look_everywhere(world, "nlp/prod/mine") > 60
        # A plan that would push a neighbour out says so without naming it.
        planned = await world.call("POST", "/v1/apply?dryRun=true", intent("nlp/dev/plan", 4), by="acme")
        assert MARK not in planned.body.decode().lower()
        world.site.slow = False
        world.site.settle()
        await world.settle()
        assert world.phase("nlp/prod/mine") == "Running"
        assert await look_everywhere(world, "nlp/prod/mine") > 60

    play(tmp_path, story, catalog=MARKED)


def test_a_tenant_pushed_out_by_a_neighbour_reads_only_that_it_was(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await make_key(world, "zqxkey", "tenant-admin", "zqxgold")
        for number in range(2):
            await world.apply(intent(f"nlp/dev/mine{number}", 8), by="acme")
        await world.settle()
        world.advance(60)
        await world.apply(marked("zqxchat/prod/zqxreclaims", 8), by="zqxkey")
        await world.settle()
        out = next(f"mine{n}" for n in range(2) if world.phase(f"nlp/dev/mine{n}") == "Pending")
        why = await world.get(f"{url(f'nlp/dev/{out}')}/explanation", by="acme")
        assert why["preemptedBy"] == "another tenant's work"
        admins = await world.get(f"{url(f'nlp/dev/{out}')}/explanation")
        assert admins["preemptedBy"] == "zqxchat/prod/zqxreclaims"
        # Somebody else's larger work is ahead; what fits beside it is held back for its sake.
        await world.apply(marked("zqxchat/prod/zqxahead", 8, preemptible=True), by="zqxkey")
        await world.apply(intent("nlp/dev/small", 1), by="acme")
        await world.settle()
        for job in (out, "small"):
            assert await look_everywhere(world, f"nlp/dev/{job}") > 60
        queue = await world.call("GET", "/v1/queue", by="acme")
        assert b"nlp/dev" in queue.body

    play(tmp_path, story, catalog=MARKED)


# --- asking for what is another's -------------------------------------------------------------


def questions(mark: str, ids: Ids) -> Iterator[tuple[str, str, object]]:
    """Requests for what belongs to the marked tenants; with another mark, for what does not exist."""
    component = f"/v1/projects/{mark}cheap/components/dev/{mark}one"
    for rest in ("", "/decision", "/explanation", "/manifests", "/events", "/logs", "/logs?follow=true"):
        yield "GET", component + rest, b""
    for action in ("cancel", "rerun", "scale"):
        yield "POST", f"{component}/actions/{action}", b""
    yield "DELETE", component, b""
    names = {"Tenant": "gold", "Project": "chat", "Envelope": "envelope", "Site": "site"}
    for kind in KINDS.values():
        one = f"/v1/{kind.plural}/{mark}{names.get(kind.name, 'thing')}"
        yield "GET", one, b""
        yield "GET", f"{one}?revision=1", b""
        yield "DELETE", one, b""
    yield "GET", f"/v1/decisions/{ids.decision}", b""
    yield "GET", f"/v1/decisions?component={mark}chat/prod/{mark}refused", b""
    yield "DELETE", f"/v1/keys/{ids.key}", b""
    for narrowed in ("components", "costs", "quota", "projects", "envelopes"):
        yield "GET", f"/v1/{narrowed}?tenant={mark}gold", b""
    for narrowed in ("components", "quota"):
        yield "GET", f"/v1/{narrowed}?project={mark}chat", b""
    for wanted in (
        intent(f"{mark}chat/prod/{mark}refused", profile="h100-80g"),
        intent(f"{mark}chat/{mark}env/x", 99, profile="h100-80g"),
        intent(f"{mark}cheap/dev/{mark}one", placement={"avoid": [f"{mark}two"]}, timeLimit="1h"),
        intent(f"nlp/prod/{mark}x", placement={"sites": [f"{mark}site"]}),
        project("mine", f"{mark}gold"),
        envelope(f"{mark}envelope", {"tenant": f"{mark}gold", "project": f"{mark}chat"}, gpus=quota(1, 1)),
        envelope("e", {"tenant": "acme", "project": f"{mark}chat"}, gpus=quota(1, 1)),
    ):
        yield "POST", "/v1/apply", wanted
        yield "POST", "/v1/apply?dryRun=true", wanted
    yield "POST", "/v1/keys", {"name": "spy", "role": "viewer", "tenant": f"{mark}gold"}


@pytest.mark.parametrize("by", [*ROLES, "robot"])
def test_what_is_anothers_and_what_does_not_exist_cannot_be_told_apart(tmp_path: Path, by: str) -> None:
    async def story(world: World) -> None:
        ids = await others_everywhere(world)
        await make_key(world, "robot", "agent", None, site="local")
        before = theirs_stored(world)
        asked = await watched(world)
        await world.get("/v1/whoami", by=by)
        both = zip(questions(MARK, ids), questions(ABSENT, NOTHING), strict=True)
        for (method, path, body), (_, absent_path, absent_body) in both:
            asked.taken()
            theirs, work = await world.call(method, path, body, by=by), asked.taken()
            nothing = await world.call(method, absent_path, absent_body, by=by)
            assert plain(theirs, MARK) == plain(nothing, ABSENT), f"{method} {path} {body!r}"
            assert work == asked.taken(), f"{method} {path} {body!r}"
            assert theirs.status in (200, 400, 403, 404, 405, 422), theirs.body
        assert theirs_stored(world) == before

    play(tmp_path, story, catalog=MARKED)


@pytest.mark.parametrize("env", ["prod", "nothing"])
def test_an_envelope_below_anothers_project_does_not_tell_that_it_is_there(tmp_path: Path, env: str) -> None:
    async def story(world: World) -> None:
        answers = []
        for mark in (MARK, ABSENT):
            scope = {"tenant": "acme", "project": f"{mark}chat", "env": env}
            reply = await world.apply(envelope("e", scope, gpus=quota(1, 1)), by="acme-admin")
            answers.append(plain(reply, mark))
        assert answers[0] == answers[1]

    play(tmp_path, story, catalog=MARKED)


def test_another_tenants_idempotency_key_and_cursor_open_nothing(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await others_everywhere(world)
        mine = await world.apply(intent("nlp/prod/mine"), by="acme", idempotency_key="zqx")
        assert mine.status == 200 and MARK not in mine.body.decode()
        for table, listed in (("components", "components"), ("holdings", "usage"), ("api_keys", "keys")):
            for row in world.rows(f"SELECT id FROM {table} ORDER BY id"):  # noqa: S608 (own tables)
                path = f"/v1/{listed}"
                page = await world.call("GET", f"{path}?cursor={cursor(path, row['id'])}", by="acme-admin")
                assert page.status == 200 and MARK not in page.body.decode()
        for number in range(world.newest_event()):
            page = await world.call("GET", f"/v1/events?since={number}&limit=3", by="acme")
            assert MARK not in page.body.decode()

    play(tmp_path, story, catalog=MARKED)


def test_asking_in_vain_for_a_path_hides_nothing_from_its_owner(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        for _ in range(3):
            vain = await world.apply(intent("nlp/prod/mine"), by="globex")
            assert vain.codes == ["project.unknown"]
        await world.apply(intent("nlp/prod/mine"), by="acme")
        first = await world.get(f"{url('nlp/prod/mine')}/events?limit=1", by="acme")
        assert [event["type"] for event in first["items"]] == ["component.submitted"]
        decided = await world.get("/v1/decisions?component=nlp/prod/mine&limit=1", by="acme")
        assert [item["verdict"] for item in decided["items"]] == ["admitted"]
        own = await world.get("/v1/decisions?component=nlp/prod/mine", by="globex")
        assert len(own["items"]) == 3 and {item["tenant"] for item in own["items"]} == {"globex"}

    play(tmp_path, story)


def test_the_sum_of_the_ledger_does_not_tell_what_others_pay_in(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await make_key(world, "zqxkey", "developer", "zqxgold")
        for path, by in (("nlp/prod/mine", "acme"), ("zqxchat/prod/zqxone", "zqxkey")):
            await world.apply(intent(path), by=by)
            await world.settle()
            world.advance(60)
            world.finish(path)
            await world.settle()
        assert (await world.get("/v1/costs"))["ledgerSum"] == {"EUR": "0.00", "USD": "0.00"}
        assert (await world.get("/v1/costs", by="acme"))["ledgerSum"] == {"USD": "0.00"}

    play(tmp_path, story, catalog=MARKED)


@pytest.mark.parametrize(
    ("said", "heard_as"),
    [
        ("It waits for nlp/prod/own to end.", "It waits for nlp/prod/own to end."),
        ("It waits for zqxcheap/dev/zqxone.", "It waits for another tenant's work."),
        ("It waits for zqxchat/prod/long-gone.", "It waits for another tenant's work."),
        ("ahead: nlp/prod/own, zqxcheap/dev/zqxone", "ahead: nlp/prod/own, another tenant's work"),
        (
            "the quota of acme/nlp/prod has room for 3.5 now.",
            "the quota of acme/nlp/prod has room for 3.5 now.",
        ),
        ("zqxgold/zqxchat/prod is full", "another tenant's work is full"),
        ("nobody/knows/this", "another tenant's work"),
        ("8 are free at local on nodes that are ready", "8 are free at local on nodes that are ready"),
    ],
)
def test_what_the_engine_says_is_heard_without_other_tenants_names(
    tmp_path: Path, said: str, heard_as: str
) -> None:
    async def story(world: World) -> None:
        await others_everywhere(world)
        principal = await world.plane.keyring.authenticate(world.keys["acme"])
        assert heard(world.plane, authorize(principal, "component.read"), said) == heard_as
        root = await world.plane.keyring.authenticate(world.keys["admin"])
        assert heard(world.plane, authorize(root, "component.read"), said) == said

    play(tmp_path, story, catalog=MARKED)


def test_a_revision_does_not_tell_a_tenant_whose_hand_made_it(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        assert (await world.apply(project("new", "globex"), by="globex-admin")).status == 200
        assert (await world.get("/v1/revision"))["actor"] == "globex-admin"
        assert (await world.get("/v1/revision", by="acme"))["actor"] == ""

    play(tmp_path, story)
