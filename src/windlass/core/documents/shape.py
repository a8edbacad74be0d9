"""Any frozen dataclass of `kinds.py` or `intent.py`, read from and written to plain data.

The annotations are the shape: `read` refuses what is not declared, `write` gives the natural short
form (defaults left out), `json_schema` describes the same to other programs. The plan of a class is
made once; after that reading costs a dictionary lookup and a check per field, because a submit has
a millisecond for everything.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, fields
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from windlass.core.documents.forms import BAD, BOOLEAN, FORMS, GPUS, INTEGER, MONEY, TEXT, Codec, one_of, same
from windlass.core.documents.problems import Path, Problems, dotted, kind_of, meant, shown
from windlass.core.documents.scalars import Form
from windlass.core.errors import Reason
from windlass.core.units import Micros, MilliGpu

T = TypeVar("T")

MAX_ITEMS = 1000
"""Of one list or one mapping."""


def read(cls: type[T], data: Any, path: Path | str, problems: Problems | list[Reason]) -> T | None:
    """The value, or None when something was wrong; then `problems` says all of it.

    A plain list of reasons will do where nobody asks for lines.
    """
    collected = problems if isinstance(problems, Problems) else Problems()
    where = tuple(path.split(".")) if isinstance(path, str) else path
    value = _class_codec(cls).read(data, where, collected)
    if isinstance(problems, list):
        problems.extend(collected.reasons())
    return None if value is BAD else cast(T, value)


def write(value: Any) -> dict[str, Any]:
    """Plain data that reads back as an equal value. What has its default is left out."""
    return _write_fields(value)


def json_schema(cls: type[Any]) -> dict[str, Any]:
    return dict(_class_codec(cls).schema)


def wire_name(attribute: str) -> str:
    """snake_case -> camelCase."""
    first, *rest = attribute.split("_")
    return first + "".join(word.capitalize() for word in rest)


# --- classes ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Field:
    attribute: str
    wire: str
    codec: Codec
    required: bool
    default: Callable[[], Any]


# Made once per class; the classes are few and live as long as the process.
_PLANS: dict[Any, Mapping[str, _Field]] = {}
_CODECS: dict[Any, Codec] = {}


def _plan(cls: type[Any]) -> Mapping[str, _Field]:
    plan = _PLANS.get(cls)
    if plan is None:
        plan = _PLANS[cls] = _make_plan(cls)
    return plan


def _class_codec(cls: type[Any]) -> Codec:
    codec = _CODECS.get(cls)
    if codec is None:
        codec = _CODECS[cls] = _make_class_codec(cls)
    return codec


def _make_plan(cls: type[Any]) -> Mapping[str, _Field]:
    hints = get_type_hints(cls, include_extras=True)
    plan: dict[str, _Field] = {}
    for field in fields(cls):
        name = field.metadata.get("wire") or wire_name(field.name)
        required = field.default is MISSING and field.default_factory is MISSING
        default = field.default_factory
        if default is MISSING:
            default = _constant(field.default)
        plan[name] = _Field(field.name, name, _codec(hints[field.name]), required, default)
    return plan


def _constant(value: Any) -> Callable[[], Any]:
    return lambda: value


def _make_class_codec(cls: type[Any]) -> Codec:
    plan = _plan(cls)
    readers = {name: (field.codec.read, field.attribute) for name, field in plan.items()}
    required = tuple(field for field in plan.values() if field.required)
    shorthand: str | None = getattr(cls, "SHORTHAND", None)

    def read_class(value: Any, path: Path, problems: Problems) -> Any:
        if type(value) is not dict:
            if shorthand is not None and type(value) is str:
                value = {shorthand: value}
            else:
                return _not_a_mapping(value, path, problems)
        values: dict[str, Any] = {}
        good = True
        for name, item in value.items():
            known = readers.get(name)
            if known is None:
                good = _unknown_field(name, path, problems, plan)
            elif item is not None:  # null is the same as absent
                result = known[0](item, (*path, name), problems)
                if result is BAD:
                    good = False
                else:
                    values[known[1]] = result
        for field in required:
            if field.attribute not in values and value.get(field.wire) is None:
                good = _missing_field(field, path, problems)
        return cls(**values) if good else BAD

    def write_class(value: Any) -> Any:
        written = _write_fields(value)
        return written[shorthand] if shorthand is not None and len(written) == 1 else written

    return Codec(read_class, write_class, _class_schema(cls, shorthand))


def _write_fields(value: Any) -> dict[str, Any]:
    written: dict[str, Any] = {}
    for name, field in _plan(type(value)).items():
        item = getattr(value, field.attribute)
        if field.required or (item is not None and item != field.default()):
            written[name] = field.codec.write(item)
    return written


def _not_a_mapping(value: Any, path: Path, problems: Problems) -> Any:
    where = dotted(path) or "the document"
    problems.add(
        path,
        f"{where} must be a mapping of fields, not {kind_of(value)}",
        remedy=f"write its fields below {where}",
        value=shown(value),
    )
    return BAD


def _unknown_field(name: str, path: Path, problems: Problems, plan: Mapping[str, _Field]) -> bool:
    # When the bound is reached the rest is only counted: looking for near names costs.
    remedy = "" if problems.full else meant(name, plan)
    place = dotted(path)
    problems.add(
        (*path, name),
        f"{dotted((*path, name))} is not a field" + (f" of {place}" if place else ""),
        remedy=remedy,
        value=shown(name),
    )
    return False


def _missing_field(field: _Field, path: Path, problems: Problems) -> bool:
    full = (*path, field.wire)
    problems.add(full, f"{dotted(full)} is missing", remedy=f"add {field.wire}{_example(field)}")
    return False


def _example(field: _Field) -> str:
    description = field.codec.schema.get("description")
    return f": {description}" if description else ""


# --- types ------------------------------------------------------------------------------------


def _codec(hint: Any) -> Codec:
    origin = get_origin(hint)
    if origin is Annotated:
        form = next((extra for extra in get_args(hint)[1:] if isinstance(extra, Form)), None)
        if form is not None:
            codec = FORMS[form]
            return Codec(codec.read, codec.write, {**codec.schema, "description": form.value})
        return _codec(get_args(hint)[0])
    if origin is Literal:
        return one_of(get_args(hint))
    if origin in (Union, UnionType):
        return _codec(next(option for option in get_args(hint) if option is not NoneType))
    if origin is tuple:
        return _list_codec(_codec(get_args(hint)[0]))
    if origin is not None and issubclass(origin, Mapping):
        key, value = get_args(hint)
        return _mapping_codec(_codec(key), None if value is Any else _codec(value))
    simple = {str: TEXT, int: INTEGER, bool: BOOLEAN, MilliGpu: GPUS, Micros: MONEY}.get(hint)
    return simple if simple is not None else _class_codec(hint)


def _list_codec(item: Codec) -> Codec:
    def read_list(value: Any, path: Path, problems: Problems) -> Any:
        if type(value) is not list:
            problems.add(
                path,
                f"{dotted(path)} must be a list, not {kind_of(value)}",
                remedy="write it as [a, b] or as lines that begin with a dash",
                value=shown(value),
            )
            return BAD
        if len(value) > MAX_ITEMS:
            return _too_many(value, path, problems)
        items = [item.read(element, (*path, at), problems) for at, element in enumerate(value)]
        return BAD if any(result is BAD for result in items) else tuple(items)

    def write_list(values: Any) -> list[Any]:
        return [item.write(value) for value in values]

    schema = {"type": "array", "items": dict(item.schema), "maxItems": MAX_ITEMS}
    return Codec(read_list, write_list, schema)


def _mapping_codec(key: Codec, item: Codec | None) -> Codec:
    """`item` of None: any JSON value, kept as it is."""

    def read_mapping(value: Any, path: Path, problems: Problems) -> Any:
        if type(value) is not dict:
            return _not_a_mapping(value, path, problems)
        if len(value) > MAX_ITEMS:
            return _too_many(value, path, problems)
        good = True
        result: dict[str, Any] = {}
        for name, element in value.items():
            inner = (*path, name)
            if key.read(name, inner, problems) is BAD:
                good = False
            result[name] = element if item is None else item.read(element, inner, problems)
            good = good and result[name] is not BAD
        return result if good else BAD

    def write_mapping(values: Any) -> dict[str, Any]:
        writer = same if item is None else item.write
        return {name: writer(value) for name, value in values.items()}

    names = {k: v for k, v in key.schema.items() if k in ("pattern", "maxLength")}
    schema: dict[str, Any] = {"type": "object", "maxProperties": MAX_ITEMS, "propertyNames": names}
    if item is not None:
        schema["additionalProperties"] = dict(item.schema)
    return Codec(read_mapping, write_mapping, schema)


def _too_many(value: Any, path: Path, problems: Problems) -> Any:
    problems.add(
        path,
        f"{dotted(path)} has {len(value)} entries; at most {MAX_ITEMS} are allowed",
        remedy="split it",
        value=str(len(value)),
        limit=str(MAX_ITEMS),
    )
    return BAD


def _class_schema(cls: type[Any], shorthand: str | None) -> Mapping[str, Any]:
    plan = _plan(cls)
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {name: _field_schema(field) for name, field in plan.items()},
        "additionalProperties": False,
    }
    required = [name for name, field in plan.items() if field.required]
    if required:
        schema["required"] = required
    # A dataclass without a docstring gets its signature for one.
    if cls.__doc__ and not cls.__doc__.startswith(f"{cls.__name__}("):
        schema["description"] = " ".join(cls.__doc__.split())
    return {"anyOf": [plan[shorthand].codec.schema, schema]} if shorthand is not None else schema


def _field_schema(field: _Field) -> dict[str, Any]:
    schema = dict(field.codec.schema)
    default = None if field.required else field.default()
    if default is not None and default not in ((), {}):
        schema["default"] = field.codec.write(default)
    return schema
