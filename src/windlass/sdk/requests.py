"""What both clients do to a request before it is sent, and the limit on what comes back."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from windlass import __version__
from windlass.core.errors import WindlassError
from windlass.sdk.calls import Call
from windlass.sdk.http1 import MAX_BODY, Server, encode_request

T = TypeVar("T")
Ids = Callable[[], str]


def random_id() -> str:
    """128 bits of chance: an idempotency key nobody else has."""
    return os.urandom(16).hex()


def keyed(call: Call[T], ids: Ids) -> Call[T]:
    """The call with its idempotency key, so that every try carries the same."""
    return msgspec.structs.replace(call, key=call.key or ids()) if call.writes else call


def encode(server: Server, bearer: str, tenant: str | None, call: Call[Any]) -> bytes:
    """The bytes of a request. `tenant` is the one to act in, for logins that have several."""
    headers = {"User-Agent": f"windlass/{__version__}", "Accept": "application/json"}
    if call.answer is bytes:
        headers["Accept"] = "*/*"
    if bearer:
        headers["Authorization"] = f"Bearer {bearer}"
    if tenant is not None:
        headers["Windlass-Tenant"] = tenant
    if call.key is not None:
        headers["Idempotency-Key"] = call.key
    if call.if_match is not None:
        headers["If-Match"] = call.if_match
    if call.body is not None:
        headers["Content-Type"] = "application/json"
    return encode_request(server, call.method, call.path, headers, call.body)


def check_size(received: int) -> None:
    if received > MAX_BODY:
        raise WindlassError(f"the server's answer is larger than {MAX_BODY >> 20} MiB")
