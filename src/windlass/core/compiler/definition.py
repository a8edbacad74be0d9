"""A type, trait or policy made ready: its expressions checked, its templates read, each once.

The same reading serves the upload of a document, where every mistake becomes a problem with its path and
the place within the expression, and every later use, where there can be none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from windlass.core.compiler.names import POLICY, names_of
from windlass.core.compiler.templates import Template, expression_in, read_template, tell
from windlass.core.documents.definitions import ByTarget, ComponentType, Policy, Requirement, Trait
from windlass.core.documents.problems import Path, Problems, dotted, shown
from windlass.core.documents.scalars import Target
from windlass.core.expressions import BadExpression, Bound, Names, Program, Unevaluable

Defined = ComponentType | Trait | Policy

TARGETS: tuple[Target, ...] = ("kubernetes", "slurm", "local")
_KEPT = 2048
_UNMET, _CHANGE = "the rule {} is not fulfilled", "change the intent so that it is"


@dataclass(frozen=True, slots=True)
class Rule:
    requirement: Requirement
    when: Program | None
    require: Program
    message: Template
    remedy: Template


@dataclass(frozen=True, slots=True)
class Broken:
    """A requirement that is not met, in words for the author."""

    name: str
    message: str
    remedy: str
    limit: str


@dataclass(slots=True)
class Definition:
    """Templates are read when they are first wanted: most work needs one of three."""

    spec: Defined
    names: Names
    rules: tuple[Rule, ...]
    constraints: Template
    images: frozenset[str] = frozenset()  # of containers that it brings along
    _templates: dict[Target, tuple[Names, Template]] = field(default_factory=dict)

    def template(self, target: Target) -> tuple[Names, Template] | None:
        """What it has for an orchestrator, and the names that may be bound for it."""
        if target not in self._templates:
            written = written_for(self.spec).of(target)
            if written is None:
                return None
            assert not isinstance(self.spec, Policy)
            names, problems = names_of(self.spec, target), Problems()
            self._templates[target] = names, read_template(written, names, (target,), problems)
            assert not problems, f"a template was stored that cannot be read: {problems.reasons()}"
        return self._templates[target]


_kept: dict[int, Definition] = {}


def definition(spec: Defined) -> Definition:
    """Of a document that was accepted. The last ones used are kept; documents are immutable, so the same
    object is the same definition."""
    known = _kept.get(id(spec))
    if known is not None and known.spec is spec:
        return known
    problems = Problems()
    made = read_definition(spec, problems)
    assert not problems, f"a document was stored whose expressions do not hold: {problems.reasons()}"
    while len(_kept) >= _KEPT:
        _kept.pop(next(iter(_kept)), None)  # a scan on another thread may have been first
    _kept[id(spec)] = made
    return made


def read_definition(spec: Defined, problems: Problems) -> Definition:
    """Rules and constraints; what is wrong with them goes to `problems`."""
    names = POLICY if isinstance(spec, Policy) else names_of(spec)
    path: Path = ("spec", "rules")
    rules = [_rule(one, names, (*path, at), problems) for at, one in enumerate(spec.rules)]
    written = spec.constraints if isinstance(spec, Trait) else {}
    constraints = read_template(written, names, ("spec", "constraints"), problems)
    kept = tuple(rule for rule in rules if rule is not None)
    return Definition(spec, names, kept, constraints, frozenset(_images(written_for(spec).kubernetes)))


def _images(written: Any) -> Iterator[str]:
    """What is written out in what there is for Kubernetes, and so was approved with the document."""
    if isinstance(written, Mapping):
        image = written.get("image")
        if isinstance(image, str) and not image.startswith("${"):
            yield image
        for value in written.values():
            yield from _images(value)
    elif isinstance(written, list | tuple):
        for value in written:
            yield from _images(value)


def check_definition(spec: Defined, problems: Problems) -> None:
    """Everything in it that is an expression."""
    read_definition(spec, problems)
    if isinstance(spec, Policy):
        return
    part = "templates" if isinstance(spec, ComponentType) else "patches"
    for target in TARGETS:
        written = written_for(spec).of(target)
        if written is not None:
            read_template(written, names_of(spec, target), ("spec", part, target), problems)


def written_for(spec: Defined) -> ByTarget:
    match spec:
        case ComponentType():
            return spec.templates
        case Trait():
            return spec.patches
        case Policy():
            return ByTarget()


def broken(defined: Definition, bound: Bound) -> Iterator[Broken]:
    """The requirements that these values do not meet. What cannot be evaluated is not met."""
    for rule in defined.rules:
        one = rule.requirement
        try:
            if rule.when is not None and not rule.when.holds(bound):
                continue
            if rule.require.holds(bound):
                continue
            message, remedy = str(rule.message(bound)), str(rule.remedy(bound))
        except Unevaluable as error:
            message = f"the rule {one.name} cannot be evaluated: {error}"
            remedy = "ask a platform engineer to mend the rule"
        yield Broken(one.name, message, remedy, shown(one.require))


def _rule(one: Requirement, names: Names, path: Path, problems: Problems) -> Rule | None:
    when = _truth(one.when, names, (*path, "when"), problems) if one.when else None
    require = _truth(one.require, names, (*path, "require"), problems)
    message = read_template(one.message or _UNMET.format(one.name), names, (*path, "message"), problems)
    remedy = read_template(one.remedy or _CHANGE, names, (*path, "remedy"), problems)
    return Rule(one, when, require, message, remedy) if require is not None else None


def _truth(text: str, names: Names, path: Path, problems: Problems) -> Program | None:
    """An expression that says yes or no; written plain, or as `${…}` like everywhere else."""
    inner = expression_in(text) or text
    try:
        program = names.check(inner)
    except BadExpression as error:
        tell(error, inner, path, problems)
        return None
    if program.type not in ("bool", "dyn"):
        problems.add(
            path,
            f"{dotted(path)} gives {program.type}, and a rule says true or false",
            remedy="compare it with something",
            value=shown(inner),
        )
        return None
    return program


def constraint_values(defined: Definition, values: Mapping[str, Any]) -> Mapping[str, Any]:
    rendered = defined.constraints(defined.names.bind(values))
    return rendered if isinstance(rendered, Mapping) else {}
