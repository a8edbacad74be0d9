"""From an admitted case to what the scheduler and a local site need: a shape and a manifest.

Deterministic: the same intent under the same catalog revision gives the same bytes. The manifest is made
when work is admitted, before it has a place: a local site runs the author's processes, wherever it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from windlass.core.admission.case import Case
from windlass.core.admission.parameters import plain
from windlass.core.compiler.rendering import trait_patches, type_template
from windlass.core.compiler.wishes import wishes
from windlass.core.compiler.work import Signal, told_by_platform
from windlass.core.documents.scalars import Workload
from windlass.core.expressions import Unevaluable
from windlass.core.intent import IntentSpec
from windlass.core.scheduling.model import Shape
from windlass.core.units import GPU, MilliGpu, Ms

DEFAULT_GRACE = Ms(10_000)
"""Between the signal and KILL. Kubernetes' 30 s is too long for a person waiting at a terminal."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a local site is told to run: everything about the work except where."""

    kind: Workload
    image: str
    gpu_milli: int
    command: tuple[str, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict, repr=False)  # may hold a secret
    port: int | None = None
    time_limit: Ms | None = None
    retries: int = 0
    grace: Ms = DEFAULT_GRACE
    signal: Signal = "TERM"


def compile_shape(case: Case, sites: tuple[str, ...]) -> Shape:
    """How the engine sees the work, to be placed on one of `sites`. Equal shapes stand in one line."""
    assert case.profile is not None and case.tier is not None and case.project is not None
    spec, profile, tier = case.intent.spec, case.profile, case.tier
    wanted = wishes(case)
    units = spec.gpus // GPU
    return Shape(
        queue=f"{case.project.tenant}/{case.project.name}/{spec.env}",
        gpu_class=profile.gpu_class,
        gpus=case.worker_gpus,
        workers=case.replicas,
        unit=MilliGpu(profile.share),
        sharing=profile.sharing,
        mig_profile=profile.mig_profile,
        cpu_milli=profile.per_gpu.cpu * 1000 * units,
        memory_mib=profile.per_gpu.memory_gib * 1024 * units,
        priority=tier.priority + spec.priority,
        preempts=tier.preempts,
        preemptible=tier.preemptible or spec.preemptible is True or wanted.preemptible,
        min_runtime=tier.min_runtime,
        expected=spec.time_limit,
        topology=wanted.topology,
        dedicated=wanted.dedicated,
        sites=sites,
        movable=wanted.movable,
        avoid=tuple(f"{case.project.name}/{spec.env}/{name}" for name in spec.placement.avoid),
    )


def compile_manifest(case: Case) -> Manifest:
    """The type and its traits bring variables, and agree on them; the author's come over theirs."""
    assert case.profile is not None
    spec, leave = case.intent.spec, wishes(case).checkpoint
    template = _template(case)
    variables = _texts(template.get("variables"))
    for trait, patch in trait_patches(case, "local"):
        for name, value in _texts(patch.get("variables")).items():
            if variables.setdefault(name, value) != value:
                raise Unevaluable(
                    f"the trait {trait} and the type or another trait set {name} to different values"
                )
    port = plain(case.parameter("port"))
    return Manifest(
        kind=case.type_spec.workload,
        image=spec.image,
        gpu_milli=min(case.profile.share, GPU),
        command=spec.command or tuple(str(part) for part in template.get("command", ())),
        variables=dict(sorted({**variables, **own_variables(spec)}.items())),
        port=port if isinstance(port, int) else None,
        time_limit=spec.time_limit,
        retries=spec.retries,
        grace=leave.grace if leave is not None else DEFAULT_GRACE,
        signal=leave.signal if leave is not None else "TERM",
    )


def own_variables(spec: IntentSpec) -> dict[str, str]:
    """The author's, without those that are the platform's to set."""
    return {name: value for name, value in spec.variables.items() if not told_by_platform(name)}


def _template(case: Case) -> Mapping[str, Any]:
    """Not looked at where all it could give is a command, and the author gave one: most work is such."""
    written = case.type_spec.templates.local or {}
    if case.intent.spec.command and "variables" not in written:
        return {}
    return type_template(case, "local")


def _texts(found: Any) -> dict[str, str]:
    """Numbers are written as people write them; true as `true`."""
    if not isinstance(found, Mapping):
        return {}
    return {name: value if isinstance(value, str) else _said(value) for name, value in found.items()}


def _said(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
