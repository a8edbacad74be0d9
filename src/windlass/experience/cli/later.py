"""Commands of later releases: who types one hears so, and what does it today."""

from __future__ import annotations

_BY_DOCUMENT = "cancel it, change its document and apply it again"
_NO_HELD = "nothing is held for approval in this release; `windlass decisions` lists what was decided"
_QUOTA = "a platform-admin applies a larger Envelope; `windlass quota show` tells what is yours"

LATER = {
    "scale": _BY_DOCUMENT,
    "set": _BY_DOCUMENT,
    "approve": _NO_HELD,
    "deny": _NO_HELD,
    "quota request": _QUOTA,
    "quota list": _QUOTA,
    "tenant": "`windlass apply` creates one from a Tenant document, `windlass delete tenant` removes it",
    "runs": "`windlass events` and `windlass audit list` show what happened",
    "invoice": "`windlass cost` shows what was spent, by tenant, project or component",
    "provider": "`windlass node list` shows the machines there are",
    "lease": "`windlass node list` shows the machines there are",
}
"""By what is typed after `windlass`: what to do until then."""
