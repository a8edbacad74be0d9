"""What the compiler writes for Slurm, submitted to a real one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.core.compiler.works import work
from tests.slurm.cluster import Cluster

from windlass.core.compiler.slurm import compile_slurm
from windlass.core.compiler.work import Checkpoint, Work
from windlass.core.documents.kinds import Site
from windlass.core.units import Ms

# In one line and one write, because the workers of a gang share the file.
TELL = (
    'told=$(printf "%s|" "$RANK" "$WORLD_SIZE" "$MASTER_ADDR" "$WINDLASS_WORKER" "$CUDA_VISIBLE_DEVICES" "$@"'
    ' | tr "\\n" "~"); printf "%s\\n" "$told"'
)


def telling(*said: str, **changes: Any) -> Work:
    return replace(work(**changes), command=("/bin/sh", "-c", TELL, "sh", *said))


def script(one: Work, **options: Any) -> str:
    text: str = compile_slurm(one, {"options": options}, ())["script"]
    return text


def test_a_gang_of_two_starts_on_two_nodes_with_its_ranks_and_gpus(cluster: Cluster) -> None:
    nasty = "'; exit 3 #\n$(id)"
    job = cluster.submit(script(telling(nasty, units=2)))
    assert cluster.ended(job) == "COMPLETED"
    shown = cluster.job(job)
    assert shown["JobName"] == "vision.dev.sft-run" and shown["Account"] == "acme"
    assert shown["Partition"] == "h100-80g" and shown["NumNodes"] == "2" and shown["TimeLimit"] == "04:00:00"
    assert shown["TresPerNode"] == "gres:gpu:h100-80g:2" and shown["Requeue"] == "0"
    assert "windlass.dev/tenant=acme" in shown["Comment"]
    told = cluster.output(f"slurm-{job}.out")
    assert sorted(told.splitlines()) == [
        f"{rank}|2|gpu1|{rank}|0,1|'; exit 3 #~$(id)|" for rank in ("0", "1")
    ]


def test_a_sweep_runs_every_one_of_its_runs(cluster: Cluster) -> None:
    job = cluster.submit(script(telling(units=1, workers=2), array=4))
    assert {cluster.ended(f"{job}_{n}") for n in range(4)} == {"COMPLETED"}
    assert cluster.job(f"{job}_0")["ArrayTaskThrottle"] == "2"
    told = [cluster.output(f"slurm-{job}_{n}.out") for n in range(4)]
    assert [line.split("|")[:4] for line in told] == [
        ["0", "1", line.split("|")[2], str(n)] for n, line in enumerate(told)
    ]


def test_workers_on_one_node_see_gpus_of_their_own(cluster: Cluster) -> None:
    job = cluster.submit(script(telling(units=2, nodes=("gpu2", "gpu2"))))
    assert cluster.ended(job) == "COMPLETED"
    assert cluster.job(job)["NodeList"] == "gpu2"
    lines = cluster.output(f"slurm-{job}.out").splitlines()
    assert len({line.split("|")[4] for line in lines}) == len(lines) == 2


def test_uneven_placement_holds_what_was_decided(cluster: Cluster) -> None:
    job = cluster.submit(script(telling(workers=3, units=2, nodes=("gpu1", "gpu2", "gpu1"))))
    assert cluster.ended(job) == "COMPLETED"
    shown = cluster.job(job)
    assert shown["NumTasks"] == "3" and shown["NodeList"] == "gpu[1-2]"
    gpus = [line.split("|")[4].split(",") for line in cluster.output(f"slurm-{job}.out").splitlines()]
    assert [len(held) for held in gpus] == [2, 2, 2]


def test_a_mig_slice_and_a_share_are_found_by_their_names(cluster: Cluster) -> None:
    for profile, node in (("h100-mig-1g", "gpu3"), ("l40s-quarter", "gpu4")):
        job = cluster.submit(script(telling(profile=profile, units=1, workers=1)))
        assert cluster.ended(job) == "COMPLETED", profile
        assert cluster.job(job)["NodeList"] == node


def test_nothing_of_the_agents_environment_reaches_the_work(cluster: Cluster) -> None:
    one = replace(work(workers=1, units=1), command=("env",))
    job = cluster.submit(script(one))
    assert cluster.ended(job) == "COMPLETED"
    told = cluster.output(f"slurm-{job}.out")
    assert "EPOCHS=3\n" in told and "SECRET_OF_THE_AGENT" not in told


def test_work_that_has_no_place_yet_waits_and_the_rest_is_accepted(cluster: Cluster) -> None:
    one = telling(
        at=Site("slurm", queueing="platform"),
        checkpoint=Checkpoint("USR1", Ms(60_000)),
        dedicated=True,
        preemptible=True,
    )
    job = cluster.submit(script(one, constraint="ib", tmp="1G", hint="compute_bound", dependency="singleton"))
    shown = cluster.job(job)
    assert shown["JobState"] == "PENDING" and shown["Reason"] == "JobHeldUser" and shown["Requeue"] == "1"
    assert shown["Features"] == "ib" and shown["OverSubscribe"] == "NO"
    cluster.call("scancel", job)


def test_a_worker_that_fails_ends_its_gang(cluster: Cluster) -> None:
    fails = replace(work(units=1), command=("/bin/sh", "-c", 'test "$RANK" = 0 && exit 3; sleep 600'))
    job = cluster.submit(script(fails))
    assert cluster.ended(job) == "FAILED"
