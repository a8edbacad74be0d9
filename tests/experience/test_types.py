"""type diff, type migrate, and whom a change would affect: what people read and how it exits."""

from __future__ import annotations

from pathlib import Path

import msgspec
from tests.experience.test_apply import TIER, write
from tests.experience.test_commands import Run, run
from tests.sdk import samples
from tests.sdk.canned_server import CannedServer

from windlass.contracts import api

__all__ = ["run"]  # a fixture

ROUTE = "/v1/componenttypes/a@1.0.0"
DIFF = "--- x local a@1.0.0\n+++ x local b\n@@ -1 +1 @@\n-one\n+two"


def difference(name: str, **more: object) -> api.TypeDifference:
    return msgspec.convert(
        {"component": f"nlp/prod/{name}", "tenant": "acme", "phase": "Running", **more}, api.TypeDifference
    )


def migrated(name: str, outcome: str, **more: object) -> api.Migrated:
    return msgspec.convert(
        {"component": f"nlp/prod/{name}", "tenant": "acme", "outcome": outcome, **more}, api.Migrated
    )


def test_type_diff_prints_diffs_and_exits_with_3_where_one_would_be_refused(
    server: CannedServer, run: Run
) -> None:
    items = [difference("one", diff=DIFF), difference("two")]
    server.answer("GET", f"{ROUTE}/diff", api.TypeDiff(type="a@1.0.0", other="b", items=items, total=7))
    code, out, err = run("type", "diff", "a@1.0.0", "b", "-p", "nlp")
    assert (code, out) == (0, DIFF + "\n")
    assert "no difference for nlp/prod/two" in err and "2 of 7" in err
    assert server.asked[0].query == {"to": "b", "project": "nlp"}
    refused = [msgspec.structs.replace(items[1], reasons=[samples.OVER])]
    server.answer("GET", f"{ROUTE}/diff", api.TypeDiff(type="a@1.0.0", other="b", items=refused, total=1))
    code, out, _ = run("type", "diff", "a@1.0.0", "b")
    assert code == 3 and "component/nlp/prod/two would be refused" in out and "[entitlement.max]" in out


def test_type_migrate_prints_a_line_each_and_exits_by_the_worst(server: CannedServer, run: Run) -> None:
    moved = migrated("one", "moved", message="from a to b")
    alive = migrated("two", "alive", message="it is running", remedy="wait")
    refused = migrated("three", "refused", reasons=[msgspec.to_builtins(samples.OVER)])
    err = ""
    for items, code in (([moved], 0), ([moved, alive], 5), ([moved, alive, refused], 3)):
        answer = api.Migration(type="a@1.0.0", other="b", items=items, dry_run=True)
        server.answer("POST", f"{ROUTE}/migrate", answer)
        got, out, err = run("type", "migrate", "a@1.0.0", "b", "--dry-run")
        assert (got, out.splitlines()[0]) == (code, "component/nlp/prod/one moved (dry run): from a to b")
    assert "try: wait" in err and "[entitlement.max]" in err and "1 alive, 1 moved, 1 refused" in err
    assert server.asked[0].query == {"to": "b", "dryRun": "true"}


def test_a_dry_run_and_a_plan_list_whom_a_change_would_affect(
    server: CannedServer, run: Run, tmp_path: Path
) -> None:
    one = api.AffectedComponent(
        component=samples.PATH, tenant="acme", phase="Running", effect="refused", reasons=[samples.OVER]
    )
    affected = api.Affected(items=[one], total=3, judged=2000, concerned=2500)
    result = api.Result(kind="Tier", name="gold", outcome="changed")
    answer = msgspec.structs.replace(samples.applied(result, dry_run=True), affected=affected)
    server.answer("POST", "/v1/apply", answer)
    file = write(tmp_path, "tier.yaml", TIER)
    for words in (("apply", "--dry-run"), ("plan",)):
        out = run(*words, "-f", file)[1]
        assert "3 components would be affected at the next admission (2000 of 2500 looked at)" in out
        assert "would be refused" in out and "[entitlement.max]" in out and "and 2 more" in out
    assert msgspec.json.decode(run("plan", "-f", file, "-o", "json")[1])["affected"]["total"] == 3
    nobody = msgspec.structs.replace(affected, items=[], total=0)
    server.answer("POST", "/v1/apply", msgspec.structs.replace(answer, affected=nobody))
    assert "nobody would be affected" in run("plan", "-f", file)[1]
