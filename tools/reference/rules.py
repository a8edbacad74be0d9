"""rules.md: every rule of admission in its order, with what it says when it refuses.

The sentences are the rules' own: read from the source, a value in them shown as its ‹name›.
"""

from __future__ import annotations

import ast
import inspect
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from tools.reference.markdown import code, codes, lines_of, sentence, table
from windlass.control.gateway.request import _bad_query
from windlass.core.admission.decide import _unheard, _unrendered, _without_effect
from windlass.core.admission.deprecation import deprecations
from windlass.core.admission.entitlements import budget_warnings
from windlass.core.admission.rules import RULES
from windlass.core.documents.forms import BAD, FORMS
from windlass.core.documents.problems import Problems
from windlass.core.errors import Invalid, Rejected
from windlass.core.intent import PLATFORM_OWNED_FIELDS, RESERVED_LABEL_PREFIXES


def page() -> str:
    rows = [
        [str(at), code(rule.code), _refuses(rule.check), codes(dict.fromkeys(rule.needs))]
        for at, rule in enumerate(RULES, start=1)
    ]
    last = "".join(f"“{message}”" for message in _messages(_unrendered))
    rows.append([str(len(rows) + 1), code("template.invalid"), last, "any other"])
    return lines_of(
        "Rules",
        "the table of admission rules",
        f"An intent that breaks one of these is rejected: HTTP {Rejected.status}, exit {Rejected.exit_code},"
        " with the decision inside, and the decision is stored. All reasons are listed, not only the first;"
        " a rule is skipped when a rule it needs has refused.",
        "",
        *table(["", "Rule", "Refuses, saying", "Skipped after"], rows),
        "The platform owns these fields of `spec`, and of an `overrides` map in it: "
        f"{codes(PLATFORM_OWNED_FIELDS)}.",
        "",
        f"Only the platform writes labels under {codes(RESERVED_LABEL_PREFIXES)} and their subdomains.",
        "",
        "## Warnings",
        "",
        "What does not stand against an intent is in `warnings` of its decision, in the form of a reason.",
        "",
        *table(["Warning", "Says"], [[code(rule), _warns(check)] for rule, check in _WARNINGS.items()]),
        "## Documents that cannot be read",
        "",
        f"{sentence(Invalid.__doc__)} HTTP {Invalid.status}, exit {Invalid.exit_code}, with every problem at"
        " once. A document that is both malformed and against a rule is malformed.",
        "",
        *table(["Rule", "For"], _malformed()),
        "[Documents](documents.md) has every field and form.",
    )


_WARNINGS: Mapping[str, Callable[..., Any]] = {
    "type.deprecated": deprecations,
    "budget.exhausted": budget_warnings,
    "variable.ignored": _unheard,
    "modelspec.unheard": _without_effect,
}


def _warns(check: Callable[..., Any]) -> str:
    return " ".join(f"“{message}”" for message in _messages(check))


def _malformed() -> list[list[str]]:
    """Which forms answer with which code: each is given a text that no form accepts."""
    by_rule: dict[str, list[str]] = {}
    for form, codec in FORMS.items():
        problems = Problems()
        if codec.read("\x00", ("field",), problems) is BAD:
            by_rule.setdefault(problems.reasons()[0].rule, []).append(form.value)
    first = Invalid.code
    others = [[code(rule), "; ".join(forms)] for rule, forms in by_rule.items() if rule != first]
    everything = "an unknown or missing field, a wrong type, or any other form"
    return [[code(first), everything], *others, [code("request.invalid"), _bad_request()]]


def _bad_request() -> str:
    return " ".join(f"“{message}”" for message in _messages(_bad_query))


def _refuses(check: Callable[..., Any]) -> str:
    said = [sentence(one.__doc__) for one in (check, *_helpers(check)) if one.__doc__]
    found = dict.fromkeys(message for one in (check, *_helpers(check)) for message in _messages(one))
    return " ".join([*said, *(f"“{message}”" for message in found)])


def _helpers(function: Callable[..., Any]) -> list[Callable[..., Any]]:
    """The functions it calls that make reasons for it."""
    called = (node.func for node in _calls(function) if isinstance(node.func, ast.Name))
    beside = vars(sys.modules[function.__module__])
    found = (beside.get(name.id) for name in called)
    reasons = ("Iterator[Reason]", "Reason")
    return [one for one in found if inspect.isfunction(one) and one.__annotations__.get("return") in reasons]


def _messages(function: Callable[..., Any]) -> Iterator[str]:
    """The `message=` of every Reason it makes, where it has words of its own."""
    for call in _calls(function):
        for keyword in call.keywords:
            if keyword.arg == "message" and isinstance(keyword.value, (ast.Constant, ast.JoinedStr)):
                yield _template(keyword.value)


def _calls(function: Callable[..., Any]) -> Iterator[ast.Call]:
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    return (node for node in ast.walk(tree) if isinstance(node, ast.Call))


def _template(node: ast.expr) -> str:
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=parts):
            return "".join(_template(part) for part in parts)
        case ast.FormattedValue(value=value):
            return f"‹{_name(value)}›"
    return f"‹{_name(node)}›"


def _name(node: ast.expr) -> str:
    """What a person would call the value: the last name in it."""
    match node:
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return name.replace("_", " ")
        case ast.Call(args=[first, *_]):
            return _name(first)
        case ast.Call(func=function):
            return _name(function)
        case ast.IfExp(body=first, orelse=other):
            return _name(first if not isinstance(first, ast.Constant) else other)
        case ast.BoolOp(values=[first, *_]):
            return _name(first)
        case ast.Subscript(value=value) | ast.BinOp(left=value):
            return _name(value)
    return "…"
