"""The laws of convergence, for any desired state and any site."""

from __future__ import annotations

from typing import Any, Literal

from hypothesis import given
from hypothesis import strategies as st
from tests.site.worlds import assignment

from windlass.contracts.agent import Assignment, Desired, Observation, WorkerObservation
from windlass.site.agent.diff import Action, Ensure, Forget, Stop, diff, key_of, to_report

Site = dict[tuple[str, int], Observation]

WORKLOADS = st.sampled_from(["wl_a", "wl_b", "wl_c"])
ATTEMPTS = st.integers(1, 3)


def observation(
    workload: str, attempt: int, *, workers: int = 2, gone: bool = False, **facts: Any
) -> Observation:
    state: Literal["running", "exited"] = "exited" if gone else "running"
    return Observation(
        workload=workload,
        attempt=attempt,
        workers=tuple(WorkerObservation(index=index, state=state) for index in range(workers)),
        gone=gone,
        **facts,
    )


@st.composite
def desires(draw: st.DrawFn) -> Desired:
    """A centre wants at most one attempt of a workload to run."""
    wanted: dict[tuple[str, int], Assignment] = {}
    for workload in draw(st.sets(WORKLOADS)):
        running = draw(ATTEMPTS)
        for attempt in draw(st.sets(ATTEMPTS)):
            want = "run" if attempt == running and draw(st.booleans()) else "stop"
            wanted[workload, attempt] = assignment(workload, "x", attempt=attempt, workers=2, want=want)
    return Desired(generation=1, assignments=tuple(wanted.values()))


@st.composite
def sites(draw: st.DrawFn) -> Site:
    keys = draw(st.sets(st.tuples(WORKLOADS, ATTEMPTS)))
    return {
        key: observation(*key, workers=draw(st.integers(0, 2)), gone=False)
        if draw(st.booleans())
        else observation(*key, gone=True)
        for key in keys
    }


def apply(actions: tuple[Action, ...], site: Site) -> Site:
    """An orchestrator that does at once what it is told."""
    after = dict(site)
    for action in actions:
        match action:
            case Ensure(wanted):
                after[key_of(wanted)] = observation(*key_of(wanted))
            case Stop(workload, attempt):
                after[workload, attempt] = observation(workload, attempt, gone=True)
            case Forget(workload, attempt):
                del after[workload, attempt]
    return after


def converge(desired: Desired, site: Site) -> tuple[Site, int]:
    rounds = 0
    while actions := diff(desired, tuple(site.values())):
        site = apply(actions, site)
        rounds += 1
        assert rounds <= 4
    return site, rounds


@given(desires(), sites())
def test_carrying_the_actions_out_converges_and_a_converged_site_needs_none(
    desired: Desired, site: Site
) -> None:
    after, _ = converge(desired, site)
    assert diff(desired, tuple(after.values())) == ()
    for wanted in desired.assignments:
        seen = after.get(key_of(wanted))
        if wanted.want == "run":
            assert seen is not None
            assert seen.gone or len(seen.workers) == 2
        else:
            assert seen is None or seen.gone
    assert set(after) <= {key_of(wanted) for wanted in desired.assignments}


@given(desires(), sites())
def test_two_attempts_of_a_workload_are_never_started_side_by_side(desired: Desired, site: Site) -> None:
    live = {key for key, seen in site.items() if not seen.gone}
    for action in diff(desired, tuple(site.values())):
        if isinstance(action, Ensure):
            assert not {key for key in live if key[0] == action.assignment.workload} - {
                key_of(action.assignment)
            }


@given(desires(), sites())
def test_what_is_wanted_is_neither_stopped_nor_forgotten_and_what_ended_is_not_started(
    desired: Desired, site: Site
) -> None:
    running = {key_of(wanted) for wanted in desired.assignments if wanted.want == "run"}
    listed = {key_of(wanted) for wanted in desired.assignments}
    for action in diff(desired, tuple(site.values())):
        match action:
            case Stop(workload, attempt):
                assert (workload, attempt) not in running
            case Forget(workload, attempt):
                assert (workload, attempt) not in listed
                assert site[workload, attempt].gone
            case Ensure(wanted):
                assert key_of(wanted) not in site or not site[key_of(wanted)].gone


@given(desires(), sites())
def test_the_order_in_which_things_are_listed_does_not_matter(desired: Desired, site: Site) -> None:
    backwards = Desired(generation=1, assignments=desired.assignments[::-1])
    assert diff(backwards, tuple(site.values())[::-1]) == diff(desired, tuple(site.values()))


@given(desires(), sites())
def test_everything_that_shall_be_stopped_is_accounted_for(desired: Desired, site: Site) -> None:
    told = {key_of(one): one for one in to_report(desired, tuple(site.values()))}
    assert all(told[key] == seen for key, seen in site.items())
    for wanted in desired.assignments:
        if wanted.want == "stop" and key_of(wanted) not in site:
            assert told[key_of(wanted)].gone


def test_an_attempt_cut_off_while_it_was_started_is_completed() -> None:
    wanted = assignment("wl_a", "x", workers=2)
    half = observation("wl_a", 1, workers=1)
    assert diff(Desired(generation=1, assignments=(wanted,)), (half,)) == (Ensure(wanted),)


def test_what_another_database_placed_under_a_wanted_number_ends_before_the_wanted_begins() -> None:
    wanted = assignment("wl_a", "x", placed_ms=2_000)
    desired = Desired(generation=1, assignments=(wanted,))
    other = observation("wl_a", 1, workers=1, placed_ms=1_000)
    assert diff(desired, (other,)) == (Stop("wl_a", 1),)
    ended = observation("wl_a", 1, workers=1, gone=True, placed_ms=1_000)
    assert diff(desired, (ended,)) == (Ensure(wanted),)
    own = observation("wl_a", 1, workers=1, placed_ms=2_000)
    assert diff(desired, (own,)) == ()
    unsaid = observation("wl_a", 1, workers=1)
    assert diff(desired, (unsaid,)) == (), "a site of before the upgrade does not say"


def test_the_end_of_another_placement_is_not_reported_as_that_of_the_one_to_stop() -> None:
    stop = assignment("wl_a", "x", want="stop", placed_ms=2_000)
    desired = Desired(generation=1, assignments=(stop,))
    ended = observation("wl_a", 1, gone=True, placed_ms=1_000)
    assert diff(desired, (ended,)) == (Forget("wl_a", 1),)
    told = to_report(desired, (ended,))
    assert [(one.placed_ms, one.gone) for one in told] == [(1_000, True), (2_000, True)]
