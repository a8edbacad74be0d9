"""The limits that `windlass up` can be told: options, and the variables that stand in for them."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

import click

from windlass.core.bounds import ADDRESS, PRINCIPAL, TENANT, Bounds, parse_rate
from windlass.core.rates import Rate

F = TypeVar("F", bound=Callable[..., Any])

_RATE = "RATE[:BURST]"


def limit_options(command: F) -> F:
    """--limit-principal, --limit-tenant, --limit-address, --connections, --streams."""
    for add in (
        click.option(
            "--streams", type=click.IntRange(min=1), help="Event and log streams at once; else 2000."
        ),
        click.option("--connections", type=click.IntRange(min=1), help="Connections at once; else 10000."),
        click.option(
            "--limit-address", metavar=_RATE, help=_said("without a key, from one address", ADDRESS)
        ),
        click.option("--limit-tenant", metavar=_RATE, help=_said("by one tenant", TENANT)),
        click.option("--limit-principal", metavar=_RATE, help=_said("by one person or key", PRINCIPAL)),
    ):
        command = add(command)
    return command


def chosen(
    limit_principal: str | None,
    limit_tenant: str | None,
    limit_address: str | None,
    connections: int | None,
    streams: int | None,
) -> Bounds:
    """A flag beats the variable beats the default."""
    own = Bounds()
    return replace(
        own,
        principal=_rate(limit_principal or os.environ.get("WINDLASS_LIMIT_PRINCIPAL"), own.principal),
        tenant=_rate(limit_tenant or os.environ.get("WINDLASS_LIMIT_TENANT"), own.tenant),
        address=_rate(limit_address or os.environ.get("WINDLASS_LIMIT_ADDRESS"), own.address),
        connections=connections or own.connections,
        streams=streams or own.streams,
    )


def _rate(text: str | None, default: Rate) -> Rate:
    return parse_rate(text) if text else default


def _said(who: str, default: Rate) -> str:
    return f"Requests a second {who}, and at once; 0: no limit; else {default.per_s}:{default.burst}."
