"""Expressions that platform engineers write in documents: CEL, the language of Kubernetes' own admission
policies. Typed, without side effects, bounded in time.

Everything the platform needs of the language is here, behind three calls, so that another implementation
could take the place of this one:

    names = Names.of({"spec.gpus": "int", "parameters.port": "int"})
    program = names.check("spec.gpus * 2")        # raises BadExpression with line and column
    program.value(names.bind({"spec.gpus": 4}))   # raises Unevaluable; never a half answer

A name is the whole dotted path (`spec.gpus`), declared with its type; what is not declared cannot be
named. A failing evaluation is an exception and never a value, because the library's own answer to it is a
value that happens to be true.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import isfinite
from typing import Any

from cel_expr_python import cel
from cel_expr_python.ext import ext_math, ext_strings

from windlass.core.expression_cost import MAX_COST, SCALAR, WORST, Estimate, Size, cost_of

MAX_TEXT = 4096
"""Characters of one expression. The library bounds depth (32) and iterations (10,000) by itself; what it may
come to is bounded by `expression_cost.py`."""

SCALARS: Mapping[str, cel.Type] = {
    "bool": cel.Type.BOOL,
    "int": cel.Type.INT,
    "double": cel.Type.DOUBLE,
    "string": cel.Type.STRING,
    "timestamp": cel.Type.TIMESTAMP,
    "dyn": cel.Type.DYN,
}
_NO_TEXT = (int, bool, float)
_NUMBERS = frozenset(("bool", "int", "double", "timestamp"))
_TOGETHER = 128
"""So many expressions of one budget at least may go uncounted: what a document can have of them."""
_TOO_MUCH = f"it could come to more than {MAX_COST // 1024 // 1024} MiB"
_NONE = ctypes.py_object(None)
_PLACE = re.compile(r"<input>:(-?\d+):(-?\d+): (.*)")
_STATUS = re.compile(r"^[A-Z_]+: |\s*\[[A-Z_]+\]$| \(in container ''\)")


class BadExpression(ValueError):
    """It can never be evaluated. `line` and `column` count from one, within the expression."""

    def __init__(self, message: str, line: int = 1, column: int = 1) -> None:
        super().__init__(message)
        self.message, self.line, self.column = message, line, column


class Unevaluable(ValueError):
    """It has no value for what it was given: a missing key, a division by zero, a budget exceeded."""


@dataclass(frozen=True, slots=True)
class Names:
    """What an expression may name, each with its type: `int`, `list(string)`, `map(string, dyn)`, …"""

    types: tuple[tuple[str, str], ...]

    @classmethod
    def of(cls, types: Mapping[str, str]) -> Names:
        return cls(tuple(sorted(types.items())))

    def check(self, text: str) -> Program:
        return _checked(self, text)

    def bind(self, values: Mapping[str, Any], budget: Budget | None = None) -> Bound:
        """Values for the names, to be used by any number of programs: together they have one budget."""
        for value in values.values():
            if type(value) not in _NO_TEXT:
                _refuse_nul(value)
        return Bound(_environment(self).Activation(dict(values)), values, budget or Budget())


@dataclass(slots=True)
class Budget:
    """What evaluations may still come to. A hundred rules that each stay below a limit are as bad as one
    that does not, so what is judged together shares one of these."""

    left: int = MAX_COST

    def take(self, cost: int) -> None:
        self.left -= cost
        if self.left < 0:
            raise Unevaluable(_TOO_MUCH)


@dataclass(frozen=True)
class Bound:
    activation: cel.Activation
    values: Mapping[str, Any]
    budget: Budget

    @cached_property
    def sizes(self) -> Mapping[str, Size]:
        return {name: Size.of(value) for name, value in self.values.items()}


@dataclass(frozen=True, slots=True)
class Program:
    """A checked expression. `type` is what it gives, `dyn` where that shows only in the evaluation. One that
    could come to too much has a cost, which is looked at with the values at hand."""

    text: str
    type: str
    _expression: cel.Expression
    _cost: Estimate | None = None

    def value(self, bound: Bound) -> Any:
        """Plain data: text, numbers, booleans, None, lists, mappings with text for keys."""
        if self._cost is not None:
            bound.budget.take(self._cost(bound.sizes)[1])
        try:
            found = self._expression.eval(bound.activation)
        except RuntimeError as error:
            raise Unevaluable(_told(str(error))) from None
        if found.type() == cel.Type.ERROR:
            raise Unevaluable(_told(str(found.value())))
        given = found.plain_value()
        _keep_nulls(given)
        return _plain(given)

    def holds(self, bound: Bound) -> bool:
        """Only true is true."""
        return self.value(bound) is True


@lru_cache(maxsize=4096)
def _checked(names: Names, text: str) -> Program:
    if len(text) > MAX_TEXT:
        raise BadExpression(f"the expression has {len(text)} characters; at most {MAX_TEXT} are allowed")
    try:
        expression = _environment(names).compile(text)
    except RuntimeError as error:
        raise _placed(str(error)) from None
    cost = cost_of(expression.serialize())
    if cost({})[1] > MAX_COST:
        raise BadExpression(_TOO_MUCH)
    worst = {name: SCALAR if type in _NUMBERS else WORST for name, type in names.types}
    harmless = cost(worst)[1] <= MAX_COST // _TOGETHER
    return Program(text, expression.return_type().name().lower(), expression, None if harmless else cost)


@lru_cache(maxsize=512)
def _environment(names: Names) -> cel.Env:
    return cel.NewEnv(
        variables={name: _type(type) for name, type in names.types},
        extensions=[ext_strings.ExtStrings(), ext_math.ExtMath()],
    )


def _type(text: str) -> cel.Type:
    if text in SCALARS:
        return SCALARS[text]
    outer, _, inner = text.removesuffix(")").partition("(")
    if outer == "list":
        return cel.Type.List(_type(inner))
    assert outer == "map", f"no such type: {text}"
    key, _, value = inner.partition(", ")
    return cel.Type.Map(_type(key), _type(value))


def _placed(message: str) -> BadExpression:
    found = _PLACE.search(message)
    if found is None:
        return BadExpression(_told(message))
    line, column = max(1, int(found[1])), max(1, int(found[2]))
    return BadExpression(_told(found[3]), line, column)


def _told(message: str) -> str:
    """The library's words without its status codes and pictures."""
    return _STATUS.sub("", message.splitlines()[0]).strip()


def _refuse_nul(value: Any) -> None:
    """The library ends text there, and would evaluate something else than was given."""
    if isinstance(value, str):
        if "\x00" in value:
            raise Unevaluable("a value holds a NUL character")
    elif isinstance(value, dict | Mapping):
        for key, item in value.items():
            _refuse_nul(key)
            _refuse_nul(item)
    elif isinstance(value, list):
        for item in value:
            _refuse_nul(item)


def _keep_nulls(value: Any) -> None:
    """With every null it gives, the library also gives up a reference to None that is not its own. Until
    Python 3.12 made None immortal those can run out, and then the whole process ends. Each is paid back."""
    if value is None:
        ctypes.pythonapi.Py_IncRef(_NONE)
    elif isinstance(value, list):
        for item in value:
            _keep_nulls(item)
    elif isinstance(value, dict):
        for item in value.values():
            _keep_nulls(item)


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        for key in value:
            if not isinstance(key, str):
                raise Unevaluable(f"a mapping has the key {key!r}; keys are text")
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, float) and not isfinite(value):
        raise Unevaluable("the value is not a finite number")
    if value is None or isinstance(value, str | bool | int | float):
        return value
    raise Unevaluable(f"the value is of a type that documents do not have: {type(value).__name__}")
