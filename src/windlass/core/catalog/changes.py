"""The one way a catalog changes: documents in, the next catalog out, or every reason why not.

Pure: the caller stores what `Change` says, in one transaction with the revision. The next catalog is
judged as a whole, so the order of documents within one invocation does not matter, and a document
that nobody touched can still be what stands in the way.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from windlass.core.catalog.references import NOUNS, check_references
from windlass.core.catalog.rules import check_document
from windlass.core.catalog.shipped import SHIPPED
from windlass.core.catalog.snapshot import IMPLIED_SITE, Catalog
from windlass.core.catalog.whole import CONFLICT, check_whole
from windlass.core.documents.kinds import Document, DocumentKey
from windlass.core.documents.parse import Item
from windlass.core.documents.problems import Located, Problem, Problems, told
from windlass.core.documents.wire import canonical
from windlass.core.errors import Conflict, Invalid, NotFound, Reason, StaleVersion, WindlassError


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one document. `document` carries its new version; a deleted one its last."""

    key: DocumentKey
    result: Literal["created", "changed", "unchanged", "deleted"]
    document: Document


@dataclass(frozen=True, slots=True)
class Change:
    """`catalog` is the next one, or the same one when nothing changed."""

    catalog: Catalog
    outcomes: tuple[Outcome, ...]

    @property
    def written(self) -> tuple[Document, ...]:
        """What has to be stored."""
        return tuple(one.document for one in self.outcomes if one.result in ("created", "changed"))


def apply_documents(
    catalog: Catalog,
    documents: Sequence[Document],
    *,
    expected: Mapping[DocumentKey, int] | None = None,
    sources: Mapping[DocumentKey, Located] | None = None,
) -> Change:
    """All or nothing. `expected` names versions the caller has seen (0: must not exist yet); `sources`
    know the lines. Raises Invalid, Conflict or StaleVersion, with every reason there is."""
    _refuse_repeated(documents)
    outcomes = tuple(_outcome(catalog, document) for document in documents)
    _refuse_stale(catalog, documents, outcomes, expected or {})
    changed = {one.key: one.document for one in outcomes if one.result != "unchanged"}
    if not changed:
        return Change(catalog, outcomes)
    following = Catalog.build(catalog.revision + 1, {**catalog.documents, **changed}.values())
    order = {one.key: at for at, one in enumerate(outcomes)}
    problems = _new_problems(catalog, following, order, sources or {})
    if problems:
        raise _refused(_told_once(problems, _after(order)))
    return Change(following, outcomes)


def problems_beside(
    catalog: Catalog, items: Sequence[Item[Document]], unread: Collection[tuple[str, str]]
) -> list[Problem]:
    """What is wrong with the well-formed documents of an invocation whose others, `unread` by kind and
    name, are malformed. Only what those cannot put right."""
    changed = {item.value.key: item.value for item in items}
    following = Catalog.build(catalog.revision + 1, {**catalog.documents, **changed}.values())
    order = {item.value.key: item.index for item in items}
    sources = {item.value.key: item.tree for item in items}
    repeated = [
        Problem(reason, (), item.index, item.value.kind, item.value.metadata.name)
        for item, reason in zip(items, _repeats([item.value for item in items]), strict=True)
        if reason is not None
    ]
    found = _told_once(_new_problems(catalog, following, order, sources, unread), _after(order))
    return [*repeated, *found]


def delete_document(catalog: Catalog, key: DocumentKey, *, expected: int | None = None) -> Change:
    """Raises NotFound, StaleVersion, or Conflict that names everyone who still needs it. Live components
    are the caller's to look for: the catalog does not know them."""
    document = catalog.documents.get(key)
    if document is None:
        if key in SHIPPED or key == IMPLIED_SITE.key:
            raise Conflict(
                f"{key} comes with Windlass and cannot be deleted", remedy="leave it; it costs nothing"
            )
        raise NotFound(f"there is no {key}", remedy=f"`windlass get {key.kind.lower()}` lists what is there")
    if expected is not None and expected != document.metadata.version:
        raise _stale([_stale_reason(key, expected, document.metadata.version)])
    rest = {other: kept for other, kept in catalog.documents.items() if other != key}
    following = Catalog.build(catalog.revision + 1, rest.values())
    problems = _new_problems(catalog, following, {}, {})
    if problems:
        raise _in_use(key, problems)
    return Change(following, (Outcome(key, "deleted", document),))


# --- versions ---------------------------------------------------------------------------------


def _outcome(catalog: Catalog, document: Document) -> Outcome:
    key = document.key
    present = catalog.documents.get(key)
    same = present or SHIPPED.get(key)
    if same is not None and canonical(same) == canonical(document):
        return Outcome(key, "unchanged", same)
    if present is None:
        return Outcome(key, "created", _stamped(document, 1))
    version = present.metadata.version or 0
    return Outcome(key, "changed", _stamped(document, version + 1))


def _stamped(document: Document, version: int) -> Document:
    return replace(document, metadata=replace(document.metadata, version=version))


def _repeats(documents: Sequence[Document]) -> Iterator[Reason | None]:
    """Of each, what is wrong with it when it was given before."""
    seen: set[DocumentKey] = set()
    for document in documents:
        again = Reason("document.invalid", f"{document.key} is given twice", remedy="keep one of the two")
        yield again if document.key in seen else None
        seen.add(document.key)


def _refuse_repeated(documents: Sequence[Document]) -> None:
    reasons = [reason for reason in _repeats(documents) if reason is not None]
    if reasons:
        raise Invalid(reasons[0].message, remedy=reasons[0].remedy, reasons=reasons)


def _refuse_stale(
    catalog: Catalog,
    documents: Sequence[Document],
    outcomes: Sequence[Outcome],
    expected: Mapping[DocumentKey, int],
) -> None:
    reasons = []
    for document, outcome in zip(documents, outcomes, strict=True):
        seen = expected.get(document.key)
        if seen is None and outcome.result != "unchanged":
            # The version in a file that was got, edited and applied; applying it again is no conflict.
            seen = document.metadata.version
        present = catalog.documents.get(document.key)
        version = present.metadata.version if present else 0
        if seen is not None and seen != version:
            reasons.append(_stale_reason(document.key, seen, version))
    if reasons:
        raise _stale(reasons)


def _stale_reason(key: DocumentKey, seen: int, version: int | None) -> Reason:
    now = f"it is at version {version} now" if version else "it does not exist now"
    was = f"version {seen}" if seen else "a document that did not exist"
    return Reason(
        StaleVersion.code,
        f"{key}: the change was made to {was}; {now}",
        remedy="get it again and make the change there",
        field="metadata.version",
        value=str(seen),
        limit=str(version or 0),
    )


def _stale(reasons: list[Reason]) -> StaleVersion:
    return StaleVersion(reasons[0].message, remedy=reasons[0].remedy, reasons=reasons)


# --- the whole --------------------------------------------------------------------------------


def _new_problems(
    before: Catalog,
    after: Catalog,
    order: Mapping[DocumentKey, int],
    sources: Mapping[DocumentKey, Located],
    unread: Collection[tuple[str, str]] = (),
) -> list[Problem]:
    """What is wrong with the next catalog, less what was wrong with untouched documents already: a
    release with stricter rules must not lock an installation out of every change."""
    found = _judged(after, order, unread)
    if not found:
        return []
    old = _judged(before, ())
    behind = _after(order)
    problems: list[Problem] = []
    for key, collected in found.items():
        known = set() if key in order else {_gist(problem) for problem in _placed(key, old.get(key))}
        placed = _placed(key, collected, sources.get(key), order.get(key, behind))
        problems += [problem for problem in placed if _gist(problem) not in known]
    return sorted(problems, key=lambda problem: problem.index)


def _after(order: Mapping[DocumentKey, int]) -> int:
    """The place of documents that were not given: behind all that were."""
    return max(order.values(), default=-1) + 1


def _gist(problem: Problem) -> tuple[str, ...]:
    """Without the remedy and the limit, which list other documents."""
    reason = problem.reason
    return reason.rule, reason.field, reason.message


def _told_once(problems: Sequence[Problem], given: int) -> list[Problem]:
    """What several documents share (a sum, a place) is told of the ones that were given now."""
    told_of_given = {(one.reason.rule, one.reason.message) for one in problems if one.index < given}
    clashes = any(rule == CONFLICT for rule, _ in told_of_given)
    kept: list[Problem] = []
    seen: set[tuple[str, str]] = set()
    for problem in problems:
        key = (problem.reason.rule, problem.reason.message)
        shared = key in seen or key in told_of_given or (clashes and problem.reason.rule == CONFLICT)
        if problem.index < given or not shared:
            kept.append(problem)
        seen.add(key)
    return kept


def _judged(
    catalog: Catalog, given: Collection[DocumentKey], unread: Collection[tuple[str, str]] = ()
) -> dict[DocumentKey, Problems]:
    """Every document that is wrong about something. Only those given now are looked at by themselves: the
    others have not changed, and what they say to each other is looked at always."""
    problems = {key: Problems() for key in catalog.documents}
    for key, document in catalog.documents.items():
        if key in given:
            check_document(document, problems[key])
        check_references(document, catalog, problems[key], unread)
    check_whole(catalog, problems, {kind for kind, _ in unread})
    return {key: collected for key, collected in problems.items() if collected}


def _placed(
    key: DocumentKey, problems: Problems | None, source: Located | None = None, index: int = 0
) -> tuple[Problem, ...]:
    if problems is None:
        return ()
    return problems.located(source, index=index, kind=key.kind, name=key.name)


def _refused(problems: Sequence[Problem]) -> WindlassError:
    """Invalid when anything is; only a change that is right in itself can be a mere conflict."""
    reasons = told(problems, always=True)
    error = Conflict if all(reason.rule == CONFLICT for reason in reasons) else Invalid
    first = reasons[0]
    more = f" (and {len(reasons) - 1} more)" if len(reasons) > 1 else ""
    return error(f"{first.message}{more}", remedy=first.remedy if len(reasons) == 1 else "", reasons=reasons)


def _in_use(key: DocumentKey, problems: Sequence[Problem]) -> Conflict:
    users = list(dict.fromkeys(problem.document for problem in problems))
    reasons = [_use(key, problem) for problem in problems]
    return Conflict(
        f"the {NOUNS.get(key.kind, key.kind.lower())} {key.name} is in use by {', '.join(users)}",
        remedy="change or delete those first",
        reasons=reasons,
    )


def _use(key: DocumentKey, problem: Problem) -> Reason:
    """How one document needs `key`: it names it, or it counts on what it grants."""
    field = problem.reason.field
    if key.kind == "Tenant" and field == "metadata.tenant":
        message, remedy = f"{problem.document} belongs to it", f"delete {problem.document} first"
    elif problem.reason.value.partition("@")[0] == key.name.partition("@")[0]:
        message = f"{problem.document} uses it in {field}"
        remedy = f"change or delete {problem.document} first"
    else:
        message, remedy = f"{problem.document}: {problem.reason.message}", problem.reason.remedy
    return replace(problem.reason, rule=CONFLICT, message=message, remedy=remedy, limit="")
