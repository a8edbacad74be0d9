"""The compiler's narrative: an admitted case and a site become checked manifests.

    1. assemble   everything decided, as one value (`Work`)
    2. render     what the type and its traits say for the orchestrator
    3. finish     the target writes over it what is the platform's
    4. check      a reader that shares no code with the target looks for broken laws

Deterministic: the same case and site give the same bytes. What fails any step does not leave.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from windlass.core.admission.case import Case, trait_spec
from windlass.core.compiler.checker.breaches import NOTHING_MORE, Allowed
from windlass.core.compiler.checker.check import check
from windlass.core.compiler.definition import Defined, definition
from windlass.core.compiler.kubernetes.merging import Conflict
from windlass.core.compiler.kubernetes.workload import Refused, finish
from windlass.core.compiler.local import Manifest, compile_manifest, own_variables
from windlass.core.compiler.names import site_values
from windlass.core.compiler.rendering import trait_patches, type_template
from windlass.core.compiler.slurm import compile_slurm
from windlass.core.compiler.wishes import Wishes, wishes
from windlass.core.compiler.work import Work
from windlass.core.documents.scalars import Target
from windlass.core.errors import Invalid
from windlass.core.expressions import Unevaluable
from windlass.core.units import GPU

Patches = Sequence[tuple[str, Mapping[str, Any]]]

RAW = "raw"
"""The type whose template is the author's own, and is read as such."""


class Uncompilable(ValueError):
    """What was asked for cannot become work. `owned`: it reaches for what is the platform's."""

    def __init__(self, message: str, *, owned: bool = False) -> None:
        super().__init__(message)
        self.owned = owned


@dataclass(frozen=True, slots=True)
class Compiled:
    """`manifests` are what the orchestrator is told, as plain data."""

    component: str
    site: str
    target: Target
    manifests: Any

    def canonical(self) -> bytes:
        return msgspec.json.encode(self.manifests, order="sorted")


def compile_component(case: Case, site: str, nodes: tuple[str, ...] = ()) -> Compiled:
    """Raises Uncompilable. `nodes`: where the platform's own queue placed each worker."""
    wanted = wishes(case)
    work = assemble(case, site, wanted, nodes)
    target = work.at.orchestrator
    try:
        manifests, patches = _made(case, work, target)
    except Refused as error:
        raise Uncompilable(str(error), owned=_is_raw(case)) from None
    except (Unevaluable, Conflict, Invalid) as error:
        raise Uncompilable(str(error)) from None
    # A local site mounts nothing and tolerates nothing.
    allowed = _allowed(case, patches, wanted) if target != "local" else NOTHING_MORE
    breaches = check(work, target, manifests, allowed)
    if breaches:
        raise Uncompilable("; ".join(one.message for one in breaches), owned=_is_raw(case))
    return Compiled(work.path, site, target, manifests)


def assemble(case: Case, site: str, wanted: Wishes, nodes: tuple[str, ...] = ()) -> Work:
    """Everything that was decided about one component, for one site."""
    assert case.project is not None and case.tenant is not None and case.tier is not None
    assert case.profile is not None and case.profile_name is not None and case.type is not None
    spec = case.intent.spec
    return Work(
        tenant=case.project.tenant,
        project=case.project.name,
        env=spec.env,
        name=case.intent.name,
        type=case.type.key.name,
        workload=case.type_spec.workload,
        tier=case.tenant.tier,
        priority=case.tier.priority + spec.priority,
        image=spec.image,
        units=spec.gpus // GPU,
        profile=case.profile_name,
        hardware=case.profile,
        site=site,
        at=case.catalog.sites[site],
        workers=case.replicas,
        most_workers=case.most_replicas,
        traits=tuple(sorted(document.key.name for _, document in case.traits if document is not None)),
        command=spec.command,
        variables=own_variables(spec),
        labels=dict(case.intent.labels),
        preemptible=case.tier.preemptible or spec.preemptible is True or wanted.preemptible,
        topology=wanted.topology,
        dedicated=wanted.dedicated,
        checkpoint=wanted.checkpoint,
        time_limit=spec.time_limit,
        retries=spec.retries,
        nodes=nodes,
    )


def _made(case: Case, work: Work, target: Target) -> tuple[Any, Patches]:
    if target == "local":
        return msgspec.to_builtins(compile_manifest(case)), ()
    where = site_values(work.site, work.at)
    template, patches = type_template(case, target, where), trait_patches(case, target, where)
    if target == "slurm":
        return compile_slurm(work, template, patches), patches
    objects = finish(work, template, patches, author=_is_raw(case), images=_images(case))
    return list(objects), patches


def _images(case: Case) -> frozenset[str]:
    """Of the containers that its type and its traits bring along."""
    specs: list[Defined] = [case.type_spec]
    specs += [trait_spec(document) for _, document in case.traits if document is not None]
    return frozenset(image for spec in specs for image in definition(spec).images)


def _is_raw(case: Case) -> bool:
    return case.type is not None and case.type.metadata.name == RAW


def _allowed(case: Case, patches: Patches, wanted: Wishes) -> Allowed:
    """What traits and type add to the work itself, told to the checker by those who decided it."""
    tolerations = [one for _, patch in patches for one in patch.get("pod", {}).get("tolerations", ())]
    runs = case.parameters.get("runs")
    return Allowed(
        tolerations=tuple(tolerations),
        claims=frozenset(wanted.volumes),
        secrets=frozenset(wanted.secrets),
        images=_images(case),
        runs=runs if isinstance(runs, int) and not isinstance(runs, bool) else None,
    )


def compile_admitted(case: Case, sites: Iterable[str]) -> Manifest:
    """For every orchestrator it may be placed on, once: what cannot become work there is told now, not when
    its turn comes. A local site gets what is made here; others are compiled again when it has its place."""
    seen: set[Target] = set()
    for name in sites:
        target = case.catalog.sites[name].orchestrator
        if target not in seen:
            seen.add(target)
            compile_component(case, name)
    return compile_manifest(case)
