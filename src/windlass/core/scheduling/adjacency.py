"""Which GPUs of a node one worker gets: linked ones where it needs several, and never more holes than needed.

A node may say which of its GPUs are linked, in the label `nvlink`: groups of indices, as in `0-3,4-7`.
Where it says nothing, neighbours by index are taken to be linked.
"""

from __future__ import annotations

from functools import lru_cache

from windlass.core.scheduling.gpus import Need, after, spot
from windlass.core.scheduling.model import Node
from windlass.core.units import GPU

LABEL = "nvlink"
Groups = tuple[tuple[int, ...], ...]


def pick(codes: list[int], need: Need, groups: Groups) -> tuple[int, ...]:
    """The GPUs for one worker whose need fits; `codes` becomes what is left of them."""
    count = len(need.parts)
    if need.parts and need.parts[0] >= GPU and need.parts[-1] >= GPU:
        chosen = _linked(codes, count, groups)
        for gpu in chosen:
            codes[gpu] = 0
        return chosen
    gpus: list[int] = []
    for part in need.parts:
        found = spot(codes, part, need)
        assert found is not None, "only what fits is picked"
        gpu = _linked(codes, 1, groups)[0] if codes[found] == GPU else found
        codes[gpu] = after(codes[gpu], part, need)
        gpus.append(gpu)
    return tuple(gpus)


def together(codes: list[int], need: Need, groups: Groups) -> bool:
    """Whether all GPUs one worker would get are linked with each other."""
    count = len(need.parts)
    if count < 2 or need.parts[0] < GPU:
        return True
    return any(len(free) >= count for free in _free_groups(codes, groups))


def _linked(codes: list[int], count: int, groups: Groups) -> tuple[int, ...]:
    """Free GPUs of the smallest group that has enough of them; else of as few groups as possible."""
    free = sorted(_free_groups(codes, groups), key=lambda group: (len(group), group))
    for group in free:
        if len(group) >= count:
            return group[:count]
    chosen: list[int] = []
    for group in reversed(free):
        chosen.extend(group[: count - len(chosen)])
    return tuple(sorted(chosen))


def _free_groups(codes: list[int], groups: Groups) -> list[tuple[int, ...]]:
    if groups:
        free = [tuple(gpu for gpu in group if codes[gpu] == GPU) for group in groups]
        return [group for group in free if group]
    runs: list[list[int]] = []
    for gpu, code in enumerate(codes):
        if code != GPU:
            continue
        if runs and runs[-1][-1] == gpu - 1:
            runs[-1].append(gpu)
        else:
            runs.append([gpu])
    return [tuple(run) for run in runs]


def groups_of(node: Node) -> Groups:
    """As the node says; empty where it does not, or not in a way that can be read."""
    text = node.labels.get(LABEL)
    return _parse(text, node.gpus) if text else ()


@lru_cache(maxsize=4096)
def _parse(text: str, gpus: int) -> Groups:
    """GPUs that no group names are each alone."""
    groups: list[tuple[int, ...]] = []
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()):
            return ()
        low, high = int(first), int(last) if dash else int(first)
        groups.append(tuple(range(low, min(high + 1, gpus))))
    named = [gpu for group in groups for gpu in group]
    if len(named) != len(set(named)):
        return ()
    alone = [(gpu,) for gpu in range(gpus) if gpu not in set(named)]
    return tuple(group for group in (*groups, *alone) if group)
