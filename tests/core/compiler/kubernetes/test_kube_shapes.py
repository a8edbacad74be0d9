"""Rendered objects of any form are finished or refused; none is a mistake of the compiler's."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core.compiler.kubernetes.worlds import work

from windlass.core.compiler.kubernetes.merging import Conflict
from windlass.core.compiler.kubernetes.workload import Refused, finish

POD: dict[str, Any] = {
    "containers": [
        {
            "name": "main",
            "args": ["x"],
            "env": [{"name": "A", "value": "b"}],
            "ports": [{"name": "http", "containerPort": 80}],
            "volumeMounts": [{"name": "v", "mountPath": "/x", "subPath": "a"}],
            "readinessProbe": {"httpGet": {"path": "/", "port": 80}},
            "lifecycle": {"preStop": {"exec": {"command": ["x"]}}},
            "securityContext": {"runAsUser": 5},
            "resources": {"limits": {"ephemeral-storage": "1Gi"}},
        },
        {"name": "beside", "args": ["x"]},
    ],
    "initContainers": [{"name": "first", "args": ["x"]}],
    "volumes": [{"name": "v", "emptyDir": {}}],
    "securityContext": {"fsGroup": 5},
}
TEMPLATE = {"metadata": {"labels": {"a": "b"}}, "spec": POD}
WORKLOADS: dict[str, dict[str, Any]] = {
    "Job": {"apiVersion": "batch/v1", "spec": {"template": TEMPLATE}},
    "JobSet": {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "spec": {"replicatedJobs": [{"template": {"spec": {"template": TEMPLATE}}}]},
    },
    "StatefulSet": {
        "apiVersion": "apps/v1",
        "spec": {"template": TEMPLATE, "updateStrategy": {"type": "RollingUpdate"}},
    },
    "Deployment": {
        "apiVersion": "apps/v1",
        "spec": {"template": TEMPLATE, "strategy": {"rollingUpdate": {"maxUnavailable": 1}}},
    },
    "Pod": {"apiVersion": "v1", "metadata": {"labels": {"a": "b"}}, "spec": POD},
}
BESIDE = [
    {"apiVersion": "v1", "kind": "Service", "spec": {"ports": [{"name": "http", "port": 80}]}},
    {"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "b"}},
]
OTHER_FORMS = [None, 1, True, "x", "", "${x}", [], {}, [1], [None], ["x"], {"a": 1}]


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    for key, item in (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    ):
        yield from places(item, (*path, key))


def objects_of(kind: str) -> list[Any]:
    return deepcopy([{"kind": kind, **WORKLOADS[kind]}, *BESIDE])


@pytest.mark.parametrize("kind", WORKLOADS)
def test_objects_of_the_right_form_are_finished(kind: str) -> None:
    assert finish(work(), {"objects": objects_of(kind)}, author=True)


@given(kind=st.sampled_from(sorted(WORKLOADS)), other=st.sampled_from(OTHER_FORMS), data=st.data())
def test_a_part_of_another_form_is_refused_and_never_an_accident(kind: str, other: Any, data: Any) -> None:
    objects = objects_of(kind)
    *way, last = data.draw(st.sampled_from([path for path in places(objects) if path]))
    at: Any = objects
    for step in way:
        at = at[step]
    if data.draw(st.booleans()):
        at[last] = other
    else:
        del at[last]
    with suppress(Refused, Conflict):
        finish(work(), {"objects": objects}, [("quiet", {"container": {"env": []}})], author=True)


def test_a_type_may_bring_claims_for_new_volumes() -> None:
    objects = objects_of("StatefulSet")
    objects[0]["spec"]["volumeClaimTemplates"] = [{"metadata": {"name": "v"}, "spec": {}}]
    assert finish(work(), {"objects": objects})


@pytest.mark.parametrize(
    ("part", "wrong", "place"),
    [
        ("env", "${x}", "objects[0].spec.template.spec.containers[0].env"),
        ("env", [{"value": "nameless"}], "objects[0].spec.template.spec.containers[0].env[0]"),
        ("resources", [], "objects[0].spec.template.spec.containers[0].resources"),
        ("args", [1], "objects[0].spec.template.spec.containers[0].args[0]"),
        ("volumeMounts", [{"name": "v"}], "objects[0].spec.template.spec.containers[0].volumeMounts[0]"),
    ],
)
def test_the_refusal_names_the_place(part: str, wrong: Any, place: str) -> None:
    objects = objects_of("Job")
    objects[0]["spec"]["template"]["spec"]["containers"][0][part] = wrong
    with pytest.raises(Refused) as refused:
        finish(work(), {"objects": objects}, author=True)
    assert str(refused.value).startswith(f"{place}: ")


@pytest.mark.parametrize("image", [{"name": "x"}, ["x"], 1])
def test_an_image_that_is_no_text_is_refused_at_its_place(image: Any) -> None:
    objects = objects_of("Job")
    objects[0]["spec"]["template"]["spec"]["initContainers"][0]["image"] = image
    with pytest.raises(Refused) as refused:
        finish(work(), {"objects": objects}, author=True)
    assert str(refused.value).startswith("objects[0].spec.template.spec.initContainers[0].image: ")
