"""A workload's life: the table of what an observation means, and the laws no order of them can break."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.contracts.agent import Observation, WorkerObservation
from windlass.core.compiler.local import Manifest
from windlass.core.documents.scalars import Workload
from windlass.core.lifecycle import FINAL, HOLDING, Life, Phase, Step, StopReason, cancelled, lost, observed

State = Literal["starting", "running", "exited", "lost"]


def worker(
    state: State, code: int | None = None, detail: str = "", index: int = 0, at: int = 5
) -> WorkerObservation:
    over = state in ("exited", "lost")
    return WorkerObservation(
        index=index, state=state, exit_code=code, detail=detail, started_ms=1, ended_ms=at if over else None
    )


def seen(*workers: WorkerObservation, gone: bool = False, attempt: int = 1, failure: str = "") -> Observation:
    return Observation(
        workload="wl",
        attempt=attempt,
        workers=workers,
        gone=gone,
        failure=failure,
        remedy="mend it" if failure else "",
    )


def life(
    phase: Phase = "Running",
    stop: StopReason = "",
    *,
    failures: int = 0,
    retries: int = 0,
    kind: Workload = "job",
) -> Life:
    return Life(phase, 1, failures, stop, Manifest(kind, "image", 1000, retries=retries))


OK = worker("exited", 0)
BAD = worker("exited", 3)
LATE = worker("exited", 143, "time-limit")
LATE_BUT_POLITE = worker("exited", 0, "time-limit")
STOPPED = worker("exited", 143, "cancelled")
NEVER = worker("exited", None, "cancelled")
LOST = worker("lost", None, "lost")

TABLE: list[tuple[str, Life, Observation, list[Phase]]] = [
    ("nothing is there yet", life("Admitted"), seen(), []),
    ("it starts", life("Admitted"), seen(worker("starting")), ["Starting"]),
    ("it runs", life("Starting"), seen(worker("running")), ["Running"]),
    ("it runs at once", life("Admitted"), seen(worker("running")), ["Starting", "Running"]),
    ("it runs on", life(), seen(worker("running")), []),
    ("half a gang runs", life("Starting"), seen(worker("running"), worker("starting", index=1)), []),
    ("one of a gang is done already", life("Starting"), seen(OK, worker("running", index=1)), ["Running"]),
    ("it restarts in place", life(kind="service"), seen(worker("starting")), []),
    ("it ended well", life(), seen(OK, gone=True), ["Succeeded"]),
    ("it ended before it was seen", life("Admitted"), seen(OK, gone=True), ["Succeeded"]),
    ("ended but not gone", life(), seen(OK), []),
    ("it failed", life(), seen(BAD, gone=True), ["Failed"]),
    ("it failed, and may try again", life(retries=1), seen(BAD, gone=True), ["Pending"]),
    ("it failed once too often", life(retries=1, failures=1), seen(BAD, gone=True), ["Failed"]),
    ("it ran into its limit", life(retries=9), seen(LATE, gone=True), ["Failed"]),
    ("it ended politely at its limit", life(), seen(LATE_BUT_POLITE, gone=True), ["Failed"]),
    ("its supervisor died", life(retries=1), seen(LOST, gone=True), ["Pending"]),
    ("its author quit a notebook", life(kind="interactive"), seen(OK, gone=True), ["Succeeded"]),
    ("a notebook broke", life(kind="interactive"), seen(BAD, gone=True), ["Failed"]),
    ("a service ended by itself", life(kind="service"), seen(OK, gone=True), ["Failed"]),
    ("nothing is left and nobody knows why", life(), seen(gone=True), ["Failed"]),
    (
        "it could not be started",
        life("Admitted", retries=9),
        seen(gone=True, failure="no command"),
        ["Failed"],
    ),
    ("it cannot be started, but is not gone", life("Admitted"), seen(failure="no command"), []),
    ("cancelled, and stopped", life(stop="cancelled"), seen(STOPPED, gone=True), ["Cancelled"]),
    ("cancelled before it started", life("Admitted", "cancelled"), seen(gone=True), ["Cancelled"]),
    ("cancelled, never started", life("Admitted", "cancelled"), seen(NEVER, gone=True), ["Cancelled"]),
    ("cancelled, but done first", life(stop="cancelled"), seen(OK, gone=True), ["Succeeded"]),
    ("cancelled a service", life(stop="cancelled", kind="service"), seen(OK, gone=True), ["Cancelled"]),
    ("cancelled, still there", life(stop="cancelled"), seen(worker("running")), []),
    ("cancelled, with retries", life(stop="cancelled", retries=9), seen(STOPPED, gone=True), ["Cancelled"]),
    ("preempted", life(stop="preempted"), seen(STOPPED, gone=True), ["Preempted", "Pending"]),
    ("preempted before it started", life("Admitted", "preempted"), seen(gone=True), ["Preempted", "Pending"]),
    ("preempted, but done first", life(stop="preempted"), seen(OK, gone=True), ["Succeeded"]),
    ("another attempt's end", life(), seen(OK, gone=True, attempt=2), []),
    ("an older attempt's end", life("Pending"), seen(BAD, gone=True), []),
    ("an end after the end", life("Cancelled"), seen(OK, gone=True), []),
]


@pytest.mark.parametrize(
    ("before", "told", "phases"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE]
)
def test_what_an_observation_makes_of_a_workload(
    before: Life, told: Observation, phases: list[Phase]
) -> None:
    step = observed(before, told)
    assert [phase for phase, _ in step.phases] == phases if step is not None else phases == []
    if step is not None:
        assert step.release == told.gone, "GPUs are free exactly when nothing is left on the site"
        assert all(message for _, message in step.phases)


def test_the_failure_that_came_first_is_the_one_that_is_told() -> None:
    stopped = worker("exited", 143, "peer-failed", index=0, at=1)
    late = worker("exited", 9, index=2, at=7)
    first = worker("exited", 4, index=1, at=6)
    step = observed(life(), seen(stopped, late, first, gone=True))
    assert step is not None and (step.exit_code, step.phase) == (4, "Failed")
    assert "worker 1" in step.message


def test_a_preemption_costs_no_retry() -> None:
    step = observed(life(stop="preempted", failures=1, retries=3), seen(STOPPED, gone=True))
    assert step is not None and step.failures == 1


@pytest.mark.parametrize("phase", ["Pending", "Admitted", "Starting", "Running", *sorted(FINAL)])
def test_cancelling_ends_what_waits_stops_what_holds_and_leaves_what_is_over(phase: Phase) -> None:
    step = cancelled(life(phase))
    if phase in FINAL:
        assert step is None
    elif phase in HOLDING:
        assert step is not None and step.phases == () and not step.release
    else:
        assert step is not None and step.phase == "Cancelled"


@pytest.mark.parametrize(
    ("before", "phases"),
    [
        (life(), ["Failed"]),
        (life("Admitted"), ["Failed"]),
        (life(kind="interactive"), ["Failed"]),
        (life(kind="service"), ["Pending"]),
        (life(retries=1), ["Pending"]),
        (life(retries=1, failures=1), ["Pending"]),
        (life("Admitted", retries=1), ["Pending"]),
        (life(stop="cancelled", retries=1), ["Cancelled"]),
        (life(stop="cancelled", kind="service"), ["Cancelled"]),
        (life(stop="preempted"), ["Preempted", "Pending"]),
        (life("Pending"), []),
        (life("Failed", retries=1), []),
    ],
)
def test_what_a_lost_site_makes_of_a_workload(before: Life, phases: list[Phase]) -> None:
    step = lost(before, "fra1")
    assert [phase for phase, _ in step.phases] == phases if step is not None else phases == []
    if step is not None:
        assert step.release and step.failures == before.failures, "the platform's loss costs no retry"
        assert "its site fra1 was lost" in step.phases[0][1]
        assert step.phase == "Pending" or "windlass rerun" in step.remedy


# --- laws over sequences ----------------------------------------------------------------------

workers = st.builds(
    worker,
    st.sampled_from(["starting", "running", "exited", "lost"]),
    st.sampled_from([None, 0, 1, 143]),
    st.sampled_from(["", "cancelled", "peer-failed", "time-limit", "lost"]),
    st.integers(0, 2),
)
observations = st.builds(
    lambda found, gone, attempt, failure: seen(*found, gone=gone, attempt=attempt, failure=failure),
    st.lists(workers, max_size=3),
    st.booleans(),
    st.integers(1, 4),
    st.sampled_from(["", "", "", "no command"]),
)
happenings = st.lists(
    st.one_of(observations, st.sampled_from(["cancel", "admit", "preempt", "lose"])), min_size=1, max_size=30
)


@dataclass
class Run:
    """A workload as the control plane keeps it, without a database."""

    retries: int
    kind: Workload
    phase: Phase = "Pending"
    attempt: int = 0
    failures: int = 0
    stop: StopReason = ""
    held: list[int] = field(default_factory=list)
    released: list[int] = field(default_factory=list)

    @property
    def life(self) -> Life:
        manifest = Manifest(self.kind, "image", 1000, retries=self.retries)
        return Life(self.phase, self.attempt, self.failures, self.stop, manifest)

    def happen(self, what: Observation | str) -> None:
        step: Step | None = None
        if what == "admit" and self.phase == "Pending":
            self.attempt += 1
            self.held.append(self.attempt)
            self.phase = "Admitted"
        elif what == "preempt" and self.phase in HOLDING and not self.stop:
            self.stop = "preempted"
        elif what == "cancel":
            step = cancelled(self.life)
            if step is not None and not step.phases:
                self.stop = "cancelled"
        elif what == "lose":
            step = lost(self.life, "fra1")
        elif isinstance(what, Observation):
            step = observed(self.life, what)
        if step is not None:
            self.apply(step)

    def apply(self, step: Step) -> None:
        self.failures = step.failures
        if step.release:
            self.released.append(self.attempt)
        if step.phase is not None:
            self.phase = step.phase
        if step.phase == "Pending":
            self.stop = ""


@given(happenings, st.integers(0, 2), st.sampled_from(["job", "service"]))
def test_final_is_final_and_gpus_are_given_back_exactly_once(
    happened: list[Observation | str], retries: int, kind: Workload
) -> None:
    run = Run(retries, kind)
    ended: Phase | None = None
    for what in happened:
        before = (run.phase, run.failures, list(run.released))
        run.happen(what)
        if ended is not None:
            assert (run.phase, run.failures, run.released) == before, "something moved after the end"
        if run.phase in FINAL:
            ended = run.phase
        held_now = set(run.held) - set(run.released)
        assert len(run.released) == len(set(run.released)), "released twice"
        assert held_now == ({run.attempt} if run.phase in HOLDING else set())
        assert run.failures <= retries + 1
        assert run.phase != "Preempted", "it goes on to Pending in the same step"


@given(happenings, st.integers(0, 2))
def test_only_observations_of_the_present_attempt_count(
    happened: list[Observation | str], retries: int
) -> None:
    everything, relevant = Run(retries, "job"), Run(retries, "job")
    for what in happened:
        stale = isinstance(what, Observation) and what.attempt != everything.attempt
        everything.happen(what)
        if not stale:
            relevant.happen(what)
    assert everything == relevant


@given(happenings, st.integers(0, 2))
def test_every_observation_may_be_told_twice(happened: list[Observation | str], retries: int) -> None:
    once, twice = Run(retries, "job"), Run(retries, "job")
    for what in happened:
        once.happen(what)
        twice.happen(what)
        if isinstance(what, Observation):
            twice.happen(what)
    assert once == twice


@given(happenings)
def test_what_is_cancelled_before_its_end_ends_cancelled(happened: list[Observation | str]) -> None:
    run = Run(2, "job")
    for what in happened:
        run.happen(what)
    if run.phase in FINAL:
        return
    run.happen("cancel")
    run.happen(seen(STOPPED, gone=True, attempt=run.attempt))
    assert run.phase == "Cancelled"
