"""Who holds which GPU, as files anybody can list: gpus/<node>/<index>/<holder> says how much.

Nothing here decides who may have what; the scheduler did. This is the world it decided about, and
it refuses to be oversubscribed: a holder that would pass a whole GPU is an error said out loud.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from windlass.contracts.agent import Assignment
from windlass.core.units import GPU, format_gpus
from windlass.site.orchestrators.local.folders import AttemptKey, read_if_there


class DoubleHeld(Exception):
    """Others already hold what was assigned: so much each, `over` more in all than there is."""

    def __init__(self, message: str, over: int, others: Mapping[AttemptKey, int]) -> None:
        super().__init__(message)
        self.over = over
        self.others = others


class Holdings:
    """The caller holds the site's lock."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def take(self, assignment: Assignment) -> None:
        """All GPUs of the attempt or none of them. What it holds already it may take again."""
        try:
            for node, index, holder, shares in _wanted(assignment):
                gpu = self._root / node / str(index)
                if not (gpu / holder).exists():
                    self._check(gpu, holder, shares * assignment.gpu_milli)
                    self._write(gpu / holder, shares * assignment.gpu_milli)
        except (DoubleHeld, OSError):
            self.release(AttemptKey(assignment.workload, assignment.attempt))
            raise

    def release(self, key: AttemptKey) -> None:
        for path in self._root.glob(f"*/*/{key.workload}.{key.attempt}.*"):
            path.unlink(missing_ok=True)

    def release_all_but(self, keys: Iterable[AttemptKey]) -> None:
        """After a crash: what is held by attempts that are not on the site."""
        known = set(keys)
        for path in self._root.glob("*/*/*"):
            key = _attempt(path.name)
            if key is not None and key not in known:
                path.unlink(missing_ok=True)

    def held(self) -> dict[tuple[str, int], dict[str, int]]:
        """(node, index) -> holder -> thousandths."""
        world: dict[tuple[str, int], dict[str, int]] = {}
        for path in sorted(self._root.glob("*/*/*")):
            data = read_if_there(path)
            if data is not None:
                world.setdefault((path.parts[-3], int(path.parts[-2])), {})[path.name] = int(data)
        return world

    def _check(self, gpu: Path, holder: str, milli: int) -> None:
        others = {path.name: int(path.read_text()) for path in gpu.glob("*")}
        held = sum(others.values())
        if held + milli > GPU:
            who = ", ".join(f"{name} ({format_gpus(amount)})" for name, amount in sorted(others.items()))
            raise DoubleHeld(
                f"GPU {gpu.name} of {gpu.parent.name} cannot give {format_gpus(milli)} to {holder}: "
                f"{format_gpus(held)} of it is held by {who or 'nobody'}",
                held + milli - GPU,
                _by_attempt(others),
            )

    def _write(self, path: Path, milli: int) -> None:
        """Linked into place with its content, and only if nobody of that name is there."""
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        draft = self._root / "draft"
        draft.unlink(missing_ok=True)  # after a crash it is still the file of the holder it was made for
        draft.write_text(str(milli))
        try:
            path.hardlink_to(draft)
        finally:
            draft.unlink()


def _attempt(holder: str) -> AttemptKey | None:
    match holder.split("."):
        case [workload, attempt, _] if attempt.isdecimal():
            return AttemptKey(workload, int(attempt))
    return None


def _by_attempt(holders: Mapping[str, int]) -> Mapping[AttemptKey, int]:
    held: Counter[AttemptKey] = Counter()
    for holder, milli in holders.items():
        if (key := _attempt(holder)) is not None:
            held[key] += milli
    return held


def _wanted(assignment: Assignment) -> Iterator[tuple[str, int, str, int]]:
    """Node, GPU, holder and how many shares of it: a worker may have several of one GPU."""
    for worker in assignment.workers:
        holder = f"{assignment.workload}.{assignment.attempt}.{worker.index}"
        for index, shares in Counter(worker.gpus).items():
            yield worker.node, index, holder, shares
