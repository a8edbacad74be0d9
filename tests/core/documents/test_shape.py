"""A class is the shape of its document: what is declared is read exactly, all else is refused."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from decimal import Decimal
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from windlass.core.documents import kinds
from windlass.core.documents.kinds import (
    KINDS,
    Budget,
    Burst,
    Envelope,
    EnvelopeScope,
    GpuQuota,
    HardwareProfile,
    Metadata,
    PriceBook,
    Tier,
)
from windlass.core.documents.problems import MAX_PROBLEMS, Problems
from windlass.core.documents.shape import json_schema, read, wire_name, write
from windlass.core.errors import Reason
from windlass.core.intent import IntentSpec, PlacementWish, TraitUse
from windlass.core.units import MAX_MICROS, MAX_MILLI_GPU, Micros, MilliGpu, Ms

RELAXED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
INTENT = {"type": "training-job", "env": "prod", "image": "x", "gpus": 4}


def problems_of(cls: type[Any], data: Any) -> list[Reason]:
    problems: list[Reason] = []
    value = read(cls, data, "spec", problems)
    assert (value is None) == bool(problems)
    return problems


def only(cls: type[Any], data: Any) -> Reason:
    (reason,) = problems_of(cls, data)
    return reason


def intent(**changes: Any) -> dict[str, Any]:
    return {**INTENT, **changes}


def test_a_whole_intent_is_read_field_by_field() -> None:
    spec = read(
        IntentSpec,
        {
            "type": "training-job@1.0.0",
            "env": "prod",
            "image": "ghcr.io/acme/sft:v3",
            "gpus": "0.25",
            "workers": 2,
            "profile": "h100-80g",
            "command": ["python", "train.py"],
            "variables": {"EPOCHS": "3"},
            "traits": ["spot-tolerant", {"name": "topology", "parameters": {"level": "rack"}}],
            "parameters": {"any": [1, {"thing": None}]},
            "priority": -5,
            "preemptible": False,
            "placement": {"sites": ["fra1"], "avoid": ["other"]},
            "timeLimit": "4h",
            "retries": 2,
        },
        ("spec",),
        Problems(),
    )
    assert spec == IntentSpec(
        type="training-job@1.0.0",
        env="prod",
        image="ghcr.io/acme/sft:v3",
        gpus=MilliGpu(250),
        workers=2,
        profile="h100-80g",
        command=("python", "train.py"),
        variables={"EPOCHS": "3"},
        traits=(TraitUse("spot-tolerant"), TraitUse("topology", {"level": "rack"})),
        parameters={"any": [1, {"thing": None}]},
        priority=-5,
        preemptible=False,
        placement=PlacementWish(("fra1",), ("other",)),
        time_limit=Ms(14_400_000),
        retries=2,
    )


@pytest.mark.parametrize(
    ("data", "field", "rule", "words"),
    [
        (intent(gpu=1), "spec.gpu", "document.invalid", "did you mean gpus?"),
        (intent(HostNetwork=True), "spec.HostNetwork", "document.invalid", "nearest"),
        (intent(gpus="four"), "spec.gpus", "document.invalid", "plain decimal number"),
        (intent(gpus=True), "spec.gpus", "document.invalid", "must be a decimal number"),
        (intent(gpus=-1), "spec.gpus", "document.invalid", "spec.gpus is -1"),
        (intent(gpus="0.0001"), "spec.gpus", "document.invalid", "at most 3 decimals"),
        (intent(gpus=Decimal("1.0000000000000000000000000001")), "spec.gpus", "document.invalid", "decimal"),
        (intent(gpus=10**7), "spec.gpus", "document.invalid", "at most"),
        (intent(gpus=10**18), "spec.gpus", "document.invalid", "spec.gpus is"),
        (intent(gpus=Decimal("1e300")), "spec.gpus", "document.invalid", "spec.gpus is"),
        (intent(gpus=[1]), "spec.gpus", "document.invalid", "not a list"),
        (intent(gpus=None), "spec.gpus", "document.invalid", "spec.gpus is missing"),
        (intent(workers="2"), "spec.workers", "document.invalid", "write 2 without quotes"),
        (intent(workers=0), "spec.workers", "document.invalid", "1 to 100000"),
        (intent(workers=True), "spec.workers", "document.invalid", "whole number"),
        (intent(workers=Decimal("1.5")), "spec.workers", "document.invalid", "whole number"),
        (intent(workers=10**6), "spec.workers", "document.invalid", "1 to 100000"),
        (intent(image=3), "spec.image", "document.invalid", 'put it in quotes: "3"'),
        (intent(image="x" * 4097), "spec.image", "document.invalid", "at most 4096"),
        (intent(env="us-east"), "spec.env", "name.invalid", "for example useast"),
        (intent(env=""), "spec.env", "name.invalid", "is empty"),
        (intent(type="Training Job"), "spec.type", "name.invalid", "for example training-job"),
        (intent(type="job@latest"), "spec.type", "name.invalid", "1.0.0"),
        (intent(profile="../../etc"), "spec.profile", "name.invalid", "for example etc"),
        (intent(profile="ünïcode"), "spec.profile", "name.invalid", "lowercase letters"),
        (intent(profile="h100\n"), "spec.profile", "name.invalid", "for example h100"),
        (intent(profile="a" * 54), "spec.profile", "name.invalid", "at most 53"),
        (intent(profile="-a"), "spec.profile", "name.invalid", "for example a"),
        (intent(preemptible="yes"), "spec.preemptible", "document.invalid", "true or false"),
        (intent(preemptible=1), "spec.preemptible", "document.invalid", "true or false"),
        (intent(timeLimit="4 hours"), "spec.timeLimit", "document.invalid", "such as 90s"),
        (intent(timeLimit=4), "spec.timeLimit", "document.invalid", "such as 90s"),
        (intent(timeLimit="99999d"), "spec.timeLimit", "document.invalid", "ten years"),
        (intent(priority=2**40), "spec.priority", "document.invalid", "whole number"),
        (intent(command="python"), "spec.command", "document.invalid", "must be a list"),
        (intent(command=["a", 3]), "spec.command[1]", "document.invalid", "in quotes"),
        (intent(command=[None]), "spec.command[0]", "document.invalid", "must be text"),
        (intent(command=["x" * 65537]), "spec.command[0]", "document.invalid", "at most 65536"),
        (intent(command=["a"] * 1001), "spec.command", "document.invalid", "at most 1000"),
        (intent(variables={"1A": "x"}), 'spec.variables["1A"]', "document.invalid", "environment variable"),
        (intent(variables={"A=B": "x"}), 'spec.variables["A=B"]', "document.invalid", "environment variable"),
        (intent(variables={"A": 3}), "spec.variables.A", "document.invalid", "in quotes"),
        (intent(variables=["A"]), "spec.variables", "document.invalid", "a mapping of fields, not a list"),
        (intent(variables={f"V{n}": "" for n in range(1001)}), "spec.variables", "document.invalid", "1000"),
        (intent(placement={"site": []}), "spec.placement.site", "document.invalid", "did you mean sites?"),
        (intent(placement=3), "spec.placement", "document.invalid", "a mapping of fields"),
        (intent(traits=[{"parameters": {}}]), "spec.traits[0].name", "document.invalid", "is missing"),
        (intent(traits=[3]), "spec.traits[0]", "document.invalid", "a mapping of fields"),
        (intent(image="a\x00"), "spec.image", "document.invalid", "NUL"),
        ([], "spec", "document.invalid", "must be a mapping of fields, not a list"),
    ],
)
def test_what_does_not_fit_is_refused(data: Any, field: str, rule: str, words: str) -> None:
    reason = only(IntentSpec, data)
    assert (reason.field, reason.rule) == (field, rule)
    assert words in f"{reason.message}; {reason.remedy}"
    assert reason.message and reason.remedy


def test_all_problems_are_told_at_once() -> None:
    data = {"type": 3, "gpus": "x", "imagee": "y", "traits": [{"nam": 1}]}
    fields_named = [reason.field for reason in problems_of(IntentSpec, data)]
    assert fields_named == [
        "spec.type",
        "spec.gpus",
        "spec.imagee",
        "spec.traits[0].nam",
        "spec.traits[0].name",
        "spec.env",
        "spec.image",
    ]


def test_problems_are_bounded_and_the_rest_is_counted() -> None:
    reasons = problems_of(IntentSpec, intent(**{f"unknown{n}": 1 for n in range(5000)}))
    assert len(reasons) == MAX_PROBLEMS + 1
    assert f"{5000 - MAX_PROBLEMS} more problems" in reasons[-1].message


@pytest.mark.parametrize(
    ("cls", "data", "field", "words"),
    [
        (
            HardwareProfile,
            {"class": "a", "gpuModel": "x", "memoryGib": 1, "sharing": "mgi"},
            "spec.sharing",
            "mig",
        ),
        (
            HardwareProfile,
            {"class": "a", "gpuModel": "x", "memoryGib": 1, "sharing": 3},
            "spec.sharing",
            "one of",
        ),
        (
            HardwareProfile,
            {"class": "a", "gpuModel": "x", "memoryGib": 1, "share": 1001},
            "spec.share",
            "1000",
        ),
        (Budget, {"amount": "1.0000001", "currency": "USD", "period": "day"}, "spec.amount", "6 decimals"),
        (Budget, {"amount": "1", "currency": "usd", "period": "day"}, "spec.currency", "capital letters"),
        (
            PriceBook,
            {"currency": "USD", "effectiveFrom": "2026-01-01", "prices": []},
            "spec.effectiveFrom",
            "offset",
        ),
        (
            PriceBook,
            {"currency": "USD", "effectiveFrom": "soon", "prices": []},
            "spec.effectiveFrom",
            "2026-01-31",
        ),
        (
            PriceBook,
            {"currency": "USD", "effectiveFrom": "1900-01-01T00:00:00Z", "prices": []},
            "spec.effectiveFrom",
            "1970",
        ),
        (
            Tier,
            {"priority": 1, "preempts": True, "preemptible": True, "objectives": {"availability": "99.9"}},
            "spec.objectives.availability",
            "between 0 and 1",
        ),
        (
            Tier,
            {
                "priority": 1,
                "preempts": True,
                "preemptible": True,
                "objectives": {"availability": Decimal("99.9")},
            },
            "spec.objectives.availability",
            "between 0 and 1",
        ),
        (
            Envelope,
            {"scope": {"tenant": "a"}, "gpus": [{"profileClass": "h"}, {"profileClass": "h", "maximum": 1}]},
            "spec.gpus[1].maximum",
            "max",
        ),
    ],
)
def test_other_forms_are_as_strict(cls: type[Any], data: Any, field: str, words: str) -> None:
    reason = only(cls, data)
    assert reason.field == field
    assert words in f"{reason.message}; {reason.remedy}"


@pytest.mark.parametrize("key", ["a", "team.example/x", "A_b.c-d", "a" * 63, "x" * 63 + ".dev/y"])
def test_label_keys_are_as_kubernetes_has_them(key: str) -> None:
    assert not problems_of(Metadata, {"name": "a", "labels": {key: "v-1"}})


@pytest.mark.parametrize(
    "key", ["", "/a", "a/", "a/b/c", "-a", "a b", "ä", "A.dev/x", "a" * 64, "a" * 254 + "/x"]
)
def test_other_label_keys_are_refused(key: str) -> None:
    assert problems_of(Metadata, {"name": "a", "labels": {key: "v"}})


@pytest.mark.parametrize("value", ["a b", "-", "ä", "x" * 64, "a/b"])
def test_label_values_are_short_and_plain(value: str) -> None:
    assert problems_of(Metadata, {"name": "a", "labels": {"k": value}})


def test_null_is_the_same_as_absent() -> None:
    assert not problems_of(IntentSpec, intent(profile=None, variables=None, workers=None))


def test_amounts_are_written_as_people_write_them() -> None:
    quota = GpuQuota("h100", MilliGpu(4000), MilliGpu(4250), MilliGpu(0))
    assert write(quota) == {"profileClass": "h100", "guaranteed": 4, "max": "4.25", "lend": 0}
    assert write(Budget(Micros(5_000_000_000), "USD", "month"))["amount"] == "5000.00"


def test_names_on_the_wire_are_camel_case_unless_told() -> None:
    assert wire_name("max_per_worker") == "maxPerWorker"
    assert set(write(Burst("h", MilliGpu(1), Ms(0), Ms(1000)))) == {"profileClass", "extra", "from", "until"}


# --- laws -------------------------------------------------------------------------------------

names = st.from_regex(r"\A[a-z0-9]([-a-z0-9]{0,10}[a-z0-9])?\Z")
gpus = st.integers(0, MAX_MILLI_GPU).map(MilliGpu)
instants = st.integers(0, 4_000_000_000_000).map(Ms)
plain_text = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=5)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | plain_text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(plain_text, inner, max_size=3),
    max_leaves=5,
)
json_objects = st.dictionaries(plain_text, json_values, max_size=3)
intents = st.builds(
    IntentSpec,
    type=names,
    env=st.from_regex(r"\A[a-z0-9]{1,10}\Z"),
    image=st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=20),
    gpus=gpus,
    workers=st.integers(1, 100_000),
    profile=st.none() | names,
    command=st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\x00")), max_size=3).map(tuple),
    variables=st.dictionaries(st.from_regex(r"\A[A-Za-z_][A-Za-z0-9_]{0,5}\Z"), st.just("v"), max_size=3),
    traits=st.lists(st.builds(TraitUse, names, json_objects), max_size=3).map(tuple),
    parameters=json_objects,
    priority=st.integers(-1000, 1000),
    preemptible=st.none() | st.booleans(),
    placement=st.builds(PlacementWish, st.lists(names, max_size=2).map(tuple), st.just(())),
    time_limit=st.none() | st.integers(0, 10**6).map(lambda seconds: Ms(seconds * 1000)),
    retries=st.integers(0, 9),
)
envelopes = st.builds(
    Envelope,
    scope=st.builds(EnvelopeScope, names, st.none() | names),
    gpus=st.lists(st.builds(GpuQuota, names, gpus, st.none() | gpus, st.none() | gpus), max_size=3).map(
        tuple
    ),
    burst=st.lists(st.builds(Burst, names, gpus, instants, instants, st.text("abc ")), max_size=2).map(tuple),
    weight=st.integers(1, 100),
    sharing=st.none() | st.lists(st.sampled_from(["dedicated", "mig"]), max_size=2).map(tuple),
    budget=st.none()
    | st.builds(
        Budget, st.integers(0, MAX_MICROS).map(Micros), st.just("EUR"), st.sampled_from(["day", "year"])
    ),
)


@given(intents | envelopes)
@RELAXED
def test_what_is_written_reads_back_equal(value: Any) -> None:
    """Law: read(write(x)) == x, and writing that again gives the same."""
    written = write(value)
    problems = Problems()
    again = read(type(value), written, (), problems)
    assert not problems, problems.reasons()
    assert again == value
    assert write(again) == written


@given(intents | envelopes)
@RELAXED
def test_what_is_written_fits_the_json_schema(value: Any) -> None:
    jsonschema_rs.validator_for(json_schema(type(value))).validate(write(value))


@given(
    st.sampled_from([kind.spec for kind in KINDS.values()] + [IntentSpec, Metadata]),
    json_objects | json_values,
)
@RELAXED
def test_any_data_is_read_or_refused(cls: type[Any], data: Any) -> None:
    problems_of(cls, data)


@given(st.dictionaries(st.sampled_from([wire_name(field.name) for field in fields(IntentSpec)]), json_values))
@RELAXED
def test_any_values_of_known_fields_are_read_or_refused(data: Mapping[str, Any]) -> None:
    problems_of(IntentSpec, dict(data))


@pytest.mark.parametrize("kind", KINDS.values(), ids=lambda kind: kind.name)
def test_every_kind_has_a_valid_json_schema(kind: kinds.Kind) -> None:
    schema = json_schema(kind.spec)
    jsonschema_rs.validator_for(schema)
    assert schema["additionalProperties"] is False


@pytest.mark.parametrize("written", ["0.999", Decimal("0.999")])
def test_a_fraction_may_be_a_number_or_text(written: Any) -> None:
    data = {"priority": 1, "preempts": True, "preemptible": True, "objectives": {"availability": written}}
    tier = read(Tier, data, "spec", [])
    assert tier is not None and tier.objectives.availability == "0.999"
