"""The GPUs of one node as a state, and what a worker's need makes of it.

Placement asks the same of the same few states again and again: what is left of a node's GPUs once a worker
has its parts. So a node's GPUs, in order of what is left of them, are one shared `GpuState`, and where each
need leads from it is worked out once and remembered. A need that does not fit leads nowhere.

One GPU is one number: what is left of it in thousandths if it is whole or shared by time; an offset marks
GPUs shared in another way, which nobody else may join. A GPU cut by MIG is the slices in use.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from windlass.core.scheduling.mig import Profile, profile_of, put
from windlass.core.scheduling.model import Shape, SharingMode
from windlass.core.units import GPU

_OFFSETS: dict[SharingMode, int] = {"time-slice": 0, "dedicated": 2 * GPU, "mig": 4 * GPU}
_MIG_CUT = 8 * GPU  # plus the slices in use
_LANES: tuple[SharingMode, ...] = ("time-slice", "dedicated", "mig")
CUT_LANE = len(_LANES)


@dataclass(frozen=True, slots=True)
class Need:
    """The pieces of GPU one worker takes, each on one GPU, and how that GPU is shared. `profile` is the
    geometry of each piece where it is a MIG instance of a known kind."""

    parts: tuple[int, ...]
    sharing: SharingMode
    profile: Profile | None = None

    @property
    def amount(self) -> int:
        return sum(self.parts)

    @property
    def lane(self) -> int:
        """Among `Lanes.shared`."""
        return CUT_LANE if self.profile is not None else _LANES.index(self.sharing)


def parts_of(shape: Shape) -> tuple[int, ...]:
    """The pieces of GPU one worker needs, each on one GPU: whole ones, or shares of `unit`."""
    unit = max(1, min(shape.unit, GPU))
    count, rest = divmod(shape.gpus, unit)
    return (unit,) * count + ((rest,) if rest else ())


@lru_cache(maxsize=65_536)
def need_of(shape: Shape) -> Need:
    known = shape.sharing == "mig" and shape.mig_profile is not None
    profile = profile_of(shape.mig_profile or "", shape.gpu_class) if known else None
    return Need(parts_of(shape), shape.sharing, profile)


def code_of(left: int, mode: SharingMode | None, slices: int) -> int:
    """One GPU as a number. Nobody shares a GPU that is free, or used up."""
    if left <= 0 or left == GPU:
        return max(0, left)
    if slices:
        return _MIG_CUT + slices
    return left + _OFFSETS[mode or "dedicated"]


def spot(codes: list[int], part: int, need: Need) -> int | None:
    """Which GPU gets a part: the tightest that is shared in the same way, else a free one."""
    if part >= GPU:
        return _first(codes, GPU)
    found: int | None = None
    if need.profile is not None:
        for at, code in enumerate(codes):
            if code > _MIG_CUT and put(code - _MIG_CUT, need.profile) is not None:
                used = (code - _MIG_CUT).bit_count()
                if found is None or used > (codes[found] - _MIG_CUT).bit_count():
                    found = at
    else:
        low = _OFFSETS[need.sharing]
        for at, code in enumerate(codes):
            if low + part <= code < low + GPU and (found is None or code < codes[found]):
                found = at
    return _first(codes, GPU) if found is None else found


def after(code: int, part: int, need: Need) -> int:
    """What a GPU becomes when it gets a part that fits."""
    if part >= GPU:
        return 0
    if need.profile is not None:
        used = code - _MIG_CUT if code > _MIG_CUT else 0
        return _MIG_CUT + used + (put(used, need.profile) or 0)
    left = (code if code == GPU else code - _OFFSETS[need.sharing]) - part
    return left + _OFFSETS[need.sharing] if left else 0


def _first(codes: list[int], wanted: int) -> int | None:
    return codes.index(wanted) if wanted in codes else None


class GpuState(dict[int, "GpuState | None"]):
    """By the number of a need: the state after it, or None where it does not fit."""

    __slots__ = ("codes", "free", "number", "table")

    def __init__(self, table: GpuStates, codes: tuple[int, ...], number: int) -> None:
        super().__init__()
        self.table = table
        self.codes = codes
        self.number = number
        self.free = sum(_left(code) for code in codes)

    def __missing__(self, need: int) -> GpuState | None:
        codes = list(self.codes)
        wanted = self.table.needs[need]
        for part in wanted.parts:
            at = spot(codes, part, wanted)
            if at is None:
                self[need] = None
                return None
            codes[at] = after(codes[at], part, wanted)
        found = self[need] = self.table.state(codes)
        return found


class GpuStates:
    """Every state and need met so far, each once."""

    def __init__(self) -> None:
        self.needs: list[Need] = []
        self._numbers: dict[Need, int] = {}
        self._states: dict[tuple[int, ...], GpuState] = {}
        self._wholly: dict[tuple[int, int], GpuState] = {}

    def number(self, need: Need) -> int:
        known = self._numbers.get(need)
        if known is None:
            known = self._numbers[need] = len(self.needs)
            self.needs.append(need)
        return known

    def state(self, codes: Iterable[int]) -> GpuState:
        key = tuple(sorted(codes))
        known = self._states.get(key)
        if known is None:
            known = self._states[key] = GpuState(self, key, len(self._states))
        return known

    def wholly(self, gpus: int, free: int) -> GpuState:
        """So many GPUs, of which some are free and the others in use."""
        known = self._wholly.get((gpus, free))
        if known is None:
            known = self._wholly[gpus, free] = self.state((0,) * (gpus - free) + (GPU,) * free)
        return known

    def __len__(self) -> int:
        return len(self._states)


def _left(code: int) -> int:
    """Thousandths; of a GPU that is cut, by its compute slices."""
    if code <= GPU:
        return code
    if code > _MIG_CUT:
        return max(0, 7 - ((code - _MIG_CUT) >> 9)) * GPU // 7
    return code % (2 * GPU)


@dataclass(frozen=True, slots=True)
class Lanes:
    """The same GPUs sorted apart: how many are free, and for each way of sharing what is left of those in
    use, rising (of those cut by MIG, the slices in use). Without remembering, this is quicker to follow."""

    whole: int
    shared: tuple[tuple[int, ...], ...]


def lanes_of(codes: Iterable[int]) -> Lanes:
    whole = 0
    shared: list[list[int]] = [[] for _ in (*_LANES, CUT_LANE)]
    for code in codes:
        if code == GPU:
            whole += 1
        elif code > _MIG_CUT:
            shared[CUT_LANE].append(code - _MIG_CUT)
        elif code:
            shared[code // (2 * GPU)].append(code % (2 * GPU))
    return Lanes(whole, tuple(tuple(sorted(lane)) for lane in shared))


def take_parts(lanes: list[list[int]], whole: int, need: Need) -> int | None:
    """Take every part of a need from shared GPUs, or from free ones; how many are free then. None: it does
    not fit, and nothing was taken."""
    lane = need.lane
    shared = sorted(lanes[lane])
    for part in need.parts:
        codes = [code + _MIG_CUT if lane == CUT_LANE else code + _OFFSETS[need.sharing] for code in shared]
        at = spot(codes, part, need)
        if at is None and not whole:
            return None
        if at is None:
            whole -= 1
            code = after(GPU, part, need)
        else:
            del shared[at]
            code = after(codes[at], part, need)
        if code:
            shared.append(code - _MIG_CUT if lane == CUT_LANE else code % (2 * GPU))
            shared.sort()
    lanes[lane] = shared
    return whole
