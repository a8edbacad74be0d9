"""A type's template and the patches of its traits, put together.

Mappings are merged key by key; lists of mappings by what identifies their elements; other lists grow.
Two different values at one place are an error that names both, never a silent win: so the order of
traits cannot matter.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Path = tuple[str | int, ...]
Identity = tuple[str, str | int]
_IDENTITIES = ("mountPath", "name", "key", "containerPort")
"""What tells the elements of a list apart. A mount is its path: one volume may be mounted twice."""


class Conflict(ValueError):
    """Two of them want different things at one place."""

    def __init__(self, path: Path, first: str, second: str) -> None:
        self.path = path
        super().__init__(f"{first} and {second} want different values of {written(path)}")


def written(path: Path) -> str:
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def thawed(tree: Any) -> Any:
    """A copy that can be changed: the same data in plain dicts and lists."""
    if isinstance(tree, Mapping):
        return {key: thawed(value) for key, value in tree.items()}
    if isinstance(tree, (list, tuple)):
        return [thawed(value) for value in tree]
    return tree


class Merging:
    """Remembers who wrote what, for the message of a conflict."""

    def __init__(self, owner: str) -> None:
        self._owner = owner
        self._writers: dict[Path, str] = {}
        self._positions: dict[int, dict[Identity, int]] = {}  # by list: it stays while it is merged into

    def into(self, target: dict[str, Any], patch: Mapping[str, Any], writer: str, path: Path = ()) -> None:
        for key, value in patch.items():
            at = (*path, key)
            if key not in target:
                target[key] = thawed(value)
                self._writers[at] = writer
            elif isinstance(value, Mapping) and isinstance(target[key], dict):
                self.into(target[key], value, writer, at)
            elif isinstance(value, (list, tuple)) and isinstance(target[key], list):
                self._lists(target[key], value, writer, at)
            elif target[key] != value or type(target[key]) is not type(value):
                raise Conflict(at, self._writer(at), writer)

    def _lists(self, target: list[Any], patch: Sequence[Any], writer: str, path: Path) -> None:
        positions = self._positions.get(id(target))
        if positions is None:
            positions = self._positions[id(target)] = {}
            for at, there in enumerate(target):
                if (own := _identity(there)) is not None:
                    positions.setdefault(own, at)
        for value in patch:
            identity = _identity(value)
            same = None if identity is None else positions.get(identity)
            if same is not None:
                self.into(target[same], value, writer, (*path, same))
            elif identity is not None or value not in target:
                if identity is not None:
                    positions[identity] = len(target)
                self._writers[(*path, len(target))] = writer
                target.append(thawed(value))

    def _writer(self, path: Path) -> str:
        """Whoever wrote it, or the nearest thing around it."""
        for length in range(len(path), 0, -1):
            if (found := self._writers.get(path[:length])) is not None:
                return found
        return self._owner


def _identity(value: Any) -> Identity | None:
    if not isinstance(value, Mapping):
        return None
    for name in _IDENTITIES:
        if name in value:
            found = value[name]
            return name, found if isinstance(found, (str, int)) else repr(found)
    return None
