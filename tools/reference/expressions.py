"""expressions.md: what expressions in types, traits and policies can name, and what traits can say."""

from __future__ import annotations

from collections.abc import Mapping

from tools.reference.markdown import code, lines_of, table
from windlass.core.compiler.forms import FORMS
from windlass.core.compiler.names import INTENT, POLICY, SITE, TYPE
from windlass.core.compiler.templates import MAX_RENDERED
from windlass.core.compiler.wishes import VOCABULARY
from windlass.core.expression_cost import MAX_COST
from windlass.core.expressions import MAX_TEXT


def page() -> str:
    own = {name: type for name, type in POLICY.types if name not in {**INTENT, **TYPE}}
    return lines_of(
        "Expressions",
        "the names that the compiler declares",
        "Rules, templates, patches and constraints of component types, traits and policies are written in"
        " [CEL](https://cel.dev), with its extensions for strings and math. An expression is checked when its"
        " document is applied: what is not listed here cannot be named, and types must agree. One that cannot"
        f" be evaluated counts as a refusal. It has at most {MAX_TEXT} characters, a depth of 32 and 10,000"
        f" iterations, and is not evaluated where it could come to more than {MAX_COST // 1024 // 1024} MiB;"
        f" a template gives at most {MAX_RENDERED // 1024} KiB.",
        "",
        "## Everywhere",
        "",
        *table(["Name", "Type"], _rows(INTENT)),
        "`spec.timeLimit` is in seconds, 0 for none. `spec.gpus` and `worker.gpus` are units of the profile,"
        " `work.gpus` GPUs of the class, all workers together.",
        "",
        "In types and traits `parameters.NAME` is each parameter that the document declares, its default"
        " filled in; an optional one without a default is null where it was not given.",
        "",
        "## In templates and patches for Kubernetes and Slurm, too",
        "",
        *table(["Name", "Type"], _rows(SITE)),
        "## In traits and policies, too",
        "",
        *table(["Name", "Type"], _rows(TYPE)),
        "## In policies, too",
        "",
        *table(["Name", "Type"], _rows(own)),
        "## Templates and patches",
        "",
        "A value that is wholly `${expression}` is what the expression gives; null leaves the key or the"
        ' element out. A mapping with `$if: "${…}"` is there only where that is true; `$${` is a literal'
        " `${`.",
        "",
        *table(
            ["Part", "For", "Fields"],
            [[code(part), target, ", ".join(map(code, known))] for (part, target), known in FORMS.items()],
        ),
        "## Constraints of traits",
        "",
        *table(["Constraint", "Value"], [[code(name), what] for name, what in VOCABULARY.items()]),
    )


def _rows(names: Mapping[str, str]) -> list[list[str]]:
    return [[code(name), code(type)] for name, type in sorted(names.items())]
