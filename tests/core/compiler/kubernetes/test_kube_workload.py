"""What the platform writes around what an author asked for, one fact at a time."""

from __future__ import annotations

from copy import deepcopy
from typing import Any, cast

import pytest
from tests.core.compiler.kubernetes.worlds import (
    JOB,
    KUBE,
    MIG,
    QUARTER,
    SERVICE,
    main_container,
    pod_spec,
    variables,
    work,
)

from windlass.core.compiler.kubernetes import merging
from windlass.core.compiler.kubernetes.merging import Conflict
from windlass.core.compiler.kubernetes.workload import Refused, finish
from windlass.core.compiler.work import Checkpoint
from windlass.core.documents.kinds import Site
from windlass.core.scheduling.model import Topology
from windlass.core.units import Ms


def test_a_gang_is_a_suspended_indexed_job_of_its_size() -> None:
    job, service = finish(work(workers=8), JOB)
    assert job["spec"]["suspend"] is True
    assert job["spec"]["parallelism"] == job["spec"]["completions"] == 8
    assert job["spec"]["completionMode"] == "Indexed"
    assert service["spec"]["selector"] == {"windlass.dev/component": "sft-run"}


def test_every_object_is_in_the_cell_with_the_name_of_the_component_and_says_whose_it_is() -> None:
    for thing in finish(work(labels={"team": "nlp"}), JOB):
        assert thing["metadata"]["name"] == "sft-run"
        assert thing["metadata"]["namespace"] == "nlp-prod"
        labels = thing["metadata"]["labels"]
        assert labels["windlass.dev/tenant"] == "acme" and labels["windlass.dev/profile"] == "h100-80g"
        assert labels["windlass.dev/type"] == "training-job" and labels["team"] == "nlp"
        assert thing["metadata"]["annotations"] == {"windlass.dev/type-version": "training-job@1.0.0"}


def test_a_job_waits_in_the_queue_of_its_class_with_its_priority() -> None:
    labels = finish(work(priority=-5), JOB)[0]["metadata"]["labels"]
    assert labels["kueue.x-k8s.io/queue-name"] == "h100-80g"
    assert labels["kueue.x-k8s.io/priority-class"] == "windlass-minus-5"


def test_what_cannot_be_suspended_has_gated_pods_that_wait_in_the_queue() -> None:
    (deployment,) = finish(work(workload="service", workers=3), SERVICE)
    template = deployment["spec"]["template"]
    assert template["spec"]["schedulingGates"] == [{"name": "kueue.x-k8s.io/admission"}]
    assert template["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "h100-80g"
    assert template["metadata"]["labels"]["kueue.x-k8s.io/managed"] == "true"
    assert deployment["spec"]["replicas"] == 3
    assert deployment["spec"]["strategy"]["rollingUpdate"]["maxSurge"] == 0


@pytest.mark.parametrize(
    ("hardware", "resource"),
    [(MIG, "nvidia.com/mig-1g.10gb"), (QUARTER, "nvidia.com/gpu.shared")],
)
def test_a_share_is_asked_for_by_the_name_of_its_kind(hardware: Any, resource: str) -> None:
    resources = main_container(finish(work(hardware=hardware, units=1), JOB))["resources"]
    assert resources["limits"] == resources["requests"]
    assert resources["limits"][resource] == "1" and "nvidia.com/gpu" not in resources["limits"]


def test_cpu_and_memory_follow_the_gpus() -> None:
    resources = main_container(finish(work(units=4), JOB))["resources"]
    assert resources["limits"] == {"cpu": "48", "memory": "512Gi", "nvidia.com/gpu": "4"}


def test_workers_find_rank_0_through_the_headless_service() -> None:
    manifests = finish(work(workers=4, name="7b-sft"), JOB)
    told = variables(manifests)
    assert manifests[1]["metadata"]["name"] == pod_spec(manifests)["subdomain"] == "d-7b-sft"
    assert told["MASTER_ADDR"] == "7b-sft-0.d-7b-sft" and told["WORLD_SIZE"] == "4"
    assert "job-completion-index" in told["RANK"]["fieldRef"]["fieldPath"]


def test_without_a_place_to_meet_nobody_is_told_of_one() -> None:
    told = variables(finish(work(), {"objects": JOB["objects"][:1]}))
    assert "MASTER_ADDR" not in told and "WINDLASS_WORKER" in told


def test_an_author_s_variables_stand_before_the_type_s_and_never_before_the_platform_s() -> None:
    template = deepcopy(JOB)
    main = template["objects"][0]["spec"]["template"]["spec"]["containers"][0]
    main["env"] = [{"name": "PORT", "value": "1"}, {"name": "HOST", "value": "0.0.0.0"}]  # noqa: S104
    wished = {"RANK": "9", "WINDLASS_X": "y", "PORT": "22", "NVIDIA_VISIBLE_DEVICES": "all"}
    told = variables(finish(work(variables=wished), template))
    assert told["PORT"] == "22" and told["HOST"] == "0.0.0.0"  # noqa: S104
    assert told["RANK"] != "9" and told["WINDLASS_COMPONENT"] == "nlp/prod/sft-run"
    assert "WINDLASS_X" not in told and "NVIDIA_VISIBLE_DEVICES" not in told


@pytest.mark.parametrize(
    ("text", "written"),
    [("$(RANK)", "$$(RANK)"), ("echo $$", "echo $$$"), ("$$(X)", "$$$$(X)"), ("$HOME ${X}", "$HOME ${X}")],
)
def test_kubernetes_puts_nothing_into_what_an_author_wrote(text: str, written: str) -> None:
    manifests = finish(work(command=("sh", "-c", text), variables={"X": text}), JOB)
    assert main_container(manifests)["command"][2] == variables(manifests)["X"] == written
    assert written.replace("$$", "$") == text  # as Kubernetes reads it


def test_labels_under_a_domain_speak_to_nobody_in_the_cluster() -> None:
    """They are the author's, on the objects; on pods they could take one out of a mesh or a policy."""
    own = {"team": "nlp", "acme.example/team": "nlp", "sidecar.istio.io/inject": "false", "volcano.sh/x": "y"}
    job = finish(work(labels=own), JOB)[0]
    assert own.items() <= job["metadata"]["labels"].items()
    assert set(own) & set(job["spec"]["template"]["metadata"]["labels"]) == {"team"}
    pod = {"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [{"name": "main"}]}}
    (alone,) = finish(work(labels=own), {"objects": [pod]})
    assert set(own) & set(alone["metadata"]["labels"]) == {"team"}


def test_reserved_labels_of_an_author_are_never_written() -> None:
    forged = {"windlass.dev/tenant": "globex", "cost/project": "x", "kueue.x-k8s.io/queue-name": "vip"}
    job = finish(work(labels=forged), JOB)[0]
    labels = job["spec"]["template"]["metadata"]["labels"] | job["metadata"]["labels"]
    assert labels["windlass.dev/tenant"] == "acme" and "cost/project" not in labels
    assert labels["kueue.x-k8s.io/queue-name"] == "h100-80g"


def test_the_author_s_command_replaces_what_the_type_would_start() -> None:
    template = deepcopy(JOB)
    template["objects"][0]["spec"]["template"]["spec"]["containers"][0]["args"] = ["serve"]
    assert main_container(finish(work(), template))["args"] == ["serve"]
    own = main_container(finish(work(command=("python", "a;b")), template))
    assert own["command"] == ["python", "a;b"] and "args" not in own


def test_no_worker_has_more_than_it_needs() -> None:
    manifests = finish(work(), JOB)
    pod, main = pod_spec(manifests), main_container(manifests)
    assert pod["automountServiceAccountToken"] is False
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert main["securityContext"] == {
        "readOnlyRootFilesystem": True,
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
    }
    assert {"name": "windlass-tmp", "mountPath": "/tmp"} in main["volumeMounts"]  # noqa: S108


def test_a_type_may_leave_the_root_writable() -> None:
    template = deepcopy(JOB)
    main = template["objects"][0]["spec"]["template"]["spec"]["containers"][0]
    main["securityContext"] = {"readOnlyRootFilesystem": False}
    made = main_container(finish(work(), template))
    assert made["securityContext"]["readOnlyRootFilesystem"] is False and "volumeMounts" not in made


def test_work_that_was_placed_goes_where_it_was_placed() -> None:
    affinity = pod_spec(finish(work(nodes=("n2", "n1")), JOB))["affinity"]["nodeAffinity"]
    (term,) = affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert term["matchExpressions"] == [
        {"key": "kubernetes.io/hostname", "operator": "In", "values": ["n1", "n2"]}
    ]


@pytest.mark.parametrize("mode", ["required", "preferred"])
def test_topology_is_a_wish_to_the_queue(mode: Any) -> None:
    job = finish(work(topology=Topology("rack", mode)), JOB)[0]
    annotations = job["spec"]["template"]["metadata"]["annotations"]
    assert annotations[f"kueue.x-k8s.io/podset-{mode}-topology"] == "windlass.dev/rack"


def test_a_level_that_nodes_do_not_have_is_refused() -> None:
    with pytest.raises(Refused, match="nodes have no level shelf"):
        finish(work(topology=Topology("shelf", "required")), JOB)


def test_on_nodes_of_tenants_work_goes_to_its_tenant_s() -> None:
    pod = pod_spec(finish(work(at=Site("kubernetes", isolation="dedicated-nodes")), JOB))
    assert pod["tolerations"] == [
        {"key": "windlass.dev/tenant", "operator": "Equal", "value": "acme", "effect": "NoSchedule"}
    ]
    assert "windlass.dev/tenant" in str(pod["affinity"]["nodeAffinity"])


def test_a_sandboxed_site_has_its_own_runtime_class() -> None:
    assert pod_spec(finish(work(at=Site("kubernetes", isolation="sandboxed")), JOB))["runtimeClassName"]
    assert "runtimeClassName" not in pod_spec(finish(work(at=KUBE), JOB))


def test_dedicated_work_keeps_other_tenants_off_its_nodes() -> None:
    (term,) = pod_spec(finish(work(dedicated=True), JOB))["affinity"]["podAntiAffinity"][
        "requiredDuringSchedulingIgnoredDuringExecution"
    ]
    assert term["topologyKey"] == "kubernetes.io/hostname" and term["namespaceSelector"] == {}
    assert {"key": "windlass.dev/tenant", "operator": "NotIn", "values": ["acme"]} in (
        term["labelSelector"]["matchExpressions"]
    )


def test_limits_of_time_and_retries_are_the_job_s() -> None:
    spec = finish(work(time_limit=Ms(90_500), retries=2, workers=3), JOB)[0]["spec"]
    assert spec["activeDeadlineSeconds"] == 91
    assert spec["backoffLimit"] == 6  # a gang that fails fails in each of its workers


def test_work_that_saves_itself_is_told_and_given_the_time() -> None:
    manifests = finish(work(checkpoint=Checkpoint("USR1", Ms(90_000))), JOB)
    assert pod_spec(manifests)["terminationGracePeriodSeconds"] == 90
    (hook,) = main_container(manifests)["lifecycle"].values()
    assert hook["exec"]["command"][2].startswith("kill -s USR1 1;")
    assert "lifecycle" not in main_container(finish(work(checkpoint=Checkpoint("TERM", Ms(1))), JOB))


def test_a_signal_is_one_of_a_few() -> None:
    with pytest.raises(ValueError, match="not a signal"):
        finish(work(checkpoint=Checkpoint(cast(Any, "USR1 1; rm -rf /"), Ms(1))), JOB)


def test_runs_under_a_cap_are_counted_apart_from_the_cap() -> None:
    template = deepcopy({"objects": JOB["objects"][:1]})
    template["objects"][0]["spec"]["completions"] = 100
    spec = finish(work(workers=4, retries=1), template)[0]["spec"]
    assert (spec["parallelism"], spec["completions"], spec["backoffLimitPerIndex"]) == (4, 100, 1)
    assert "backoffLimit" not in spec


def test_traits_that_want_different_things_are_told_both() -> None:
    patches = [
        ("b", {"container": {"env": [{"name": "NCCL_DEBUG", "value": "INFO"}]}}),
        ("a", {"container": {"env": [{"name": "NCCL_DEBUG", "value": "WARN"}]}}),
    ]
    with pytest.raises(Conflict, match="the trait a and the trait b want different values of pod"):
        finish(work(), JOB, patches)


def test_the_order_of_traits_does_not_matter() -> None:
    patches: list[tuple[str, dict[str, Any]]] = [
        ("spot", {"pod": {"tolerations": [{"key": "spot", "operator": "Exists"}]}}),
        ("scratch", {"pod": {"volumes": [{"name": "s", "emptyDir": {}}]}, "podLabels": {"x": "1"}}),
        (
            "more",
            {
                "pod": {"tolerations": [{"key": "edge", "operator": "Exists"}]},
                "workload": {"ttlSecondsAfterFinished": 5},
            },
        ),
    ]
    assert finish(work(), JOB, patches) == finish(work(), JOB, patches[::-1])


def test_what_a_trait_brings_is_judged_like_a_template() -> None:
    with pytest.raises(Refused, match=r"hostNetwork.*belongs to the platform"):
        finish(work(), JOB, [("bad", {"pod": {"hostNetwork": True}})])
    with pytest.raises(Refused, match="suspend is computed"):
        finish(work(), JOB, [("bad", {"workload": {"suspend": False}})])
    with pytest.raises(Refused, match="not a part"):
        finish(work(), JOB, [("bad", {"metadata": {}})])


def test_a_template_has_exactly_one_workload_and_one_object_of_a_kind() -> None:
    for objects, told in (
        (JOB["objects"][1:], "exactly one object"),
        ([JOB["objects"][0], *SERVICE["objects"]], "exactly one object"),
        ([*JOB["objects"], JOB["objects"][1]], "one name"),
    ):
        with pytest.raises(Refused, match=told):
            finish(work(), {"objects": objects})


JOBSET = {
    "objects": [
        {
            "apiVersion": "jobset.x-k8s.io/v1alpha2",
            "kind": "JobSet",
            "spec": {"replicatedJobs": [{"template": {"spec": {"template": {"spec": {"containers": []}}}}}]},
        }
    ]
}


@pytest.mark.parametrize(
    ("name", "workers", "words"),
    [("8b-sft", 2, "cannot begin with a digit"), ("a" * 53, 2, "at most 51"), ("a" * 51, 11, "at most 50")],
)
def test_a_name_that_a_jobset_cannot_have_is_told_before_it_leaves(
    name: str, workers: int, words: str
) -> None:
    with pytest.raises(Refused, match=words):
        finish(work(name=name, workers=workers), JOBSET)
    assert finish(work(name=name, workers=workers), JOB)


def test_the_cost_of_a_merge_grows_with_the_traits_and_not_with_their_square(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looked: list[Any] = []
    identity = merging._identity

    def counted(value: Any) -> Any:
        looked.append(value)
        return identity(value)

    monkeypatch.setattr(merging, "_identity", counted)
    traits = [(f"t{at}", {"container": {"env": [{"name": f"V{at}", "value": "x"}]}}) for at in range(300)]
    env = main_container(finish(work(), JOB, traits))["env"]
    assert {f"V{at}" for at in range(300)} <= {one["name"] for one in env}
    assert len(looked) < 5 * len(traits)
