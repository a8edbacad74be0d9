"""Rejections as errors: the decision is stored by now, the answer carries it."""

from __future__ import annotations

import msgspec

from windlass.contracts import api
from windlass.core.errors import Reason, Rejected


def rejected(decision: api.Decision, results: list[api.Result]) -> Rejected:
    rules = ", ".join(dict.fromkeys(reason.rule for reason in decision.reasons))
    return Rejected(
        f"{decision.component} was rejected: {rules}",
        remedy=decision.reasons[0].remedy if decision.reasons else "",
        reasons=[core_reason(reason) for reason in decision.reasons],
        extra={
            "decision": msgspec.to_builtins(decision),
            "results": msgspec.to_builtins(results),
        },
    )


def core_reason(reason: api.Reason) -> Reason:
    return Reason(
        rule=reason.rule,
        message=reason.message,
        remedy=reason.remedy,
        field=reason.field,
        value=reason.value,
        limit=reason.limit,
        line=reason.line,
    )
