"""A workload's life: what an observation from its site, or a wish of its owner, turns it into.

        ┌────── preempted, failed with retries left, or lost with its site ──┐
        ▼                                                                    │
     Pending ──admit──▶ Admitted ──▶ Starting ──▶ Running ──gone──▶ Succeeded / Failed
        │                   └────────────┴───────────┴── cancel, gone ──▶ Cancelled
        └── cancel ──▶ Cancelled

Between Admitted and `gone` the workload holds its GPUs, whatever its phase says; it pays for
exactly that time, and for none of it when the site could not start it at all. The functions here are
pure: `control/sites` and `control/components` load, call one of them, and apply its `Step`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, Protocol

from windlass.core.compiler.local import Manifest
from windlass.core.units import Ms

Phase = Literal[
    "Rejected",
    "Pending",
    "Admitted",
    "Starting",
    "Running",
    "Succeeded",
    "Failed",
    "Preempted",
    "Suspended",
    "Cancelled",
]
HOLDING: frozenset[Phase] = frozenset({"Admitted", "Starting", "Running"})
FINAL: frozenset[Phase] = frozenset({"Rejected", "Succeeded", "Failed", "Cancelled"})
StopReason = Literal["", "cancelled", "preempted"]
_STOPPED = ("cancelled", "peer-failed")
"""Details of workers that were told to end; they are not why the attempt ended."""
_TIME_LIMIT = "time-limit"
"""A failure whatever the exit code is: a worker may end with 0 when it is told that its time is up."""
_RERUN = "`windlass rerun` starts it again"


class SeenWorker(Protocol):
    """What matters here of how a site sees one worker (contracts/agent.py: WorkerObservation)."""

    @property
    def index(self) -> int: ...
    @property
    def state(self) -> Literal["starting", "running", "exited", "lost"]: ...
    @property
    def exit_code(self) -> int | None: ...
    @property
    def started_ms(self) -> int | None: ...
    @property
    def ended_ms(self) -> int | None: ...
    @property
    def detail(self) -> str: ...


class Seen(Protocol):
    """What matters here of how a site sees one attempt (contracts/agent.py: Observation)."""

    @property
    def attempt(self) -> int: ...
    @property
    def workers(self) -> Sequence[SeenWorker]: ...
    @property
    def gone(self) -> bool: ...
    @property
    def failure(self) -> str: ...
    @property
    def remedy(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Life:
    """The part of a workload that its phases depend on."""

    phase: Phase
    attempt: int
    failures: int
    stop_reason: StopReason
    manifest: Manifest


@dataclass(frozen=True, slots=True)
class Step:
    """What to write. `phases` are entered in order, each with a message for its author."""

    phases: tuple[tuple[Phase, str], ...] = ()
    release: bool = False
    failures: int = 0
    exit_code: int | None = None
    message: str = ""
    remedy: str = ""
    started: Ms | None = None

    @property
    def phase(self) -> Phase | None:
        return self.phases[-1][0] if self.phases else None


def cancelled(life: Life) -> Step | None:
    """Its owner wants it gone. None: it is over already. A workload that holds GPUs is stopped by its
    site first; only one that waits ends here and now."""
    if life.phase in FINAL:
        return None
    if life.phase in HOLDING:
        return Step(failures=life.failures)
    return Step(
        phases=(("Cancelled", "cancelled while waiting"),), failures=life.failures, message="cancelled"
    )


def lost(life: Life, site: str) -> Step | None:
    """Its site was given up: nobody will ever tell what became of this attempt. None: it holds nothing there.
    What may start again (a service, a job with retries) waits again. That is no failure of its own, so it
    costs none of its retries."""
    if life.phase not in HOLDING:
        return None
    message = f"its site {site} was lost"
    if life.stop_reason == "cancelled":
        return _final("Cancelled", life, 0, f"cancelled; {message}", _RERUN, exit_code=None)
    if life.stop_reason == "preempted":
        return _gave_way(life, f"gave way; {message}")
    if life.manifest.kind == "service" or life.manifest.retries:
        again = f"{message}; tried again, which costs none of its retries"
        return Step(phases=(("Pending", again),), release=True, failures=life.failures)
    remedy = f"{_RERUN}; with spec.retries the platform does so by itself"
    return _final("Failed", life, 0, f"{message}, and what became of it is not known", remedy, exit_code=None)


def observed(life: Life, seen: Seen) -> Step | None:
    """What an observation changes; None when it changes nothing (or is of another attempt)."""
    if seen.attempt != life.attempt or life.phase not in HOLDING:
        return None
    if seen.gone:
        ended = _ended(life, seen)
        # Work can be over before anybody saw it run; that it began is known all the same.
        return replace(ended, started=_started(seen)) if ended.phase in FINAL else ended
    return None if seen.failure else _progress(life, seen)


def _started(seen: Seen) -> Ms | None:
    """When its last worker began."""
    began = max((worker.started_ms or 0 for worker in seen.workers), default=0)
    return Ms(began) if began else None


def _progress(life: Life, seen: Seen) -> Step | None:
    states = [worker.state for worker in seen.workers]
    if states and all(state in ("running", "exited") for state in states) and life.phase != "Running":
        entered: tuple[tuple[Phase, str], ...] = (("Running", "every worker runs"),)
        if life.phase == "Admitted":
            entered = (("Starting", "the site starts it"), *entered)
        return Step(phases=entered, failures=life.failures, started=_started(seen))
    if life.phase == "Admitted" and states:
        return Step(phases=(("Starting", "the site starts it"),), failures=life.failures)
    return None


def _ended(life: Life, seen: Seen) -> Step:
    """Nothing of it is left on the site: its GPUs are free, and this attempt has a result."""
    failed = _first_failure(seen)
    if seen.failure:
        return _final("Failed", life, 0, seen.failure, seen.remedy, exit_code=None)
    # A notebook that its author quits has done what it was there for; a service never has.
    may_end = life.manifest.kind != "service"
    if failed is None and seen.workers and may_end and not _was_stopped(seen):
        return _final("Succeeded", life, 0, "every worker ended with exit code 0", "", exit_code=0)
    if life.stop_reason == "cancelled":
        return _final("Cancelled", life, 0, "cancelled", _RERUN, exit_code=None)
    if life.stop_reason == "preempted":
        return _gave_way(life, "gave way")
    return _failed(life, failed)


def _gave_way(life: Life, message: str) -> Step:
    phases: tuple[tuple[Phase, str], ...] = (("Preempted", message), ("Pending", "waits again"))
    return Step(phases=phases, release=True, failures=life.failures)


def _failed(life: Life, worker: SeenWorker | None) -> Step:
    exit_code = worker.exit_code if worker else None
    if worker is None:
        message = "it ended although it should run on"
    elif worker.detail == _TIME_LIMIT:
        message = f"worker {worker.index} was still running at its time limit"
        return _final("Failed", life, 1, message, "raise spec.timeLimit, or save work in between", exit_code)
    elif worker.state == "lost":
        message = f"worker {worker.index} was lost: its supervisor died"
    else:
        message = f"worker {worker.index} ended with exit code {exit_code}"
        if worker.detail and worker.detail != "exited":
            message += f" ({worker.detail})"
    if life.failures < life.manifest.retries:
        left = life.manifest.retries - life.failures
        return Step(
            phases=(("Pending", f"{message}; tried again ({left} of {life.manifest.retries} retries left)"),),
            release=True,
            failures=life.failures + 1,
        )
    return _final("Failed", life, 1, message, "`windlass logs` shows what it said last", exit_code)


def _final(phase: Phase, life: Life, added: int, message: str, remedy: str, exit_code: int | None) -> Step:
    return Step(
        phases=((phase, message),),
        release=True,
        failures=life.failures + added,
        exit_code=exit_code,
        message=message,
        remedy=remedy,
    )


def _first_failure(seen: Seen) -> SeenWorker | None:
    """The failure that came first, not the workers stopped because of it."""
    failed = [
        worker
        for worker in seen.workers
        if worker.state == "lost" or worker.exit_code not in (0, None) or worker.detail == _TIME_LIMIT
    ]
    own = [worker for worker in failed if worker.detail not in _STOPPED]
    candidates = own or failed
    return min(candidates, key=lambda worker: (worker.ended_ms or 0, worker.index), default=None)


def _was_stopped(seen: Seen) -> bool:
    return any(worker.detail in _STOPPED for worker in seen.workers)
