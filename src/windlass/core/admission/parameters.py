"""Parameters against the JSON Schema that a component type or trait declares."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from decimal import Decimal
from functools import lru_cache
from typing import Any

import jsonschema_rs

from windlass.core.errors import Reason

_SHOWN = 200  # characters of an offending value worth repeating


def parameter_problems(schema: Mapping[str, Any], given: Mapping[str, Any], field: str) -> Iterator[Reason]:
    """Every way in which `given` breaks `schema`. An empty schema takes no parameters at all."""
    validator = _validator(_Declared(schema))
    instance = plain(given)
    if validator.is_valid(instance):
        return
    for error in validator.iter_errors(instance):
        where = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in error.instance_path)
        yield Reason(
            rule="parameter.invalid",
            field=field + where,
            value=str(error.instance)[:_SHOWN],
            message=error.message[:_SHOWN],
            remedy=_remedy(schema),
        )


def plain(value: Any) -> Any:
    """Documents hold decimals exactly; JSON Schema wants plain numbers."""
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value


_NOTHING: Mapping[str, Any] = {"type": "object", "additionalProperties": False}


def _remedy(schema: Mapping[str, Any]) -> str:
    known = sorted(schema.get("properties", {}))
    return f"it takes {', '.join(known)}" if known else "it takes no parameters"


class _Declared:
    """A schema as its document holds it. Documents do not change, so the same object says the same: asking
    that costs nothing, comparing what schemas say would cost more than to use them."""

    __slots__ = ("schema",)

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self.schema = schema

    def __hash__(self) -> int:
        return id(self.schema)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Declared) and other.schema is self.schema


@lru_cache(maxsize=1024)
def _validator(declared: _Declared) -> Any:
    schema: dict[str, Any] = plain(declared.schema) or dict(_NOTHING)
    return jsonschema_rs.validator_for(schema, retriever=never_fetched)


def never_fetched(address: str) -> Any:
    """For validators, which would ask the network for what a schema points to."""
    raise ValueError(f"{address} is not part of the schema")
