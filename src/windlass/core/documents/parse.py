"""Plain data -> a catalog document or an intent, with everything that is wrong with it at once.

Owns what every document has around its spec (apiVersion, kind, metadata, status) and the few rules
that one document alone can break. What depends on other documents is `core/catalog`; what depends
on policy is `core/admission`. A component that reaches for what is the platform's (contract §4) is
not malformed: those fields are taken out first and kept in `Intent.overreach`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, cast

from windlass.core.documents import component, modelspec
from windlass.core.documents.kinds import API_VERSION, KINDS, Document, Envelope, Kind, Metadata, Project
from windlass.core.documents.problems import Path, Problem, Problems, kind_of, meant, nearest, shown
from windlass.core.documents.shape import read
from windlass.core.documents.tree import Tree
from windlass.core.intent import Intent

COMPONENT = "Component"
NOT_YET = ("NodePool",)
"""Kinds of the contract that this release does not read."""

TOP_FIELDS = ("apiVersion", "kind", "metadata", "spec", "status")
WRITTEN_BY_PLATFORM = frozenset({"createdAt", "updatedAt", "id", "revision"})
"""In metadata of what people get and apply again. `version` too, but that one counts."""

MAX_NAMESPACE = 62
"""Of project plus env, so that `<project>-<env>` is one namespace of 63 characters at most."""

MAX_SHOWN = 300
"""Problems of one invocation, after which the rest is not looked at."""

Value_co = TypeVar("Value_co", bound="Document | Intent", covariant=True)


@dataclass(frozen=True, slots=True)
class Item(Generic[Value_co]):
    """What was read, and what it was read from. `index` counts all documents of the invocation."""

    index: int
    tree: Tree
    value: Value_co


@dataclass(frozen=True, slots=True)
class Parsed:
    documents: tuple[Item[Document], ...] = ()
    intents: tuple[Item[Intent], ...] = ()
    problems: tuple[Problem, ...] = ()

    @property
    def malformed(self) -> frozenset[tuple[str, str]]:
        """Kind and name of each that could not be read; empty where that could not be told."""
        return frozenset((problem.kind, problem.name) for problem in self.problems)

    @property
    def whole(self) -> bool:
        """Whether every document was looked at."""
        return len(self.problems) < MAX_SHOWN


def parse_all(trees: Sequence[Tree]) -> Parsed:
    """Each in its turn; what is wrong with one does not hide what is wrong with another."""
    documents: list[Item[Document]] = []
    intents: list[Item[Intent]] = []
    found: list[Problem] = []
    for index, tree in enumerate(trees):
        problems = Problems()
        value = parse(tree, problems)
        if isinstance(value, Document):
            documents.append(Item(index, tree, value))
        elif value is not None:
            intents.append(Item(index, tree, value))
        if problems:
            kind, name = _called(tree.data)
            found += problems.located(tree, index=index, kind=kind, name=name)
        if len(found) >= MAX_SHOWN:
            break  # wording a problem costs more than making one
    return Parsed(tuple(documents), tuple(intents), tuple(found))


def parse(tree: Tree, problems: Problems) -> Document | Intent | None:
    """The value, or None when `problems` has grown."""
    data = tree.data
    if type(data) is not dict:
        problems.add(
            (),
            f"a document is a mapping, not {kind_of(data)}",
            remedy="begin with apiVersion, kind, metadata and spec",
            value=shown(data),
        )
        return None
    before = len(problems)
    front = modelspec.is_modelspec(data)
    kind = modelspec.KIND if front else _read_kind(data, problems)
    _check_top(data, problems)
    if kind is None:
        return None
    metadata = _stripped(data.get("metadata"))
    if kind == COMPONENT or front:
        return _read_intent(data, metadata, tree, problems, front=front, before=before)
    document = _read_document(KINDS[kind], metadata, data.get("spec"), problems)
    return document if len(problems) == before else None


def _read_intent(
    data: Mapping[str, Any], metadata: Any, tree: Tree, problems: Problems, *, front: bool, before: int
) -> Intent | None:
    overreach: component.Reached = []
    if front:
        intent = modelspec.read_modelspec({**data, "metadata": metadata}, tree, overreach, problems)
    else:
        intent = component.read_component(metadata, data.get("spec"), tree, overreach, problems)
    if intent is not None:
        where: Path = ("spec", "env")
        _check_namespace(
            intent.project, intent.spec.env, modelspec.place_of(where) if front else where, problems
        )
    if len(problems) == before:
        return intent
    component.tell_overreach(overreach, problems)
    return None


# --- around the spec --------------------------------------------------------------------------


def _read_kind(data: Mapping[str, Any], problems: Problems) -> str | None:
    version, kind = data.get("apiVersion"), data.get("kind")
    if version != API_VERSION:
        said = "is missing" if version is None else f"is {shown(version)}, which this release does not read"
        problems.add(
            ("apiVersion",),
            f"apiVersion {said}",
            remedy=f"write apiVersion: {API_VERSION}",
            value="" if version is None else shown(version),
            limit=API_VERSION,
        )
    if type(kind) is str and (kind in KINDS or kind == COMPONENT):
        return kind
    known = (*KINDS, COMPONENT)
    if kind is None:
        problems.add(("kind",), "kind is missing", remedy=f"write one of {', '.join(known)}")
    elif kind in NOT_YET:
        problems.add(
            ("kind",),
            f"the kind {kind} is not supported by this release",
            remedy="leave the document out for now",
            value=shown(kind),
        )
    else:
        remedy = meant(kind, known) if type(kind) is str else f"write one of {', '.join(known)}"
        problems.add(
            ("kind",),
            f"{shown(kind)} is not a kind",
            remedy=remedy,
            value=shown(kind),
            limit=", ".join(known),
        )
    return None


def _check_top(data: Mapping[str, Any], problems: Problems) -> None:
    for name in data:
        if name not in TOP_FIELDS:
            # `gpus` at the top is an indentation mistake more often than a typo.
            hint = "" if nearest(name, TOP_FIELDS) else "; or does it belong below spec or metadata?"
            problems.add(
                (name,),
                f"{shown(name)} is not a field of a document",
                remedy=f"{meant(name, TOP_FIELDS)}{hint}",
                value=shown(name),
            )


def _stripped(metadata: Any) -> Any:
    """Without what only the platform writes there."""
    if type(metadata) is dict and not WRITTEN_BY_PLATFORM.isdisjoint(metadata):
        return {name: value for name, value in metadata.items() if name not in WRITTEN_BY_PLATFORM}
    return metadata


def _called(data: Any) -> tuple[str, str]:
    """Kind and name for messages, also of a document that is otherwise beyond repair."""
    if type(data) is not dict:
        return "", ""
    metadata = data.get("metadata")
    name = metadata.get("name") if type(metadata) is dict else None
    kind = data.get("kind")
    return (shown(kind) if type(kind) is str else ""), (shown(name) if type(name) is str else "")


# --- catalog documents ------------------------------------------------------------------------


def _read_document(kind: Kind, metadata: Any, spec: Any, problems: Problems) -> Document | None:
    known = read(Metadata, {} if metadata is None else metadata, ("metadata",), problems)
    body = read(kind.spec, {} if spec is None else spec, ("spec",), problems)
    if type(metadata) is dict:
        _check_scope(kind, metadata, problems)
    if known is None or body is None:
        return None
    match body:
        case Envelope():
            _check_envelope(known, body, problems)
        case Project():
            for at, env in enumerate(body.environments):
                _check_namespace(known.name, env, ("spec", "environments", at), problems)
    return Document(kind.name, known, cast(Any, body))


def _check_scope(kind: Kind, metadata: Mapping[str, Any], problems: Problems) -> None:
    tenant = metadata.get("tenant")
    if kind.scope == "tenant" and tenant is None:
        problems.add(
            ("metadata", "tenant"),
            f"metadata.tenant is missing: a document of kind {kind.name} belongs to a tenant",
            remedy="add the tenant's name to metadata",
        )
    if kind.scope == "platform" and tenant is not None:
        problems.add(
            ("metadata", "tenant"),
            f"a document of kind {kind.name} belongs to the platform, not to a tenant",
            remedy="leave metadata.tenant out",
            value=shown(tenant),
        )
    if metadata.get("project") is not None:
        problems.add(
            ("metadata", "project"),
            f"a document of kind {kind.name} does not belong to a project",
            remedy="leave metadata.project out",
            value=shown(metadata["project"]),
        )


def _check_envelope(metadata: Metadata, envelope: Envelope, problems: Problems) -> None:
    scope = envelope.scope
    if metadata.tenant is not None and metadata.tenant != scope.tenant:
        problems.add(
            ("spec", "scope", "tenant"),
            f"the envelope belongs to tenant {metadata.tenant} but its scope is of tenant {scope.tenant}",
            remedy="make metadata.tenant and spec.scope.tenant the same",
            value=scope.tenant,
            limit=metadata.tenant,
        )
    if scope.env is not None and scope.project is None:
        problems.add(
            ("spec", "scope", "env"),
            "a scope with an env needs the project it is of",
            remedy="add spec.scope.project, or leave env out",
            value=scope.env,
        )


def _check_namespace(project: str, env: str, path: Path, problems: Problems) -> None:
    length = len(project) + len(env)
    if length > MAX_NAMESPACE:
        problems.add(
            path,
            f"project {project} and environment {env} have {length} characters together;"
            f" {MAX_NAMESPACE} are allowed",
            remedy="shorten one of the two names",
            value=env,
            limit=str(MAX_NAMESPACE),
            rule="name.invalid",
        )
