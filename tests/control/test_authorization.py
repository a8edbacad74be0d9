"""Who may do what: the whole matrix as a file a person reviews, and the proof that the gateway keeps it."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Iterable
from pathlib import Path

import pytest
from tests.control.documents import envelope, quota
from tests.control.engines import POSTGRES
from tests.control.worlds import World, make_key, play

from windlass.control.gateway.table import routes
from windlass.control.identity.authorize import ACTIONS, role_actions
from windlass.control.identity.judge import Asker, Question, Target, judge, targets
from windlass.control.identity.scopes import PLATFORM_ROLES, ROLES

GOLDEN = Path(__file__).parents[1] / "golden" / "authorization.txt"


def matrix(world: World) -> str:
    """Actions by role, then routes by role, then what narrowing and distance leave; a dot is a no."""
    lines = [
        "# What each role may do, as the policy decides. `make goldens` rewrites this file; read the diff."
    ]
    width = max(len(route.pattern) for route in routes(world.plane)) + 8
    heading = "".join(f"  {role}" for role in ROLES)
    lines += ["", f"{'action':<{width}}{heading}"]
    for action in ACTIONS:
        lines.append(f"{action:<{width}}" + _marks(action in role_actions(role) for role in ROLES))
    lines += ["", f"{'route':<{width}}{heading}"]
    for route in sorted(routes(world.plane), key=lambda route: (route.pattern, route.method)):
        may = (route.action is None or route.action in role_actions(role) for role in ROLES)
        lines.append(f"{f'{route.method:<6} {route.pattern}':<{width}}" + _marks(may))
    for target in sorted(targets()):
        for asker in CREDENTIALS:
            if target.the_project and not asker.for_project:
                continue
            lines += ["", f"# {_said(asker)}, {_there(target)}", f"{'action':<{width}}{heading}"]
            lines += _answers(asker, target, width) or ["nothing"]
    return "\n".join(lines) + "\n"


CREDENTIALS = (
    Asker("viewer", "key", for_project=False, leaves_out=False),
    Asker("viewer", "token", for_project=False, leaves_out=False),
    Asker("viewer", "key", for_project=True, leaves_out=False),
    Asker("viewer", "key", for_project=False, leaves_out=True),
)
"""In every role. A login is as good as a key; what is narrowed twice has what both leave (test_policy)."""


def _said(asker: Asker) -> str:
    if asker.for_project:
        return "a key for a project"
    if asker.leaves_out:
        return "a key for other actions"
    return "a short-lived token" if asker.via == "token" else "a key"


def _there(target: Target) -> str:
    what = {"Platform": "on the platform", "Tenant": "in a tenant", "Token": "to a token"}
    if target.kind == "Project":
        said = "in the project that it is for" if target.the_project else "in a project"
    else:
        said = what[target.kind] + (" of one's own" if target.own else "")
    if target.kind == "Platform":
        return said
    return f"{said}: {'the same tenant' if target.of_the_tenant else 'another tenant'}"


def _answers(like: Asker, target: Target, width: int) -> list[str]:
    found = []
    for action in (*ACTIONS, "token.revoke"):
        asked = [Question(like._replace(role=role), action, target) for role in ROLES]
        answers = [judge().allows(question) for question in asked]
        if any(answers):
            found.append(f"{action:<{width}}" + _marks(answers))
    return found


def _marks(answers: Iterable[bool]) -> str:
    words = ("yes" if answer else "." for answer in answers)
    return "".join(f"  {word:<{len(role)}}" for word, role in zip(words, ROLES, strict=True)).rstrip()


@pytest.mark.golden
def test_the_matrix_of_roles_is_the_one_that_was_reviewed(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        found = matrix(world)
        if os.environ.get("WINDLASS_GOLDENS") == "write":
            GOLDEN.write_text(found)
        assert GOLDEN.read_text() == found, "run `make goldens` and read the diff"

    play(tmp_path, story, catalog="")


def test_every_route_refuses_every_role_that_lacks_its_action(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        for role in ROLES:
            if role == "agent":
                await make_key(world, f"the-{role}", role, None, site="local")
            else:
                await make_key(world, f"the-{role}", role, None if role in PLATFORM_ROLES else "acme")
        for route in routes(world.plane):
            if route.action is None:
                continue
            path = re.sub(r"\{\w+\}", "none", route.pattern)
            for role in ROLES:
                reply = await world.call(route.method, path, by=f"the-{role}")
                allowed = route.action in role_actions(role)
                assert (reply.status != 403) == allowed, f"{route.method} {path} as {role}: {reply.body!r}"

    play(tmp_path, story)


def test_nobody_gives_out_more_than_they_have(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        for role, tenant, status in (
            ("platform-admin", None, 403),
            ("platform-viewer", None, 403),
            ("agent", None, 403),
            ("tenant-admin", None, 201),
            ("developer", "acme", 201),
            ("viewer", "globex", 400),
            ("viewer", "nobody", 400),
        ):
            asked = {"name": "n", "role": role, "tenant": tenant}
            reply = await world.call("POST", "/v1/keys", asked, by="acme-admin")
            assert reply.status == status, f"{role} of {tenant}: {reply.body!r}"
            if status == 201:
                assert reply.json["key"]["tenant"] == "acme"
        for by in ("acme", "acme-viewer", "auditor"):
            refused = await world.call("POST", "/v1/keys", {"name": "n", "role": "viewer"}, by=by)
            assert refused.status == 403

    play(tmp_path, story)


def test_only_a_platform_admin_writes_what_belongs_to_the_platform(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        tier = {"priority": 1, "preempts": False, "preemptible": True}
        tenant_envelope = {
            "scope": {"tenant": "acme"},
            "gpus": [{"profileClass": "h100-80g", "guaranteed": 99}],
        }
        documents = [
            {"kind": "Tier", "metadata": {"name": "mine"}, "spec": tier},
            {"kind": "Tenant", "metadata": {"name": "acme"}, "spec": {"tier": "gold"}},
            {"kind": "Envelope", "metadata": {"name": "acme", "tenant": "acme"}, "spec": tenant_envelope},
        ]
        before = world.dump()
        for document in documents:
            reply = await world.apply({"apiVersion": "windlass.dev/v1", **document}, by="acme-admin")
            assert reply.status == 403 and "platform" in reply.json["detail"]
        for path in ("/v1/tiers/gold", "/v1/tenants/acme", "/v1/envelopes/acme"):
            assert (await world.call("DELETE", path, by="acme-admin")).status == 403
        assert world.dump() == before

    play(tmp_path, story)


def test_a_tenant_admin_gives_out_only_what_the_tenant_was_given(tmp_path: Path) -> None:
    chat = {"tenant": "globex", "project": "chat"}

    async def story(world: World) -> None:
        before = world.dump()
        for wide in (
            {"gpus": quota(0, 4, "l40s-48g")},
            {"gpus": quota(0, 4), "sharing": ["dedicated", "mig"]},
        ):
            reply = await world.apply(envelope("chat", chat, **wide), by="globex-admin")
            assert reply.status == 403 and "globex itself was not given" in reply.json["detail"]
        assert world.dump() == before
        narrow = envelope("chat", chat, gpus=quota(0, 4), sharing=["dedicated"])
        assert (await world.apply(narrow, by="globex-admin")).status == 200
        granted = quota(0, 4, "l40s-48g")
        assert (await world.apply(envelope("chat", chat, gpus=granted), by="admin")).status == 200
        weighed = envelope("chat", chat, gpus=granted, weight=2)
        assert (await world.apply(weighed, by="globex-admin")).status == 200, "what was granted may stay"
        more = envelope("chat", chat, gpus=quota(0, 9, "l40s-48g"))
        assert (await world.apply(more, by="globex-admin")).status == 403

    play(tmp_path, story)


def test_a_tenant_admin_gives_out_nothing_that_is_being_taken_away(tmp_path: Path) -> None:
    wide = envelope("vision", {"tenant": "acme", "project": "vision"}, gpus=quota(0, 4, "l40s-48g"))

    async def story(world: World) -> None:
        taken = envelope("acme", {"tenant": "acme"}, gpus=quota(8, 16))
        # Both were looked at before either is written.
        first, second = await asyncio.gather(world.apply(taken), world.apply(wide, by="acme-admin"))
        assert first.status == 200, first.body
        if POSTGRES and second.status == 200:  # whose turn comes first is for the database to say
            assert second.json["revision"] < first.json["revision"]
        else:
            assert second.status == 403 and "acme itself was not given l40s-48g" in second.json["detail"]

    play(tmp_path, story)


def test_a_tenant_admin_does_not_replace_the_platforms_envelope_by_its_name(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        before = world.dump()
        taken = envelope("acme", {"tenant": "acme", "project": "vision"}, gpus=quota(0, 4))
        reply = await world.apply(taken, by="acme-admin")
        assert reply.status == 403 and "the platform" in reply.json["detail"]
        assert world.dump() == before

    play(tmp_path, story)


def test_a_tenant_admin_does_not_delete_what_is_becoming_the_platforms(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        chat = {"tenant": "globex", "project": "chat"}
        assert (await world.apply(envelope("chat", chat, gpus=quota(0, 4)))).status == 200
        swapped = (
            envelope("globex", chat, gpus=quota(0, 4)),
            envelope("chat", {"tenant": "globex"}, gpus=quota(8, 16)),
        )
        first, second = await asyncio.gather(
            world.apply(*swapped), world.call("DELETE", "/v1/envelopes/chat", by="globex-admin")
        )
        assert first.status == 200, first.body
        if not (POSTGRES and second.status == 204):  # there the deletion's turn may have come first
            assert second.status == 403 and "belongs to the platform" in second.json["detail"]

    play(tmp_path, story)
