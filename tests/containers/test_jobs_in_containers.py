"""Jobs in real containers: what they see, how they end, and that nothing of them stays."""

from __future__ import annotations

import signal
import urllib.request

from tests.containers.engine import MARK, Podman
from tests.containers.site import UNTIL_TOLD, ContainerWorld
from tests.site.worlds import assignment, eventually

from windlass.site.orchestrators.local.processes import send_signal

STUBBORN = ("sh", "-c", "trap '' TERM; echo up; while :; do sleep 1; done")
POLITE = ("sh", "-c", "trap 'echo leaving; exit 9' TERM; echo up; while :; do sleep 0.1; done")


def test_a_job_sees_the_image_its_variables_and_its_rank_and_not_the_machine(world: ContainerWorld) -> None:
    script = (
        'cat /etc/mark; echo $RANK of $WORLD_SIZE on $CUDA_VISIBLE_DEVICES; echo "$NOTE"; ls /root; exit 4'
    )
    note = "two\nlines, $HOME and 'quotes'"
    world.ensure(assignment("wl_1", "sh", "-c", script, gpus=(2, 3), variables={"NOTE": note}))
    assert world.gone().exit_code == 4
    said = world.log().decode()
    assert said.startswith(f"{MARK}0 of 1 on 2,3\n{note}\n")


def test_a_job_has_no_rights_over_the_machine(world: ContainerWorld) -> None:
    world.ensure(assignment("wl_1", "cat", "/proc/self/status"))
    assert world.gone().exit_code == 0
    said = dict(line.split(":\t", 1) for line in world.log().decode().splitlines() if ":\t" in line)
    assert int(said["CapEff"], 16) == int(said["CapBnd"], 16) == 0
    assert said["NoNewPrivs"] == "1"


def test_a_job_that_heeds_the_signal_leaves_by_itself(world: ContainerWorld) -> None:
    world.ensure(assignment("wl_1", *POLITE))
    world.when_logged(b"up\n")
    world.stop()
    seen = world.gone()
    assert seen.detail == "cancelled"
    assert b"leaving\n" in world.log()


def test_a_job_that_ignores_the_signal_is_killed_after_its_grace(
    world: ContainerWorld, podman: Podman
) -> None:
    world.ensure(assignment("wl_1", *STUBBORN, grace_ms=300))
    world.when_logged(b"up\n")
    world.stop()
    assert world.gone().detail == "cancelled"
    assert podman.containers() == []


def test_a_job_ends_at_its_time_limit(world: ContainerWorld, podman: Podman) -> None:
    world.ensure(assignment("wl_1", *STUBBORN, grace_ms=300, time_limit_ms=1_500))
    assert world.gone().detail == "time-limit"
    assert podman.containers() == []


def test_a_container_whose_supervisor_was_killed_is_removed(world: ContainerWorld, podman: Podman) -> None:
    world.ensure(assignment("wl_1", *UNTIL_TOLD))
    world.when_logged(b"up\n")
    state = world.running()
    send_signal(state.supervisor_pid, state.supervisor_start, signal.SIGKILL)
    assert world.gone().workers[0].state == "lost"
    assert podman.containers() == []


def test_a_service_in_a_container_answers_on_its_port_and_is_restarted(
    world: ContainerWorld, podman: Podman
) -> None:
    serve = ("sh", "-c", "cd /etc; exec httpd -f -p $HOST:$PORT")
    world.ensure(assignment("wl_1", *serve, kind="service", port=8000))
    port = world.when(lambda seen: seen.workers[0].port).workers[0].port

    def answers() -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/mark", timeout=5) as answer:
                return bool(answer.read().decode() == MARK)
        except OSError:
            return False

    eventually(answers, what="an answer")
    podman.call("kill", podman.containers()[0])
    world.when(lambda seen: seen.workers[0].restarts == 1)
    eventually(answers, what="an answer of the next one")
    world.stop()
    world.gone()
