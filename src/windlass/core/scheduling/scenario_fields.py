"""Reading a scenario's YAML strictly: every error at once, each with its line and field.

Values are taken from their text, never through a float, so `0.25` of a GPU is exactly 250
thousandths. A reader that meets an error notes it and goes on with a harmless value.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from difflib import get_close_matches

import yaml

from windlass.core.errors import Invalid, Reason
from windlass.core.units import Micros, MilliGpu, Ms, parse_gpus, parse_money

MAX_NODES = 5_000_000
"""YAML nodes in one document; aliases that multiply past it are an attack or a mistake."""
_NUMBER = re.compile(r"-?[0-9]{1,15}(\.[0-9]{1,3})?")
_INTEGER = re.compile(r"-?[0-9]{1,15}")


_NULL = "tag:yaml.org,2002:null"
"""A field that is null is one that is absent: programs that write scenarios write so."""


class Errors:
    def __init__(self) -> None:
        self.reasons: list[Reason] = []

    def add(self, at: yaml.Node, field: str, message: str, remedy: str = "", value: str = "") -> None:
        line = at.start_mark.line + 1
        self.reasons.append(Reason("document.invalid", message, remedy, field, value, line=line))

    def raise_if_any(self) -> None:
        if self.reasons:
            count = len(self.reasons)
            noun = "error" if count == 1 else "errors"
            raise Invalid(f"the scenario has {count} {noun}", reasons=self.reasons)


def compose(text: str) -> yaml.Node:
    """The one YAML document in `text`, as nodes that know their lines."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        documents = list(yaml.compose_all(text, Loader=loader))
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        problem = getattr(error, "problem", None) or str(error)
        line = mark.line + 1 if mark is not None else None
        reason = Reason("document.invalid", f"this is not YAML: {problem}", line=line)
        raise Invalid("the scenario is not YAML", reasons=[reason]) from None
    if len(documents) != 1 or documents[0] is None:
        reason = Reason("document.invalid", "a scenario is exactly one YAML document")
        raise Invalid("the scenario is not one document", reasons=[reason])
    root: yaml.Node = documents[0]
    _refuse_growth(root)
    return root


def _refuse_growth(root: yaml.Node) -> None:
    """Aliases may repeat a part, but not contain themselves and not multiply without end."""
    seen = 0
    pending = [(root, 0)]
    while pending:
        node, depth = pending.pop()
        seen += 1
        if seen > MAX_NODES or depth > 50:
            reason = Reason("document.invalid", "aliases make this document endless or far too large")
            raise Invalid("the scenario is too large", reasons=[reason])
        if isinstance(node, yaml.MappingNode):
            pending.extend((part, depth + 1) for pair in node.value for part in pair)
        elif isinstance(node, yaml.SequenceNode):
            pending.extend((part, depth + 1) for part in node.value)


class Fields:
    """The fields of one mapping. `path` names it in errors, such as `nodes[0]`."""

    def __init__(self, errors: Errors, node: yaml.Node, path: str, known: Sequence[str]) -> None:
        self.errors, self.node, self.path = errors, node, path
        self.nodes: dict[str, yaml.Node] = {}
        if not isinstance(node, yaml.MappingNode):
            errors.add(node, path, f"{path or 'the scenario'} is a mapping of fields")
            return
        for key, value in node.value:
            self._enter(key, value, known)

    def _enter(self, key: yaml.Node, value: yaml.Node, known: Sequence[str]) -> None:
        name = key.value if isinstance(key, yaml.ScalarNode) else ""
        where = self.at(str(name))
        if name in self.nodes:
            self.errors.add(key, where, f"{where} is written twice")
        elif name not in known:
            near = get_close_matches(str(name), known, n=1)
            remedy = f"Did you mean {near[0]}?" if near else f"Known fields: {', '.join(known)}."
            self.errors.add(key, where, f"{where} is not a field of a scenario", remedy)
        elif value.tag != _NULL:
            self.nodes[name] = value

    @property
    def name(self) -> str:
        """What it calls itself; empty where that is missing or wrong."""
        node = self.nodes.get("name")
        return str(node.value) if isinstance(node, yaml.ScalarNode) else ""

    def at(self, name: str) -> str:
        return f"{self.path}.{name}" if self.path else name

    def has(self, name: str) -> bool:
        return name in self.nodes

    def wrong(self, name: str, message: str, remedy: str = "") -> None:
        node = self.nodes.get(name, self.node)
        value = str(node.value) if isinstance(node, yaml.ScalarNode) else ""
        self.errors.add(node, self.at(name), f"{self.at(name)} {message}", remedy, value)

    def require(self, *names: str) -> None:
        for name in names:
            if name not in self.nodes and isinstance(self.node, yaml.MappingNode):
                self.wrong(name, "is required")

    def text(self, name: str, default: str = "") -> str:
        node = self.nodes.get(name)
        if node is None:
            return default
        if not isinstance(node, yaml.ScalarNode) or node.tag != "tag:yaml.org,2002:str" or not node.value:
            self.wrong(name, "is a text")
            return default
        return str(node.value)

    def choice(self, name: str, allowed: Sequence[str], default: str) -> str:
        value = self.text(name, default)
        if value not in allowed:
            self.wrong(name, f"is one of {', '.join(allowed)}")
            return default
        return value

    def flag(self, name: str, *, default: bool) -> bool:
        node = self.nodes.get(name)
        if node is None:
            return default
        if not isinstance(node, yaml.ScalarNode) or node.value not in ("true", "false"):
            self.wrong(name, "is true or false")
            return default
        return bool(node.value == "true")

    def integer(self, name: str, default: int, *, least: int | None = None, most: int | None = None) -> int:
        digits = self._scalar(name)
        if digits is None:
            return default
        if not _INTEGER.fullmatch(digits):
            self.wrong(name, "is a whole number")
            return default
        if least is not None and int(digits) < least:
            self.wrong(name, f"is at least {least}")
            return default
        if most is not None and int(digits) > most:
            self.wrong(name, f"is at most {most}")
            return default
        return int(digits)

    def optional_integer(self, name: str, *, least: int) -> int | None:
        return self.integer(name, 0, least=least) if self.has(name) else None

    def seconds(self, name: str, default: int = 0, *, least: int | None = None) -> Ms:
        """A time or a length of time in seconds, in thousandths of which it is kept."""
        return Ms(self.thousandths(name, default, least=least))

    def thousandths(self, name: str, default: int = 0, *, least: int | None = None) -> int:
        digits = self._scalar(name)
        if digits is None:
            return default
        if not _NUMBER.fullmatch(digits):
            self.wrong(name, "is a number with at most three decimals")
            return default
        whole, _, rest = digits.lstrip("-").partition(".")
        value = int(whole) * 1000 + int(rest.ljust(3, "0"))
        value = -value if digits.startswith("-") else value
        if least is not None and value < least:
            self.wrong(name, f"is at least {least}")
            return default
        return value

    def gpus(self, name: str, default: int = 0) -> MilliGpu:
        digits = self._scalar(name)
        if digits is None:
            return MilliGpu(default)
        try:
            return parse_gpus(digits)
        except ValueError as error:
            self.wrong(name, f"is wrong: {error}")
            return MilliGpu(default)

    def money(self, name: str) -> Micros:
        digits = self._scalar(name)
        if digits is None:
            return Micros(0)
        try:
            return parse_money(digits)
        except ValueError as error:
            self.wrong(name, f"is wrong: {error}")
            return Micros(0)

    def optional_gpus(self, name: str) -> MilliGpu | None:
        return self.gpus(name) if self.has(name) else None

    def entries(self, name: str) -> Iterator[tuple[str, yaml.Node]]:
        """The elements of a list, each with its path."""
        node = self.nodes.get(name)
        if node is None:
            return
        if not isinstance(node, yaml.SequenceNode):
            self.wrong(name, "is a list")
            return
        for index, element in enumerate(node.value):
            yield f"{self.at(name)}[{index}]", element

    def texts(self, name: str) -> tuple[str, ...]:
        found = []
        for path, node in self.entries(name):
            if isinstance(node, yaml.ScalarNode) and node.tag == "tag:yaml.org,2002:str" and node.value:
                found.append(str(node.value))
            else:
                self.errors.add(node, path, f"{path} is a text")
        return tuple(found)

    def integers(self, name: str) -> tuple[int, ...]:
        found = []
        for path, node in self.entries(name):
            if isinstance(node, yaml.ScalarNode) and re.fullmatch(r"[0-9]{1,6}", node.value):
                found.append(int(node.value))
            else:
                self.errors.add(node, path, f"{path} is a whole number from 0 on")
        return tuple(found)

    def labels(self, name: str) -> dict[str, str]:
        node = self.nodes.get(name)
        if node is None:
            return {}
        if not isinstance(node, yaml.MappingNode):
            self.wrong(name, "is a mapping of labels")
            return {}
        found: dict[str, str] = {}
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode) or not isinstance(value, yaml.ScalarNode):
                self.errors.add(key, self.at(name), f"{self.at(name)} maps a text to a text")
            elif key.value in found:
                self.errors.add(key, self.at(name), f"{self.at(name)}.{key.value} is written twice")
            else:
                found[key.value] = value.value
        return found

    def _scalar(self, name: str) -> str | None:
        node = self.nodes.get(name)
        if node is None:
            return None
        if not isinstance(node, yaml.ScalarNode):
            self.wrong(name, "is a number")
            return None
        return str(node.value)
