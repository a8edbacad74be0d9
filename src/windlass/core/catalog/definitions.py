"""What a component type, trait or policy can be wrong about: its schema, its expressions, what its templates
hold, and the examples it brings with it, which are played when it is uploaded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from windlass.core.admission.parameters import plain
from windlass.core.catalog.examples import play
from windlass.core.catalog.schemas import check_schema
from windlass.core.compiler.definition import TARGETS, Defined, check_definition, written_for
from windlass.core.compiler.forms import Part, check_written
from windlass.core.compiler.kubernetes.refusals import patch_refusals, refusals
from windlass.core.compiler.slurm import refused
from windlass.core.compiler.wishes import VOCABULARY, read_constraints
from windlass.core.compiler.work import told_by_platform
from windlass.core.documents.definitions import ComponentType, Policy, Trait
from windlass.core.documents.kinds import Document
from windlass.core.documents.problems import Path, Problems, dotted, meant, shown
from windlass.core.documents.scalars import Target
from windlass.core.expressions import Unevaluable
from windlass.core.secret_forms import secrets_within

MAX_RULES, MAX_EXAMPLES = 100, 100
_LEAVE_OUT = "leave it out; what is the platform's, the compiler writes"
_OTHER_KIND = "make it of one of these kinds, or leave the object out"


def check_defined(document: Document, spec: Defined, problems: Problems) -> None:
    """Examples last, and only of a document that is otherwise right."""
    before = len(problems)
    _rules_once(spec, problems)
    if not isinstance(spec, Policy):
        check_schema(spec.parameters, problems)
        _written_holds(spec, problems)
        _no_secret_in_clear(spec, problems)
    if isinstance(spec, ComponentType):
        _retires_later(spec, problems)
    if isinstance(spec, Trait):
        _constraints_known(spec, problems)
    if isinstance(spec, Policy) and not spec.rules:
        problems.add(("spec", "rules"), "a policy has at least one rule", remedy="add a rule")
    if len(problems) == before:
        check_definition(spec, problems)
    if len(problems) == before:
        play(document, spec, problems)


def _rules_once(spec: Defined, problems: Problems) -> None:
    counted = Counter(rule.name for rule in spec.rules)
    for name, times in counted.items():
        if times > 1:
            problems.add(
                ("spec", "rules"), f"the rule {name} is there {times} times", remedy="name each once"
            )
    for part, found, most in (("rules", spec.rules, MAX_RULES), ("tests", spec.tests, MAX_EXAMPLES)):
        if len(found) > most:
            problems.add(
                ("spec", part),
                f"spec.{part} has {len(found)} entries; at most {most} are allowed",
                remedy="split the document",
                value=str(len(found)),
                limit=str(most),
            )


def _written_holds(spec: ComponentType | Trait, problems: Problems) -> None:
    """What there is for each orchestrator has the form that orchestrator's compiler reads."""
    part: Part = "templates" if isinstance(spec, ComponentType) else "patches"
    for target in TARGETS:
        written = written_for(spec).of(target)
        if written is not None:
            check_written(part, target, written, ("spec", part, target), problems)
            for where, message in _owned(part, target, plain(written)):
                place = ("spec", part, target, *where)
                remedy = _OTHER_KIND if where[-1] == "kind" else _LEAVE_OUT
                problems.add(place, f"{dotted(place)}: {message}", remedy=remedy)


def _no_secret_in_clear(spec: ComponentType | Trait, problems: Problems) -> None:
    """Neither in what it writes into work nor in what its parameters are when nobody says."""
    part = "templates" if isinstance(spec, ComponentType) else "patches"
    written = {target: plain(written_for(spec).of(target)) for target in TARGETS}
    for place, what in secrets_within({part: written, "parameters": plain(spec.parameters)}, ("spec",)):
        problems.add(
            place,
            f"{dotted(place)} holds {what}",
            remedy="take it out, and make a new one: this one has been sent. With the trait secret, work"
            " names secrets and does not hold them",
            value=what,
        )


def _owned(part: Part, target: Target, written: Mapping[str, Any]) -> Iterator[tuple[Path, str]]:
    """What only the platform sets, and neither a template nor a patch may hold."""
    match target:
        case "kubernetes":
            yield from refusals(written, images=None) if part == "templates" else patch_refusals(written)
        case "slurm":
            yield from refused(written)
        case "local":
            variables = written.get("variables")
            for name in variables if isinstance(variables, Mapping) else ():
                if told_by_platform(name):
                    yield ("variables", name), f"the platform sets the variable {name} for each worker"


def _constraints_known(trait: Trait, problems: Problems) -> None:
    for name in trait.constraints:
        if name not in VOCABULARY:
            problems.add(
                ("spec", "constraints", name),
                f"{shown(name)} is no constraint that the scheduler knows",
                remedy=meant(name, VOCABULARY),
                value=shown(name),
                limit=", ".join(VOCABULARY),
            )
    known = {name: value for name, value in trait.constraints.items() if name in VOCABULARY}
    for name, value in known.items():
        if _literal(value):
            try:
                read_constraints({name: plain(value)})
            except Unevaluable as error:
                problems.add(
                    ("spec", "constraints", name),
                    f"spec.constraints.{name}: {str(error).removeprefix('constraints: ')}",
                    remedy=f"write {VOCABULARY[name]}, or expressions that give it",
                    value=shown(value),
                )


def _literal(value: Any) -> bool:
    """Whether it holds no expression: then it can be judged as it stands."""
    if isinstance(value, Mapping):
        return all(_literal(item) for item in value.values())
    if isinstance(value, list | tuple):
        return all(_literal(item) for item in value)
    return not (isinstance(value, str) and value.startswith("${"))


def _retires_later(spec: ComponentType, problems: Problems) -> None:
    if spec.deprecated is not None and spec.deprecated.since >= spec.deprecated.until:
        problems.add(
            ("spec", "deprecated", "until"),
            "the type is retired before it is deprecated",
            remedy="set until after since",
        )
