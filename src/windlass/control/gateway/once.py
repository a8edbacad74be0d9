"""A write that its sender named by an Idempotency-Key."""

from __future__ import annotations

import hashlib

import msgspec

from windlass.control.db.idempotency import Once
from windlass.control.gateway.request import Request
from windlass.core.errors import BadRequest

_MAX_KEY = 200


def once(request: Request) -> Once | None:
    """The request as something that must happen at most once, if its sender gave it a key."""
    key = request.headers.get("idempotency-key")
    if key is None:
        return None
    if not key or len(key) > _MAX_KEY or not key.isprintable():
        raise BadRequest(
            f"an Idempotency-Key has 1 to {_MAX_KEY} printable characters",
            remedy="a UUID for each write is a good one",
        )
    query = "&".join(f"{name}={value}" for name, value in sorted(request.query.items()))
    content = [request.method, request.path, query, hashlib.sha256(request.body).hexdigest()]
    return Once(request.principal.key_id, key, hashlib.sha256(msgspec.json.encode(content)).hexdigest())
