"""A second opinion on `windlass schedule`: every claim of an answer, recomputed from the scenario alone.

Nothing of the engine is used here. Quotas are those of `judged_quota.py`, and where there is room is found by
counting workers per node, not by placing them.
"""

from __future__ import annotations

from collections import Counter
from fractions import Fraction

from tests.core.scheduling.geometry import more, ways
from tests.core.scheduling.judged_quota import WHOLE, Doc, Tree, fewest, milli, need, per_worker, unit_of


class Judge:
    def __init__(self, scenario: Doc, answer: Doc) -> None:
        self.scenario, self.answer = scenario, answer
        self.now = scenario.get("now", 0)
        self.nodes: dict[str, Doc] = {node["name"]: node for node in scenario["nodes"]}
        self.quotas: dict[str, Doc] = {quota["name"]: quota for quota in scenario["quotas"]}
        self.works: dict[str, Doc] = {work["name"]: work for work in scenario["workloads"]}
        self.admitted: dict[str, Doc] = {entry["workload"]: entry for entry in answer["admitted"]}
        self.victims: dict[str, Doc] = {entry["workload"]: entry for entry in answer["preempted"]}
        self.waiting: dict[str, Doc] = {entry["workload"]: entry for entry in answer["waiting"]}
        ran = [(name, work["running"]["on"]) for name, work in self.works.items() if "running" in work]
        self.before: dict[str, list[Doc]] = {
            name: [
                {"node": part["node"], "gpus": part["gpus"][at : at + step]}
                for part in on
                for step in [max(1, unit_of(self.works[name])[0])]
                for at in range(0, len(part["gpus"]), step)
            ]
            for name, on in ran
        }
        self.after: dict[str, list[Doc]] = {
            name: on for name, on in self.before.items() if name not in self.victims
        }
        self.after |= {name: entry["placement"] for name, entry in self.admitted.items()}
        self.grown: dict[str, Doc] = {entry["workload"]: entry for entry in answer.get("grown", [])}
        self.after |= {name: entry["placement"] for name, entry in self.grown.items()}

    # --- the world ---

    def tree(self, gpu_class: str, held: dict[str, list[Doc]]) -> Tree:
        tree = Tree(self.quotas, gpu_class)
        for name, on in held.items():
            work = self.works[name]
            if work["class"] == gpu_class:
                tree.held[work["queue"]] += per_worker(work) * len(on)
        return tree

    def gpus(self, held: dict[str, list[Doc]]) -> tuple[Counter[tuple[str, int]], dict[tuple[str, int], str]]:
        used: Counter[tuple[str, int]] = Counter()
        modes: dict[tuple[str, int], str] = {}
        for name, on in held.items():
            _, unit, mode = unit_of(self.works[name])
            for worker in on:
                for gpu in worker["gpus"]:
                    used[worker["node"], gpu] += unit
                    assert modes.setdefault((worker["node"], gpu), mode) == mode, f"{name}: two modes on one"
        return used, modes

    def instances(self, held: dict[str, list[Doc]]) -> dict[tuple[str, int], tuple[str, ...]]:
        """The MIG instances on each GPU."""
        found: dict[tuple[str, int], tuple[str, ...]] = {}
        for name, on in held.items():
            profile = self.works[name].get("migProfile", "")
            for worker in on if profile else ():
                for gpu in worker["gpus"]:
                    at = (worker["node"], gpu)
                    found[at] = tuple(sorted((*found.get(at, ()), profile)))
        return found

    def hosts(self, held: dict[str, list[Doc]], what: str) -> Counter[str]:
        used: Counter[str] = Counter()
        for name, on in held.items():
            for worker in on:
                used[worker["node"]] += self.works[name].get(what, 0)
        return used

    def tenant(self, queue: str) -> str:
        *below, top = Tree(self.quotas, "").path(queue)[:-1]
        tops = [quota for quota in self.quotas.values() if "parent" not in quota]
        return below[-1] if below and len(tops) == 1 and not tops[0].get("gpus") else top

    def keeps_from(self, name: str, other: str) -> bool:
        one, two = self.works[name], self.works[other]
        strangers = self.tenant(one["queue"]) != self.tenant(two["queue"])
        path = Tree(self.quotas, "").path(two["queue"])
        return (one.get("dedicated", False) and strangers) or bool(
            {other, *path} & set(one.get("avoid") or [])
        )

    def avoided(self, name: str, held: dict[str, list[Doc]]) -> set[str]:
        others = [other for other in held if self.keeps_from(name, other) or self.keeps_from(other, name)]
        return {worker["node"] for other in others for worker in held[other]}

    def capacity(
        self, name: str, held: dict[str, list[Doc]], *, lucky: bool = True
    ) -> tuple[bool, dict[str, int]]:
        """For one workload: whether there is enough in sum of GPU, CPU and memory, and how many of its
        workers each node could take. Where MIG instances lie on their GPU is not told: as well as they can
        (`lucky`)."""
        work = self.works[name]
        pieces, unit, mode = unit_of(work)
        used, modes = self.gpus(held)
        there = self.instances(held)
        cpu, memory = self.hosts(held, "cpuMilli"), self.hosts(held, "memoryMib")
        away = self.avoided(name, held)
        total, workers = 0, {}
        spare = {"cpuMilli": 0, "memoryMib": 0}
        for node in self.nodes.values():
            at = node["name"]
            if node["class"] != work["class"] or node.get("state", "ready") != "ready" or at in away:
                continue
            if work.get("sites") and node.get("site", "local") not in work["sites"]:
                continue
            left = [WHOLE - used[at, gpu] for gpu in range(node["gpus"])]
            total += sum(left)
            slots = sum(
                amount // unit if mode != "mig" else more(there.get((at, gpu), ()), work["migProfile"])[lucky]
                for gpu, amount in enumerate(left)
                if modes.get((at, gpu), mode) == mode and (mode != "dedicated" or amount == WHOLE)
            )
            count = slots // pieces
            for what, taken in (("cpuMilli", cpu), ("memoryMib", memory)):
                spare[what] += node.get(what, 10**15) - taken[at]
                if what in node and work.get(what):
                    count = min(count, (node[what] - taken[at]) // work[what])
            workers[at] = count
        enough = all(work.get(what, 0) * fewest(work) <= free for what, free in spare.items())
        return enough and need(work) <= total, workers

    def domain(self, node: str, level: str | None) -> tuple[str, ...] | None:
        labels = self.nodes[node].get("labels", {})
        site = self.nodes[node].get("site", "local")
        if level is None:
            return (site,)
        if level not in labels:
            return None
        return (site, labels.get("block", "") if level == "rack" else "", labels[level])

    def arrangement(self, name: str, workers: dict[str, int]) -> bool:
        topology = self.works[name].get("topology") or {}
        level = topology.get("level") if topology.get("mode", "preferred") == "required" else None
        sums: Counter[tuple[str, ...]] = Counter()
        for node, count in workers.items():
            where = self.domain(node, level)
            if where is not None:
                sums[where] += count
        return max(sums.values(), default=0) >= fewest(self.works[name])

    def quota_allows(self, work: Doc, held: dict[str, list[Doc]]) -> bool:
        tree = self.tree(work["class"], held)
        free = tree.free(work["queue"])
        if not work.get("preemptible", True):
            free = min(free, tree.room(work["queue"]))
        return need(work) <= free

    # --- the claims ---

    def check(self) -> None:
        self.everybody_is_somewhere()
        self.placements_are_real()
        self.quotas_hold()
        self.victims_may_go_and_are_needed()
        self.causes_are_true()
        self.positions_are_an_order()
        self.usage_sums()

    def everybody_is_somewhere(self) -> None:
        assert len(self.admitted) == len(self.answer["admitted"])
        assert len(self.victims) == len(self.answer["preempted"])
        assert len(self.waiting) == len(self.answer["waiting"])
        assert sorted([*self.after, *self.waiting]) == sorted(self.works)
        assert set(self.victims) <= set(self.waiting)
        assert set(self.victims) <= set(self.before)
        assert not set(self.admitted) & set(self.before)

    def placements_are_real(self) -> None:
        used, _ = self.gpus(self.after)
        assert all(amount <= WHOLE for amount in used.values())
        assert all(ways(found) for found in self.instances(self.after).values()), "instances overlap"
        for what in ("cpuMilli", "memoryMib"):
            for node, amount in self.hosts(self.after, what).items():
                assert what not in self.nodes[node] or amount <= self.nodes[node][what]
        for name, entry in self.grown.items():
            was = [(worker["node"], worker["gpus"]) for worker in self.before[name]]
            now = [(worker["node"], worker["gpus"]) for worker in entry["placement"]]
            assert now[: len(was)] == was and len(now) > len(was), f"{name} grew where it was"
        for name, entry in {**self.admitted, **self.grown}.items():
            work, on = self.works[name], entry["placement"]
            if name in self.grown:
                on = on[len(self.before[name]) :]
                home = self.domain(self.before[name][0]["node"], None)
                assert all(self.domain(worker["node"], None) == home for worker in on)
            else:
                assert [worker["worker"] for worker in on] == list(range(len(on)))
            on = entry["placement"] if name in self.admitted else on
            assert fewest(work) <= len(entry["placement"]) <= work.get("workers", 1)
            topology = work.get("topology") or {}
            if topology.get("mode") == "required":
                assert len({self.domain(worker["node"], topology["level"]) for worker in on}) == 1
            assert len({self.domain(worker["node"], None) for worker in on}) == 1, "one site"
            away = self.avoided(name, {other: it for other, it in self.after.items() if other != name})
            for worker in on:
                host = self.nodes[worker["node"]]
                assert host["class"] == work["class"] and host.get("state", "ready") == "ready"
                assert not work.get("sites") or host.get("site", "local") in work["sites"]
                assert host["name"] not in away, f"{name} beside what it avoids"
                assert len(worker["gpus"]) == unit_of(work)[0]
                assert all(0 <= gpu < host["gpus"] for gpu in worker["gpus"])
                if unit_of(work)[2] == "dedicated":
                    assert len(set(worker["gpus"])) == len(worker["gpus"])

    def quotas_hold(self) -> None:
        for gpu_class in {work["class"] for work in self.works.values()}:
            before, after = self.tree(gpu_class, self.before), self.tree(gpu_class, self.after)
            for name in ["", *self.quotas]:
                most = after.most(name) if name else None
                grew = after.below(name) > before.below(name)
                assert most is None or not grew or after.below(name) <= most, f"{name} is past its max"
            assert after.free("") >= min(0, before.free("")), "more is lent than there is"
            fixed = {
                name: on for name, on in self.after.items() if not self.works[name].get("preemptible", True)
            }
            stays = {name: on for name, on in self.before.items() if name in fixed}
            assert self.tree(gpu_class, fixed).beyond("") <= self.tree(gpu_class, stays).beyond("")
        for name, entry in self.admitted.items():
            if not self.works[name].get("preemptible", True):
                assert entry["borrowed"] == "0"
            assert 0 <= milli(entry["borrowed"]) <= per_worker(self.works[name]) * len(entry["placement"])

    def victims_may_go_and_are_needed(self) -> None:
        for name, entry in self.victims.items():
            work, winner = self.works[name], self.works[entry["for"]]
            fresh = {id: it["placement"] for id, it in self.admitted.items() if not it["after"]}
            tree = self.tree(work["class"], self.before | fresh)
            assert name in self.admitted[entry["for"]]["after"]
            assert work.get("preemptible", True) and winner.get("preempts", True)
            assert work["running"]["since"] + work.get("minRuntime", 0) <= self.now
            assert self.scenario.get("options", {}).get("preemption", True)
            assert work["class"] == winner["class"]
            home = tree.home(work["queue"])
            if entry["reason"] == "priority":
                assert home == tree.home(winner["queue"])
                assert work.get("priority", 0) < winner.get("priority", 0)
            else:
                assert entry["reason"] in ("reclaim", "fair-share")
                assert tree.use(home) > tree.pool(home), f"{name} was inside its guarantee"
            if entry["reason"] == "fair-share":
                assert self.scenario.get("options", {}).get("fairShare", True)
                self.had_the_larger_share(name, entry["for"])
            # A later winner's victims may make an earlier one's needless; that is not foreseen.
            alone = len({it["for"] for it in self.victims.values()}) == 1
            assert not (alone and self.could_have_stayed(name, winner)), f"{name} need not have gone"
        for entry in self.admitted.values():
            assert set(entry["after"]) <= set(self.victims)

    def had_the_larger_share(self, name: str, winner: str) -> None:
        """At the level where their paths part, the winner's side with its need is below the victim's."""
        gpu_class = self.works[name]["class"]
        before = self.tree(gpu_class, self.before)
        mine, theirs = (before.path(self.works[it]["queue"]) for it in (winner, name))
        shared = set(mine) & set(theirs)
        mine_top = [node for node in mine if node not in shared][-1]
        theirs_top = [node for node in theirs if node not in shared][-1]
        if len(self.admitted) > 1:
            return  # who else started meanwhile has changed both
        assert self.share(mine_top, self.after) < self.share(theirs_top, self.before)

    def share(self, quota: str, held: dict[str, list[Doc]]) -> Fraction:
        weight: int = self.quotas[quota].get("weight", 1)
        if not weight:
            return Fraction(10**9)
        parts = []
        for gpu_class in {limit["class"] for it in self.quotas.values() for limit in it.get("gpus", [])}:
            tree = self.tree(gpu_class, held)
            parts.append(Fraction(max(0, tree.use(quota) - tree.pool(quota)), max(1, tree.pool(""))))
        return max(parts) / weight

    def could_have_stayed(self, name: str, winner: Doc) -> bool:
        """Whether the victim, where it was, would be in nobody's way after all."""
        work, restored = self.works[name], {**self.after, name: self.before[name]}
        try:
            used, _ = self.gpus(restored)
        except AssertionError:
            return False
        room = all(amount <= WHOLE for amount in used.values()) and all(
            map(ways, self.instances(restored).values())
        )
        room = room and all(
            what not in self.nodes[node] or amount <= self.nodes[node][what]
            for what in ("cpuMilli", "memoryMib")
            for node, amount in self.hosts(restored, what).items()
        )
        apart = not self.avoided(name, self.after) & {on["node"] for on in self.before[name]}
        tree = self.tree(work["class"], self.after)
        lent = tree.free(work["queue"])
        if not winner.get("preemptible", True):
            lent = min(lent, tree.room(work["queue"]))  # it needs the guarantee, not only room
        home = tree.home(work["queue"])
        reasons = {it["reason"] for it in self.victims.values() if self.works[it["for"]] is winner}
        if home == tree.home(winner["queue"]) and "reclaim" in reasons:
            lent = min(lent, tree.pool(home) - tree.use(home))  # who takes back from others does not borrow
        return room and apart and per_worker(work) * len(self.before[name]) <= lent

    def causes_are_true(self) -> None:
        for name, entry in self.waiting.items():
            expected = self.binding(name, lucky=True)
            told = [entry["cause"], *entry["also"]]
            if expected or told == self.binding(name, lucky=False):
                assert told in (expected, self.binding(name, lucky=False)), f"{name}: {entry}, but {expected}"
            elif entry["cause"] == "priority":
                assert not entry["also"]
                self.somebody_ahead_lacks_room(name, entry)
            else:
                # Room that a victim leaves, or a reservation that moved, may wait for the next cycle.
                assert [entry["cause"], *entry["also"]] == ["starting"], f"{name} fits: {entry}"
                assert self.admitted and entry["estimatedStart"] == self.now
            assert entry["estimatedStart"] is None or entry["estimatedStart"] >= self.now

    def binding(self, name: str, *, lucky: bool) -> list[str]:
        work = self.works[name]
        tree = self.tree(work["class"], self.after)
        most = [limit for node in tree.path(work["queue"])[:-1] if (limit := tree.most(node)) is not None]
        found = []
        entitled = tree.entitled(work["queue"]) and need(work) <= min(most, default=need(work))
        if not entitled:
            found.append("entitlement")
        ready = {n.get("site", "local") for n in self.nodes.values() if n.get("state", "ready") == "ready"}
        away = bool(work.get("sites")) and not ready & set(work["sites"])
        if away:
            found.append("site")
        if entitled and not self.quota_allows(work, self.after):
            found.append("quota")
        if not away:
            enough, workers = self.capacity(name, self.after, lucky=lucky)
            if not enough or not any(n["class"] == work["class"] for n in self.nodes.values()):
                found.append("capacity")
            elif not self.arrangement(name, workers):
                found.append("fragmentation")
        return found

    def somebody_ahead_lacks_room(self, name: str, entry: Doc) -> None:
        work = self.works[name]
        if "guaranteed to " in entry["message"]:
            lender = entry["message"].partition("guaranteed to ")[2].partition(",")[0]
            return self.lender_waits_for_its_own(lender, work)
        first = [
            other
            for other, it in self.waiting.items()
            if self.works[other]["class"] == work["class"]
            and it["ahead"] is not None
            and it["ahead"] < entry["ahead"]
            and {"capacity", "fragmentation", "starting"} & {it["cause"], *it["also"]}
        ]
        assert first, f"{name} would fit and nobody ahead lacks room"
        return None

    def lender_waits_for_its_own(self, lender: str, work: Doc) -> None:
        asks, told = self.works[lender], self.waiting[lender]
        tree = self.tree(asks["class"], self.after)
        assert "quota" in (told["cause"], *told["also"]), f"{lender} has its quota"
        assert need(asks) <= tree.room(asks["queue"]), f"{lender} asks for more than its own"
        assert need(work) > tree.room(work["queue"]), f"{work['name']} does not borrow"

    def positions_are_an_order(self) -> None:
        places: dict[str, dict[int, int]] = {}
        for name, entry in self.waiting.items():
            if entry["ahead"] is None:
                assert "never" in entry["message"], entry
                assert entry["estimatedStart"] is None
            else:
                assert "never" not in entry["message"], entry
                of_class = places.setdefault(self.works[name]["class"], {})
                assert entry["ahead"] not in of_class
                of_class[entry["ahead"]] = self.works[name].get("priority", 0)
        for of_class in places.values():
            assert sorted(of_class) == list(range(len(of_class)))
            ranked = [of_class[place] for place in sorted(of_class)]
            assert ranked == sorted(ranked, reverse=True)

    def usage_sums(self) -> None:
        used: Counter[tuple[str, str]] = Counter()
        for name, on in self.after.items():
            work = self.works[name]
            used[work["queue"], work["class"]] += per_worker(work) * len(on)
        told = {
            (queue, gpu_class): milli(use["used"])
            for queue, classes in self.answer["usage"].items()
            for gpu_class, use in classes.items()
        }
        assert {key: amount for key, amount in told.items() if amount} == {
            key: amount for key, amount in used.items() if amount
        }
        for gpu_class in {work["class"] for work in self.works.values()}:
            borrowed = sum(
                milli(classes[gpu_class]["borrowed"])
                for classes in self.answer["usage"].values()
                if gpu_class in classes
            )
            tree = self.tree(gpu_class, self.after)
            assert borrowed == sum(map(tree.beyond, tree.children(""))), f"{gpu_class}: {borrowed} borrowed"
