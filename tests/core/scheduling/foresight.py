"""What the judge can foresee: when work could start if what runs ends as it should, and who is in its way."""

from __future__ import annotations

from tests.core.scheduling.judge import Judge
from tests.core.scheduling.judged_quota import Doc, need

Held = dict[str, list[Doc]]
ASSUMED_S = 3600
"""How long work is taken to run that does not say."""


class Foresight(Judge):
    def fits(self, name: str, held: Held, *, lucky: bool = True) -> bool:
        """There is quota and room for it beside `held`."""
        work = self.works[name]
        enough, workers = self.capacity(name, held, lucky=lucky)
        return (
            self.tree(work["class"], held).entitled(work["queue"])
            and self.quota_allows(work, held)
            and enough
            and self.arrangement(name, workers)
        )

    def end(self, name: str) -> float:
        work = self.works[name]
        since = work["running"]["since"] if name in self.before and name in self.after else self.now
        return max(float(self.now), float(since + work.get("expectedDuration", ASSUMED_S)))

    def earliest(self, name: str, held: Held) -> float | None:
        """When it fits first, if everything ends as expected and nobody else starts. None: never."""
        for time in sorted({float(self.now), *map(self.end, held)}):
            if self.fits(name, {other: on for other, on in held.items() if self.end(other) > time}):
                return time
        return None

    def without(self, name: str) -> Held:
        """The world after the cycle, had one admitted workload stayed out and its victims stayed in."""
        rest = {other: on for other, on in self.after.items() if other != name}
        stayed = [victim for victim, entry in self.victims.items() if entry["for"] == name]
        return {**rest, **{victim: self.before[victim] for victim in stayed}}

    def possible(self, held: Held) -> bool:
        """Nobody is on a GPU that is shared in another way: a victim's place may be taken already."""
        try:
            self.gpus(held)
        except AssertionError:
            return False
        return True

    def borrows_from(self, name: str, other: str, held: Held) -> bool:
        """Whether, started beside `held`, it would use more than the pool of a quota that `other` is not in:
        what lies beyond is lent, and whoever it is lent by or shared with may want it."""
        mine, others = self.works[name], self.works[other]
        tree = self.tree(mine["class"], held)
        tree.held[mine["queue"]] += need(mine)
        apart = [node for node in tree.path(mine["queue"]) if node not in tree.path(others["queue"])]
        return any(tree.use(node) > tree.pool(node) for node in apart)

    def ahead(self) -> list[tuple[str, str]]:
        """Who waits although somebody of lower priority of its class was admitted."""
        return [
            (high, low)
            for high, entry in self.waiting.items()
            for low in self.admitted
            if entry["ahead"] is not None
            and self.works[high]["class"] == self.works[low]["class"]
            and self.works[high].get("priority", 0) > self.works[low].get("priority", 0)
        ]
