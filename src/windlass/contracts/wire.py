"""The base of everything the HTTP API says."""

from __future__ import annotations

import msgspec


class Wire(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The base: immutable, camelCase, by keyword."""
