"""Every route of the table, asked by every kind of credential of one tenant for what is a neighbour's.

What is a neighbour's and what does not exist must be one and the same: in status, headers and words, and in
the work that was done for the answer. The work is counted in what the store was asked and gave, because
time cannot be compared in a test; but what does the same statements and reads the same rows takes the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.control.documents import intent
from tests.control.neighbours import (
    ABSENT,
    MARK,
    MARKED,
    NOTHING,
    Ids,
    others_everywhere,
    plain,
    theirs_stored,
    watched,
)
from tests.control.providers import FakeProvider
from tests.control.worlds import World, cursor, make_key, play

from windlass.control.gateway.routes import Route
from windlass.control.gateway.table import routes

PEOPLE = ("acme-admin", "acme", "acme-viewer", "acme-agent")
NARROWED = ("acme-token", "acme-project", "acme-actions")
LOGIN = "acme-login"
NAMES = {"tenants": "gold", "projects": "chat", "envelopes": "envelope", "sites": "site"}
NAMES |= {"serviceaccounts": "bot", "components": "one"}
PROVIDER = FakeProvider()
ORDER = ("GET", "DELETE", "POST")
ANSWERS = (200, 201, 400, 403, 404, 405, 409, 412, 422)
"""What such a question is answered with; a 5xx, or a 204 for what was not there, is a mistake."""


async def credentials(world: World) -> None:
    """One of each kind, of acme."""
    await make_key(world, "acme-agent", "agent", None, site="local")
    await make_key(world, "acme-project", "tenant-admin", "acme", project="nlp")
    narrow = ["key.write", "key.read", "component.read", "audit.read"]
    await make_key(world, "acme-actions", "tenant-admin", "acme", actions=narrow)
    made = await world.call("POST", "/v1/tokens", {}, by="acme-admin")
    world.keys["acme-token"] = made.json["secret"]
    world.keys[LOGIN] = PROVIDER.token("acme-people")


# --- questions, made from the table -----------------------------------------------------------


def paths(route: Route, mark: str, ids: Ids) -> Iterator[str]:
    """The route's path, filled with what is the marked tenants'."""
    listed = route.pattern.split("/")[2] if route.pattern.count("/") > 1 else ""
    name = NAMES.get("components" if "{env}" in route.pattern else listed, "thing")
    given = {"project": f"{mark}cheap", "env": "dev", "name": f"{mark}{name}"}
    for id in ids.all() if "{id}" in route.pattern else ("",):
        for action in ("cancel", "rerun") if "{action}" in route.pattern else ("",):
            parts = {**given, "id": id, "action": action}
            yield re.sub(r"\{(\w+)\}", lambda found, parts=parts: parts[found[1]], route.pattern)  # type: ignore[misc]


def queries(route: Route, mark: str) -> Iterator[str]:
    """Nothing, then each parameter that can name something of somebody's."""
    yield ""
    component = f"{mark}chat/prod/{mark}refused"
    if "to" in route.query:
        yield f"?to=training-job&project={mark}chat"
    named = {"tenant": f"{mark}gold", "project": f"{mark}chat", "env": f"{mark}env", "name": f"{mark}one"}
    for parameter, value in {**named, "component": component}.items():
        if parameter in route.query:
            yield f"?{parameter}={value}"
    if {"tenant", "project"} <= route.query.keys():
        yield f"?tenant={mark}gold&project={mark}chat"
    if route.pattern.endswith("/logs"):
        yield "?follow=true"


def bodies(route: Route, mark: str) -> list[object]:
    """What can be sent. A new route that takes something is not walked until it is listed here."""
    if route.method != "POST":
        return [b""]
    gold = f"{mark}gold"
    sent: Mapping[str, list[object]] = {
        "/v1/apply": [intent(f"{mark}chat/prod/{mark}refused"), intent(f"{mark}cheap/dev/{mark}one", 8)],
        "/v1/componenttypes/{name}/migrate": [b""],
        "/v1/projects/{project}/components/{env}/{name}/actions/{action}": [b""],
        "/v1/keys": [
            {"name": "spy", "role": "viewer", "tenant": gold},
            {"name": "spy", "role": "viewer", "project": f"{mark}chat"},
            {"name": "spy", "serviceAccount": f"{mark}bot"},
            {"name": "spy", "serviceAccount": f"{mark}bot", "tenant": gold},
        ],
        "/v1/keys/{id}/rotate": [{}, {"overlapS": 0}],
        "/v1/tokens": [{"project": f"{mark}chat"}],
        "/v1/sites/{name}/reports": [{"site": f"{mark}site"}],
        "/v1/sites/{name}/answers": [{"id": "ask_1"}],
        "/v1/sites/{name}/lost": [{"reason": "spite"}],
        "/v1/defrag": [{"component": f"{mark}cheap/dev/{mark}one", "digest": "0"}],
        "/v1/serviceaccounts": [
            {"name": "spy", "role": "viewer", "tenant": gold},
            {"name": f"{mark}bot", "role": "viewer"},
        ],
    }
    return sent[route.pattern]


def asked_of(route: Route, mark: str, ids: Ids) -> Iterator[tuple[str, object, Mapping[str, str]]]:
    for path in paths(route, mark, ids):
        for query in queries(route, mark):
            for body in bodies(route, mark):
                yield path + query, body, {}
        yield path, bodies(route, mark)[0], {"Windlass-Tenant": f"{mark}gold"}
        if route.method != "GET":
            yield path, bodies(route, mark)[0], {"If-Match": '"1"'}


# --- the walk ---------------------------------------------------------------------------------


@pytest.mark.parametrize("by", [*PEOPLE, *NARROWED, LOGIN])
def test_no_route_tells_a_neighbours_things_from_what_does_not_exist(tmp_path: Path, by: str) -> None:
    async def story(world: World) -> None:
        ids = await others_everywhere(world)
        await credentials(world)
        before = theirs_stored(world)
        asked = await watched(world)
        await world.get("/v1/whoami", by=by)  # the key is known from here on
        walked = 0
        # What was tried in vain is listed, under the name that was tried; what was made can be deleted.
        for route in sorted(routes(world.plane), key=lambda route: ORDER.index(route.method)):
            if route.action is None:
                continue
            both = zip(asked_of(route, MARK, ids), asked_of(route, ABSENT, NOTHING), strict=True)
            for (path, body, headers), (absent, nothing, no_headers) in both:
                what = f"{route.method} {path} {body!r} {headers}"
                asked.taken()
                theirs = await world.call(route.method, path, body, by=by, headers=headers)
                work = asked.taken()
                none = await world.call(route.method, absent, nothing, by=by, headers=no_headers)
                assert plain(theirs, MARK) == plain(none, ABSENT), what
                assert work == asked.taken(), what
                assert theirs.status in ANSWERS, f"{what}: {theirs.status}"
                walked += 1
        assert walked > 250
        assert theirs_stored(world) == before

    play(tmp_path, story, catalog=MARKED, reach=PROVIDER.reach)


@pytest.mark.parametrize("by", PEOPLE)
def test_what_a_role_may_not_do_is_refused_before_anything_is_looked_up(tmp_path: Path, by: str) -> None:
    async def story(world: World) -> None:
        ids = await others_everywhere(world)
        await credentials(world)
        asked = await watched(world)
        may = set((await world.get("/v1/whoami", by=by))["may"])
        for route in routes(world.plane):
            if route.action is None or route.action in may:
                continue
            for path, body, headers in asked_of(route, MARK, ids):
                asked.taken()
                reply = await world.call(route.method, path, body, by=by, headers=headers)
                assert (reply.status, asked.taken()) == (403, []), f"{route.method} {path}"

    play(tmp_path, story, catalog=MARKED, reach=PROVIDER.reach)


def test_a_neighbours_idempotency_keys_neither_replay_nor_conflict(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await others_everywhere(world)
        for path, once, body in (
            ("/v1/serviceaccounts", "zqx-account", {"name": "mine", "role": "developer"}),
            ("/v1/keys", "zqx-key", {"name": "mine", "serviceAccount": "mine"}),
            ("/v1/tokens", "zqx-token", {}),
        ):
            headers = {"Idempotency-Key": once}
            made = await world.call("POST", path, body, by="acme-admin", headers=headers)
            assert made.status == 201, made.body
            assert MARK not in made.body.decode()

    play(tmp_path, story, catalog=MARKED, reach=PROVIDER.reach)


async def cursors(world: World) -> Iterator[tuple[str, Any]]:
    """Of every list that has pages, every position there is, everybody's."""
    found: list[tuple[str, Any]] = []
    for path, kind in (("/v1/keys", "key"), ("/v1/tokens", "token")):
        ids = world.rows("SELECT id FROM api_keys WHERE kind = ?", kind)
        found += [(path, row["id"]) for row in ids]
    for row in world.rows("SELECT name, tenant FROM service_accounts"):
        found.append(("/v1/serviceaccounts", f"{row['name']}/{row['tenant']}"))
    for path, table in (("/v1/decisions", "decisions"), ("/v1/usage", "holdings"), ("/v1/audit", "audit")):
        found += [(path, row["id"]) for row in world.rows(f"SELECT id FROM {table}")]  # noqa: S608 (own tables)
    return iter(found)


def test_a_neighbours_cursor_opens_only_ones_own_pages(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await others_everywhere(world)
        await credentials(world)
        walked = set()
        for path, position in await cursors(world):
            walked.add(path)
            for more in ("", "&limit=1", "&tenant=zqxgold"):
                page = await world.call(
                    "GET", f"{path}?cursor={cursor(path, position)}{more}", by="acme-admin"
                )
                assert page.status == 200
                assert MARK not in page.body.decode().replace("tenant=zqxgold", "")
        assert len(walked) == 6

    play(tmp_path, story, catalog=MARKED, reach=PROVIDER.reach)


@pytest.mark.parametrize("by", [*PEOPLE, *NARROWED, LOGIN])
def test_no_answer_carries_a_neighbours_mark_that_the_question_did_not(tmp_path: Path, by: str) -> None:
    """Service levels, identity providers, tokens, accounts and all the other lists, without a question."""

    async def story(world: World) -> None:
        await others_everywhere(world)
        await credentials(world)
        for route in routes(world.plane):
            if route.method == "GET" and "{" not in route.pattern and route.pattern != "/metrics":
                reply = await world.call("GET", route.pattern, by=by)
                assert MARK not in reply.body.decode().lower(), route.pattern

    play(tmp_path, story, catalog=MARKED, reach=PROVIDER.reach)
