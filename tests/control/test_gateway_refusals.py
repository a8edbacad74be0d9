"""Whatever is wrong with a request, the answer is problem+json with what to do next, and nothing at all
has changed."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from tests.control.documents import CATALOG, intent, project
from tests.control.worlds import Reply, World, make_key, play, url

JSON = {"content-type": "application/json"}
YAML = {"content-type": "application/yaml"}


@dataclass(frozen=True)
class Wrong:
    """A request that must be refused."""

    why: str
    status: int
    code: str
    method: str = "POST"
    path: str = "/v1/apply"
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    by: str | None = "admin"


def bomb(levels: int = 30) -> bytes:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, levels)]
    return "\n".join(lines).encode()


GOOD = json.dumps(intent("nlp/prod/a")).encode()
INVALID = "document.invalid"
BAD = "request.invalid"

WRONG = (
    Wrong("no such route", 404, "not-found", "GET", "/v1/nothing"),
    Wrong("no such route at all", 404, "not-found", "GET", "/"),
    Wrong("a route with a NUL", 404, "not-found", "GET", "/v1/tiers/\x00"),
    Wrong("a very long route", 404, "not-found", "GET", "/v1/" + "x" * 5000),
    Wrong("no such method", 405, "method.not-allowed", "PUT", "/v1/apply"),
    Wrong("a method nobody knows", 405, "method.not-allowed", "BREW", "/v1/tiers"),
    Wrong("no key", 401, "unauthenticated", by=None, body=GOOD),
    Wrong("a wrong key", 401, "unauthenticated", by="wdl_forged", body=GOOD),
    Wrong("an empty key", 401, "unauthenticated", by="", body=GOOD),
    Wrong("a basic key", 401, "unauthenticated", by=None, headers={"authorization": "Basic eDp5"}),
    Wrong("a key that is not ASCII", 401, "unauthenticated", by="wdl_\xff\xfe"),
    Wrong("a viewer who writes", 403, "not-permitted", body=GOOD, by="acme-viewer"),
    Wrong("a developer who makes a project", 403, "not-permitted", body=b"", by="acme", path="/v1/keys"),
    Wrong("too large", 413, "request.too-large", body=b" " * (10 * 1024 * 1024)),
    Wrong("said to be too large", 413, "request.too-large", headers={"content-length": "10000000"}),
    Wrong("nothing", 400, INVALID),
    Wrong("an empty list", 400, INVALID, body=b"[]", headers=JSON),
    Wrong("not JSON", 400, INVALID, body=b'{"kind": ', headers=JSON),
    Wrong("YAML that says it is JSON", 400, INVALID, body=b"kind: Tier", headers=JSON),
    Wrong("not YAML", 400, INVALID, body=b"a: [1, 2", headers=YAML),
    Wrong(
        "XML",
        415,
        "media.unsupported",
        body=b"<kind>Tier</kind>",
        headers={"content-type": "application/xml"},
    ),
    Wrong("a picture", 415, "media.unsupported", body=b"\x89PNG", headers={"content-type": "image/png"}),
    Wrong("a picture without a type", 400, INVALID, body=b"\x89PNG\r\n\x1a\n"),
    Wrong("bad UTF-8", 400, INVALID, body=b"kind: \xff\xfe", headers=YAML),
    Wrong("bad UTF-8 in JSON", 400, INVALID, body=b'{"kind": "\xff"}', headers=JSON),
    Wrong("a NUL", 400, INVALID, body=b"kind: a\x00b", headers=YAML),
    Wrong("a NUL in JSON", 400, INVALID, body=GOOD.replace(b"true", b"tr\\u0000ue"), headers=JSON),
    Wrong("half of a surrogate pair", 400, INVALID, body=GOOD.replace(b"true", b"\\ud800"), headers=JSON),
    Wrong("an alias bomb", 400, "document.invalid", body=bomb(), headers=YAML),
    Wrong("deep nesting", 400, INVALID, body=b"[" * 100_000, headers=JSON),
    Wrong("deep nesting in YAML", 400, INVALID, body=b"[" * 100_000, headers=YAML),
    Wrong("deep nesting in blocks", 400, INVALID, body=b"- " * 50_000 + b"x", headers=YAML),
    Wrong("a key twice", 400, INVALID, body=GOOD.replace(b'"gpus"', b'"gpus": 9, "gpus"'), headers=JSON),
    Wrong("a key twice in YAML", 400, INVALID, body=b"kind: Tier\nkind: Tier\n", headers=YAML),
    Wrong("a number beyond numbers", 400, INVALID, body=GOOD.replace(b": 1,", b": 1e999999,"), headers=JSON),
    Wrong("a tag of Python", 400, INVALID, body=b"!!python/object/apply:os.system [ls]", headers=YAML),
    Wrong("an unknown kind", 400, INVALID, body=GOOD.replace(b"Component", b"Compnent"), headers=JSON),
    Wrong("an unknown field", 400, INVALID, body=GOOD.replace(b'"gpus"', b'"gpuz"'), headers=JSON),
    Wrong("an unknown query parameter", 400, BAD, path="/v1/apply?dryrun=true", body=GOOD),
    Wrong("a query parameter twice", 400, BAD, "GET", "/v1/tiers?limit=1&limit=2"),
    Wrong("a flag that is no flag", 400, BAD, path="/v1/apply?dryRun=yes", body=GOOD),
    Wrong("a limit of zero", 400, BAD, "GET", "/v1/components?limit=0"),
    Wrong("a limit beyond 500", 400, BAD, "GET", "/v1/components?limit=501"),
    Wrong("a limit in Arabic digits", 400, BAD, "GET", "/v1/components?limit=%D9%A3"),
    Wrong("a phase nobody enters", 400, BAD, "GET", "/v1/components?phase=Sleeping"),
    Wrong("a query with a NUL", 400, BAD, "GET", "/v1/components?project=%00"),
    Wrong("a query that is no UTF-8", 400, BAD, "GET", "/v1/components?project=%ff"),
    Wrong("an event id that is none", 400, BAD, "GET", "/v1/events?watch=true&since=x"),
    Wrong("a revision to come", 404, "not-found", "GET", "/v1/tiers?revision=99"),
    Wrong("the revision before the first", 404, "not-found", "GET", "/v1/revision?at=0"),
    Wrong("an environment without a project", 400, BAD, "GET", "/v1/quota?env=prod"),
    Wrong("the quota of no tenant", 404, "not-found", "GET", "/v1/quota?tenant=none"),
    Wrong("the quota of no project", 404, "not-found", "GET", "/v1/quota?project=none"),
    Wrong("the quota of no cell", 404, "not-found", "GET", "/v1/quota?project=nlp&env=test"),
    Wrong("no such document", 404, "not-found", "GET", "/v1/tiers/platinum"),
    Wrong("no such component", 404, "not-found", "GET", url("nlp/prod/none")),
    Wrong("no such action", 404, "not-found", path=url("nlp/prod/none") + "/actions/levitate"),
    Wrong("to cancel nothing", 404, "not-found", path=url("nlp/prod/none") + "/actions/cancel"),
    Wrong("to delete nothing", 404, "not-found", "DELETE", url("nlp/prod/none")),
    Wrong("to delete what is used", 409, "conflict", "DELETE", "/v1/tiers/gold"),
    Wrong("a version that is none", 400, BAD, body=GOOD, headers={"if-match": "W/abc"}),
    Wrong("a version of long ago", 412, "version.stale", body=GOOD, headers={"if-match": "7"}),
    Wrong("a name that is none", 400, INVALID, body=GOOD.replace(b'"a"', b'"A_B"'), headers=JSON),
    Wrong("an unprintable Idempotency-Key", 400, BAD, body=GOOD, headers={"idempotency-key": "a\tb"}),
    Wrong("a long Idempotency-Key", 400, BAD, body=GOOD, headers={"idempotency-key": "k" * 201}),
    Wrong("a key request that is none", 400, BAD, path="/v1/keys", body=b"{}"),
    Wrong("a role that is none", 400, BAD, path="/v1/keys", body=b'{"name": "x", "role": "god"}'),
    Wrong(
        "a tenant's role without a tenant",
        400,
        BAD,
        path="/v1/keys",
        body=b'{"name": "x", "role": "viewer"}',
    ),
    Wrong("to revoke no key", 404, "not-found", "DELETE", "/v1/keys/key_none"),
    Wrong("no such decision", 404, "not-found", "GET", "/v1/decisions/dec_none"),
    Wrong(
        "a catalog that does not hold together",
        400,
        INVALID,
        body=json.dumps([project("fine"), project("broken", defaultProfile="nothing")]).encode(),
    ),
    Wrong("a project twice", 409, "conflict", body=json.dumps(project("chat")).encode()),
)


def assert_problem(reply: Reply, status: int, code: str) -> None:
    problem = reply.json
    assert (reply.status, problem["code"]) == (status, code), problem
    assert reply.headers["content-type"] == "application/problem+json"
    assert problem["status"] == status and problem["type"].endswith(code)
    assert problem["title"] and problem["detail"]
    assert problem["requestId"] == reply.headers["x-request-id"] and problem["requestId"].startswith("req_")
    assert {"reasons", "remedy"} <= problem.keys()


def test_every_refusal_is_a_problem_with_a_request_id_and_changes_nothing(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        before = world.dump()
        seen: set[str] = set()
        broken: list[str] = []
        for wrong in WRONG:
            reply = await world.call(wrong.method, wrong.path, wrong.body, by=wrong.by, headers=wrong.headers)
            try:
                assert_problem(reply, wrong.status, wrong.code)
                assert world.dump() == before, "something changed"
            except (AssertionError, KeyError, ValueError) as error:
                broken.append(f"{wrong.why}: {error!s:.100} {reply.status} {reply.body[:300]!r}")
            seen.add(reply.headers["x-request-id"])
        assert not broken, "\n".join(broken)
        assert len(seen) == len(WRONG), "request ids are used once"

    play(tmp_path, story)


def test_a_refusal_tells_how_to_come_in(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        locked = await world.call("GET", "/v1/tiers", by=None)
        assert locked.headers["www-authenticate"].startswith("Bearer")
        wrong = await world.call("PUT", "/v1/tiers")
        assert wrong.headers["allow"] == "GET, HEAD"
        several = await world.call("PATCH", url("nlp/prod/a"))
        assert several.headers["allow"] == "DELETE, GET, HEAD"

    play(tmp_path, story)


def test_every_error_of_a_document_is_told_at_once_with_its_line(tmp_path: Path) -> None:
    text = CATALOG.replace("priority: 100", "priority: high").replace("tier: gold}", "teir: gold}", 1)

    async def story(world: World) -> None:
        reply = await world.call("POST", "/v1/apply", text)
        assert_problem(reply, 400, INVALID)
        fields = {reason["field"]: reason for reason in reply.json["reasons"]}
        assert len(fields) >= 2 and all(reason["line"] > 0 for reason in fields.values())

    play(tmp_path, story, catalog="")


def test_a_mistake_of_ours_is_a_problem_that_hides_its_insides(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def story(world: World) -> None:
        def broken() -> list[object]:
            raise ZeroDivisionError("secret insides")

        monkeypatch.setattr(type(world.plane), "node_infos", lambda self: broken())
        reply = await world.call("GET", "/v1/nodes")
        assert_problem(reply, 500, "internal")
        assert b"secret insides" not in reply.body
        assert reply.json["requestId"] in str([getattr(r, "facts", "") for r in caplog.records])

    play(tmp_path, story)


def test_health_and_the_description_need_no_key_and_everything_else_does(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        described = (await world.call("GET", "/openapi.json", by=None)).json
        for path in ("/healthz", "/metrics", "/docs", "/openapi.json"):
            assert (await world.call("GET", path, by=None)).status == 200
        for pattern, methods in described["paths"].items():
            for method in methods:
                path = pattern.replace("{", "").replace("}", "")
                reply = await world.call(method.upper(), path, by=None)
                assert_problem(reply, 401, "unauthenticated")

    play(tmp_path, story)


def test_a_revoked_or_expired_key_is_refused_at_once(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        revoked = await make_key(world, "leaver", "viewer", "acme")
        await make_key(world, "guest", "viewer", "acme", expiresInS=60)
        for name in ("leaver", "guest"):
            assert (await world.call("GET", "/v1/whoami", by=name)).status == 200
        assert (await world.call("DELETE", f"/v1/keys/{revoked}")).status == 204
        assert_problem(await world.call("GET", "/v1/whoami", by="leaver"), 401, "unauthenticated")
        world.advance(59.999)
        assert (await world.call("GET", "/v1/whoami", by="guest")).status == 200
        world.advance(0.001)
        assert_problem(await world.call("GET", "/v1/whoami", by="guest"), 401, "unauthenticated")
        await world.restart()
        for name in ("leaver", "guest"):
            assert_problem(await world.call("GET", "/v1/whoami", by=name), 401, "unauthenticated")

    play(tmp_path, story)


def test_starting_again_ends_only_the_key_that_starting_made(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        first = world.keys["admin"]
        await make_key(world, "root", "developer", "acme")
        second = (await world.plane.keyring.bootstrap("root", "platform-admin")).secret
        assert (await world.call("GET", "/v1/whoami", by=first)).status == 401
        assert (await world.call("GET", "/v1/whoami", by=second)).status == 200
        assert (await world.call("GET", "/v1/whoami", by="root")).json["tenant"] == "acme"

    play(tmp_path, story)
