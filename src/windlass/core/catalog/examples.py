"""The examples a document brings with it (`tests`), played when it is uploaded: each is an ordinary intent
with a few things different, and says whether the document must refuse it or what it must render. What a type
renders is compiled and checked as well, so that what could never run is told to its author and not to who
submits.

A document is played alone: the catalog around it may change after it. The types and traits that come with a
release are there; another that an example names, or that the document is about, is stood in for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from windlass.core.admission.case import Case, Facts, open_case
from windlass.core.admission.parameters import parameter_problems
from windlass.core.admission.requirements import Found, requirements_of
from windlass.core.admission.traits import runs_on
from windlass.core.catalog.snapshot import EMPTY, Catalog
from windlass.core.compiler.compile import Uncompilable, compile_component
from windlass.core.compiler.definition import TARGETS, Defined
from windlass.core.compiler.names import site_values
from windlass.core.compiler.rendering import trait_patches, type_template
from windlass.core.documents.definitions import ComponentType, Example, Policy, Trait
from windlass.core.documents.kinds import Document, HardwareProfile, Metadata, Project, Site, Tenant, Tier
from windlass.core.documents.parse import parse_all
from windlass.core.documents.problems import Path, Problems, shown
from windlass.core.documents.scalars import Target
from windlass.core.documents.shape import read
from windlass.core.documents.tree import Tree
from windlass.core.expressions import BadExpression, Budget, Names, Unevaluable
from windlass.core.intent import Intent

_RENDERED = Names.of({"rendered": "dyn"})
_TIER, _PROFILE, _TYPE = "example", "example", "example-type"
_HARDWARE = {"class": "h100-80g", "gpuModel": "NVIDIA-H100-80GB-HBM3", "memoryGib": 80}
_ANY = {"type": "object"}


def play(document: Document, spec: Defined, problems: Problems) -> None:
    budget = Budget()
    for at, example in enumerate(spec.tests):
        path: Path = ("spec", "tests", at)
        case = _case(document, spec, example, path, problems)
        if case is not None:
            reasons = list(_reasons(document, spec, example, case, budget))
            _judge(document, spec, example, case, reasons, path, problems)


def _judge(
    document: Document,
    spec: Defined,
    example: Example,
    case: Case,
    reasons: Sequence[Found],
    path: Path,
    problems: Problems,
) -> None:
    told = "; ".join(reason.message for _, reason in reasons)
    names = [name for name, _ in reasons]
    if example.expect == "admitted" and reasons:
        problems.add(path, f"the test “{example.name}” expects it admitted; it is refused: {told}")
    elif example.expect == "rejected" and not reasons:
        problems.add(path, f"the test “{example.name}” expects it rejected, and nothing refuses it")
    elif example.rule is not None and example.rule not in names:
        refused = f"{', '.join(names)} does" if names else "nothing refuses it"
        problems.add(
            path, f"the test “{example.name}” expects the rule {example.rule} to refuse it; {refused}"
        )
    elif not reasons and (example.holds or example.target is not None) and not isinstance(spec, Policy):
        _rendered_holds(document, spec, example, case, path, problems)


def _reasons(
    document: Document, spec: Defined, example: Example, case: Case, budget: Budget
) -> Iterator[Found]:
    """What this document itself has against the example."""
    if isinstance(spec, Policy):
        about = spec.applies_to.actions
        usual = case.action if not about or case.action in about else about[0]
        yield from requirements_of(document, case, example.action or usual, budget)
        return
    own = next((use.parameters for use, trait in case.traits if trait is document), {})
    given = case.parameters if isinstance(spec, ComponentType) else own
    wrong = [(one.rule, one) for one in parameter_problems(spec.parameters, given, "spec.parameters")]
    yield from wrong or requirements_of(document, case, case.action, budget)


def _rendered_holds(
    document: Document,
    spec: ComponentType | Trait,
    example: Example,
    case: Case,
    path: Path,
    problems: Problems,
) -> None:
    target: Target = example.target or "kubernetes"
    site = site_values("example", Site(target)) if target != "local" else {}
    try:
        if isinstance(spec, ComponentType):
            rendered: Mapping[str, Any] = type_template(case, target, site)
        else:
            rendered = dict(trait_patches(case, target, site)).get(document.metadata.name, {})
        for at, text in enumerate(example.holds):
            where: Path = (*path, "holds", at)
            if not _RENDERED.check(text).holds(_RENDERED.bind({"rendered": rendered})):
                problems.add(where, f"the test “{example.name}”: {text} is not true", value=shown(rendered))
        if isinstance(spec, ComponentType) and runs_on(spec, target):
            compile_component(_commanded(case, rendered), target)
    except (BadExpression, Unevaluable) as error:
        problems.add(path, f"the test “{example.name}” cannot be played: {error}")
    except Uncompilable as error:
        problems.add(path, f"the test “{example.name}” renders what cannot run on {target}: {error}")


def _commanded(case: Case, rendered: Mapping[str, Any]) -> Case:
    """With a command, where neither the example nor the type has one: an author would write it."""
    spec = case.intent.spec
    if spec.command or rendered.get("command"):
        return case
    return replace(case, intent=replace(case.intent, spec=replace(spec, command=("example",))))


# --- an ordinary intent -------------------------------------------------------------------------


def _case(document: Document, spec: Defined, example: Example, path: Path, problems: Problems) -> Case | None:
    intent = _intent(document, spec, example, path, problems)
    profile = read(HardwareProfile, {**_HARDWARE, **example.profile}, (*path, "profile"), problems)
    if intent is None or profile is None:
        return None
    tenant = {"name": "example", "tier": _TIER, **example.tenant}
    around = [
        Document("Tier", Metadata(str(tenant["tier"])), Tier(priority=0, preempts=False, preemptible=True)),
        Document("Tenant", Metadata(str(tenant["name"])), Tenant(str(tenant["tier"]))),
        Document(
            "Project",
            Metadata(intent.project, tenant=str(tenant["name"])),
            Project((intent.spec.env,)),
        ),
        Document("HardwareProfile", Metadata(intent.spec.profile or _PROFILE), profile),
        *(Document("Site", Metadata(name), Site(name, queueing="site")) for name in TARGETS),
        *_standing_in(intent, document),
        document,
    ]
    return open_case(intent, Catalog.build(0, around), Facts(now=example.now), None)


def _standing_in(intent: Intent, document: Document) -> Iterator[Document]:
    """For the type and the traits of the example that neither come with a release nor are the document."""
    named = [("ComponentType", intent.spec.type), *(("Trait", use.name) for use in intent.spec.traits)]
    for kind, ref in dict.fromkeys(named):
        name, _, version = ref.partition("@")
        own = document.kind == kind and Catalog.is_named([ref], document)
        if not own and EMPTY.find(kind, ref) is None:
            at = version or "1.0.0"
            spec = ComponentType(at, "job", _ANY) if kind == "ComponentType" else Trait(at, parameters=_ANY)
            yield Document(kind, Metadata(name), spec)


def _usual_type(document: Document, spec: Defined) -> str:
    match spec:
        case ComponentType():
            return f"{document.metadata.name}@{spec.version}"
        case Trait():
            return next(iter(spec.applies_to), _TYPE)
        case Policy():
            return next(iter(spec.applies_to.types), _TYPE)


def _intent(
    document: Document, spec: Defined, example: Example, path: Path, problems: Problems
) -> Intent | None:
    own = f"{document.metadata.name}@{spec.version}" if isinstance(spec, Trait) else ""
    body: dict[str, Any] = {
        "type": _usual_type(document, spec),
        "env": "test",
        "image": "registry.example/work:1",
        "gpus": 1,
        "profile": _PROFILE,
        **({"traits": [own]} if isinstance(spec, Trait) else {}),
        **example.spec,
    }
    metadata = {"name": "example", "project": "example", **example.metadata}
    whole = {"apiVersion": "windlass.dev/v1", "kind": "Component", "metadata": metadata, "spec": body}
    parsed = parse_all([Tree(whole)])
    for problem in parsed.problems:
        problems.add(path, f"the test “{example.name}” is no intent: {problem.reason.message}")
    return parsed.intents[0].value if parsed.intents else None
