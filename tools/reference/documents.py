"""documents.md: every kind, field by field, from the dataclasses that are its shape."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from tools.reference.examples import example
from tools.reference.markdown import code, codes, fence, lines_of, sentence, slug, table
from windlass.core.documents.component import ComponentMetadata
from windlass.core.documents.forms import FORMS
from windlass.core.documents.kinds import API_VERSION, KINDS, Kind, Metadata
from windlass.core.documents.parse import COMPONENT, MAX_NAMESPACE, NOT_YET, WRITTEN_BY_PLATFORM
from windlass.core.documents.scalars import Form
from windlass.core.documents.shape import MAX_ITEMS, json_schema, wire_name
from windlass.core.intent import IntentSpec
from windlass.core.units import Micros, MilliGpu


def page() -> str:
    names = [*KINDS, COMPONENT]
    lines = [
        f"A document has `apiVersion: {API_VERSION}`, `kind`, `metadata` and `spec`; `status` is written by"
        " the platform and ignored when sent. An unknown field is an error. A list or a mapping has"
        f" {MAX_ITEMS} entries at most. Project plus environment have {MAX_NAMESPACE} characters at most.",
        "",
        f"Not read by this release: {codes(NOT_YET)}.",
        "",
        *table(["Kind", "Belongs to", "Also called"], map(_summary, names)),
        "## Metadata",
        "",
        "Of every kind but Component. A tenant's document needs `tenant`, a platform's may not have one; only"
        f" a Component has a project. {codes(sorted(WRITTEN_BY_PLATFORM))} are ignored when sent.",
        "",
        *_table(Metadata),
    ]
    for name in names:
        lines += _kind(name)
    return lines_of("Documents", "the types that documents are read into", *lines, *_forms())


def _summary(name: str) -> list[str]:
    kind = KINDS.get(name)
    owner = "project" if kind is None else kind.scope
    return [f"[{name}](#{slug(name)})", owner, codes((kind.plural, *kind.short)) if kind else ""]


def _kind(name: str) -> list[str]:
    kind: Kind | None = KINDS.get(name)
    spec: type[Any] = kind.spec if kind is not None else IntentSpec
    said = _docstring(spec)
    lines = [f"## {name}", "", *([said, ""] if said else [])]
    if kind is None:
        lines += ["`metadata`:", "", *_table(ComponentMetadata), "`spec`:", ""]
    return [*lines, *_table(spec), *fence("yaml", example(name))]


def _table(cls: type[Any]) -> list[str]:
    return table(["Field", "Is", "Default"], _rows(cls, ""))


def _rows(cls: type[Any], prefix: str) -> Iterator[list[str]]:
    """One row per field, then the fields of what is inside it."""
    schema = json_schema(cls)
    schema = schema["anyOf"][1] if "anyOf" in schema else schema
    hints = get_type_hints(cls, include_extras=True)
    for field in fields(cls):
        name = field.metadata.get("wire") or wire_name(field.name)
        default = "required" if name in schema.get("required", ()) else ""
        stated = schema["properties"][name].get("default")
        if stated is not None and stated != {}:  # of what is inside, each field has its own row
            default = code(_plain(stated))
        yield [code(f"{prefix}{name}"), _form(hints[field.name]), default]
        inner, mark = _inside(hints[field.name])
        if inner is not None:
            yield from _rows(inner, f"{prefix}{name}{mark}.")


def _inside(hint: Any) -> tuple[type[Any] | None, str]:
    if get_origin(hint) is tuple:
        return _inside(get_args(hint)[0])[0], "[]"
    if get_origin(hint) in (Union, UnionType):
        return _inside(next(option for option in get_args(hint) if option is not NoneType))
    return (hint, "") if isinstance(hint, type) and is_dataclass(hint) else (None, "")


def _form(hint: Any) -> str:
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return next(str(extra.value) for extra in inner if isinstance(extra, Enum))
    if origin is Literal:
        return " or ".join(code(choice) for choice in inner)
    if origin in (Union, UnionType):
        return _form(next(option for option in inner if option is not NoneType))
    if origin is tuple:
        return f"a list: {_form(inner[0])}"
    if origin is not None and issubclass(origin, Mapping):
        return "a mapping" if inner[1] is Any else f"a mapping: {_form(inner[0])} to {_form(inner[1])}"
    if is_dataclass(hint) and isinstance(hint, type):
        shorthand = getattr(hint, "SHORTHAND", None)
        said = _docstring(hint)
        return " ".join(["fields" + (f", or {code(shorthand)} alone" if shorthand else ""), *_aside(said)])
    words = {
        str: "text",
        int: "a whole number",
        bool: "true or false",
        MilliGpu: "an amount of GPUs, at most three decimals",
        Micros: "an amount of money, at most six decimals",
    }
    return words[hint]


def _forms() -> list[str]:
    """How each form is checked, for who writes documents by program."""
    rows = [[form.value, _checked(form)] for form in Form]
    return ["## Forms", "", "How the forms above are checked:", "", *table(["Form", "Check"], rows)]


def _checked(form: Form) -> str:
    schema = FORMS[form].schema
    schema = schema.get("anyOf", [schema])[-1]  # what may be a number is described as the text it is
    if "pattern" in schema:
        longest = f", at most {schema['maxLength']} characters" if "maxLength" in schema else ""
        return f"{code(schema['pattern'])}{longest}"
    if "minimum" in schema:
        return f"{schema['minimum']} to {schema['maximum']}"
    if "format" in schema:
        return f"format {code(schema['format'])}"
    return f"at most {schema['maxLength']} characters"


def _aside(text: str) -> list[str]:
    return [f"({text.rstrip('.')})"] if text else []


def _docstring(cls: type[Any]) -> str:
    """Its own words; a dataclass without any gets its signature for a docstring."""
    text = cls.__doc__ or ""
    if text.startswith(f"{cls.__name__}("):
        return ""
    # The reference is for people who have not read the design.
    return re.sub(r",? as contract §\d+ writes it", "", sentence(text))


def _plain(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value) or '""'
