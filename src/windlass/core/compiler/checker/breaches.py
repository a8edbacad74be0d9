"""What the checker says: which law is broken, where, what is there and what was decided."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

Law = Literal[
    "shape",
    "kind",
    "name",
    "namespace",
    "label",
    "owned",
    "gate",
    "gang",
    "retries",
    "image",
    "command",
    "variable",
    "secret",
    "volume",
    "host",
    "privilege",
    "token",
    "gpus",
    "amount",
    "queue",
    "priority",
    "toleration",
    "isolation",
    "node",
    "time",
    "exposure",
    "account",
    "script",
]

LAWS: Mapping[Law, str] = {
    "shape": "work is made of parts that can be read and judged",
    "kind": "a component is made of the kinds that a component may hold",
    "name": "a component's objects have its name",
    "namespace": "a component stays in its cell",
    "label": "labels of attribution say whose the work is, and only the platform writes them",
    "owned": "what the platform owns is written by the platform",
    "gate": "nothing starts before its queue lets it",
    "gang": "a gang has the size that was admitted",
    "retries": "work is tried again as often as was admitted",
    "image": "the author's image runs, and none that nobody approved",
    "command": "the author's command runs",
    "variable": "variables arrive as they were written",
    "secret": "a secret is named, never shown",
    "volume": "a volume does not reach the node, nor what was not granted",
    "host": "work does not enter the namespaces of its node",
    "privilege": "work has no more rights than it needs",
    "token": "work gets no token of the cluster",
    "gpus": "work holds the GPUs that were admitted and billed, no others",
    "amount": "work asks for the CPU and memory of its profile, not more",
    "queue": "work waits in the queue it was admitted to",
    "priority": "work has the priority it was admitted with",
    "toleration": "only traits let work onto tainted nodes",
    "isolation": "work is kept apart as its site and its traits say",
    "node": "work runs where it was placed",
    "time": "work ends at its time limit",
    "exposure": "work is reached through what the platform opens",
    "account": "work is charged to its tenant",
    "script": "a script holds the compiler's statements and quoted words, nothing else",
}
assert set(LAWS) == set(get_args(Law))

Path = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Breach:
    law: Law
    path: str
    found: str
    decided: str

    @property
    def message(self) -> str:
        return f"{LAWS[self.law]}: {self.path} is {self.found}; decided was {self.decided}"


@dataclass(frozen=True, slots=True)
class Allowed:
    """What the intent's type and traits were allowed beyond the work itself. Nothing, unless it is said."""

    tolerations: tuple[Mapping[str, Any], ...] = ()
    claims: frozenset[str] = frozenset()
    secrets: frozenset[str] = frozenset()
    images: frozenset[str] = frozenset()  # of containers beside the author's
    runs: int | None = None  # of a sweep: more than work at once
    clear: frozenset[str] = field(default=frozenset(), repr=False)  # values that nobody may see


NOTHING_MORE = Allowed()


def breach(law: Law, path: Path, found: Any, decided: Any) -> Breach:
    return Breach(law, written(path), shown(found), shown(decided))


def written(path: Path) -> str:
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else str(part)
    return text


def shown(value: Any) -> str:
    """For a person: short, and what is missing in words."""
    if value is None:
        return "missing"
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= 120 else f"{text[:117]}..."


def mapping(value: Any) -> Mapping[str, Any]:
    """The mapping that it should be, or an empty one: a law that misses something there says so."""
    return value if isinstance(value, dict) else {}


_PLATFORM_DOMAINS = ("windlass.dev", "kueue.x-k8s.io", "cost", "kubernetes.io", "k8s.io")


def of_the_platform(key: str) -> bool:
    """Whether a label or annotation is one that only the platform and Kubernetes write."""
    domain, slash, _ = key.partition("/")
    return bool(slash) and any(domain == own or domain.endswith(f".{own}") for own in _PLATFORM_DOMAINS)


def same(found: Any, wanted: Any) -> bool:
    """As JSON compares: true is not 1, at any depth."""
    if isinstance(found, Mapping) and isinstance(wanted, Mapping):
        return found.keys() == wanted.keys() and all(same(found[key], wanted[key]) for key in wanted)
    if isinstance(found, list | tuple) and isinstance(wanted, list | tuple):
        return len(found) == len(wanted) and all(map(same, found, wanted))
    return bool(found == wanted) and isinstance(found, bool) == isinstance(wanted, bool)


def among(value: Any, names: Collection[str]) -> bool:
    return isinstance(value, str) and value in names


def listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else []


def misshapen(
    tree: Mapping[str, Any], path: Path, *, lists: Collection[str] = (), mappings: Collection[str] = ()
) -> Iterator[Breach]:
    """What is not the list or the mapping it should be: `listed` and `mapping` would pass over it."""
    for key in lists:
        value = tree.get(key)
        if value is not None and not (
            isinstance(value, list) and all(isinstance(one, dict) for one in value)
        ):
            yield breach("shape", (*path, key), type(value).__name__, "a list of mappings")
    for key in mappings:
        if tree.get(key) is not None and not isinstance(tree[key], dict):
            yield breach("shape", (*path, key), type(tree[key]).__name__, "a mapping")
