"""What one decision costs: the policy asked, and the answer remembered.

No store and no server. Each round asks a share of all questions there are, so that those that are refused
early and those that are refused late both count.
"""

from __future__ import annotations

import argparse
import itertools

from benchmarks.measuring import each_us, rss_mb
from benchmarks.reporting import Report, parser

DECISION_US = 60.0


def measure(decisions: int) -> Report:
    before = rss_mb()
    from windlass.control.identity.authorize import ACTIONS, Thing, may
    from windlass.control.identity.judge import POLICY, SCHEMA, Judge, Question, askers, targets
    from windlass.control.identity.scopes import Principal

    policy, schema = POLICY.read_text(), SCHEMA.read_text()
    report = Report("authorization", {"decisions": decisions})
    report.add("loadMs", "policy: read and checked", each_us(lambda _: Judge(policy, schema), 5) / 1e3, "ms")
    everything = (
        Question(asker, action, target)
        for asker, action, target in itertools.product(askers(), ACTIONS, targets())
        if target.kind != "Token"  # most actions cannot be done to one, and that is soon found out
    )
    asked = list(itertools.islice(everything, decisions))
    fresh = [Judge(policy, schema) for _ in range(5)]
    size = len(asked)
    uncached = each_us(lambda number: fresh[number // size].allows(asked[number % size]), size, rounds=5)
    report.add("decisionUs", "decision, not asked before: CPU", uncached, "µs", DECISION_US)
    developer = Principal("developer", "developer", "acme", "key")
    project = Thing("Project", "acme", "nlp")
    remembered = each_us(lambda _: may(developer, "component.write", project), 20_000, rounds=5)
    report.add("rememberedUs", "decision, asked before, from names on: CPU", remembered, "µs")
    report.add("memoryMb", "memory of the engine, five policies and their answers", rss_mb() - before, "MB")
    return report


def arguments() -> argparse.ArgumentParser:
    made = parser("authorization", __doc__)
    made.add_argument("--decisions", type=int, default=7000, help="questions in a round, each asked once")
    return made


def main() -> int:
    asked = arguments().parse_args()
    return measure(asked.decisions).tell(as_json=asked.json)


if __name__ == "__main__":
    raise SystemExit(main())
