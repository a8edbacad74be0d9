"""What the API says of a site that was given up. Part of `api`."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from windlass.contracts.wire import Wire


class SiteLossRequest(Wire, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`reason` is for the audit log and the platform's own events."""

    reason: Annotated[str, Meta(min_length=1, max_length=500, pattern=r"\S")]


class SiteLoss(Wire, frozen=True, kw_only=True):
    """What became of the work there: so many wait again, failed, were cancelled. None of it is billed for
    the time after `lastHeard`."""

    site: str
    last_heard: str
    waiting: int
    failed: int
    cancelled: int
