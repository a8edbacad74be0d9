"""Windlass from a program: `Client`, `AsyncClient`, and the values they answer with.

    from windlass.sdk import Client

    client = Client.from_context()          # or Client(server="http://…", api_key="wdl_…")
    answer = client.apply({"apiVersion": "windlass.dev/v1", "kind": "Component", …})
    print(answer.results[0].decision.estimate.per_hour)

Importing this costs next to nothing: what a name needs is loaded when the name is used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from windlass.contracts import api as api
    from windlass.contracts.api import (
        ApplyAnswer,
        AuditEntry,
        AuditList,
        Component,
        ComponentList,
        ComponentStatus,
        CostAnswer,
        CostLine,
        Decision,
        DecisionList,
        Document,
        DocumentList,
        Event,
        EventList,
        Explanation,
        Key,
        KeyList,
        LoginInfo,
        NewKey,
        NewToken,
        NodeInfo,
        NodeList,
        Plan,
        Problem,
        Queue,
        QueueEntry,
        QuotaAnswer,
        Reason,
        Result,
        Revision,
        ServiceAccount,
        ServiceAccountList,
        Token,
        TokenList,
        UsageLine,
        UsageList,
        Version,
        WhoAmI,
    )
    from windlass.sdk.async_client import AsyncClient
    from windlass.sdk.client import Client
    from windlass.sdk.retries import Retries

__all__ = [
    "ApplyAnswer",
    "AsyncClient",
    "AuditEntry",
    "AuditList",
    "Client",
    "Component",
    "ComponentList",
    "ComponentStatus",
    "CostAnswer",
    "CostLine",
    "Decision",
    "DecisionList",
    "Document",
    "DocumentList",
    "Event",
    "EventList",
    "Explanation",
    "Key",
    "KeyList",
    "LoginInfo",
    "NewKey",
    "NewToken",
    "NodeInfo",
    "NodeList",
    "Plan",
    "Problem",
    "Queue",
    "QueueEntry",
    "QuotaAnswer",
    "Reason",
    "Result",
    "Retries",
    "Revision",
    "ServiceAccount",
    "ServiceAccountList",
    "Token",
    "TokenList",
    "UsageLine",
    "UsageList",
    "Version",
    "WhoAmI",
    "api",
]

_ELSEWHERE = {
    "AsyncClient": "windlass.sdk.async_client",
    "Client": "windlass.sdk.client",
    "Retries": "windlass.sdk.retries",
}


def __getattr__(name: str) -> object:
    if name == "api":
        return import_module("windlass.contracts.api")
    if name in __all__:
        return getattr(import_module(_ELSEWHERE.get(name, "windlass.contracts.api")), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
