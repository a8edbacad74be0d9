"""Which addresses of an identity provider are spoken to: over TLS, or on this machine."""

from __future__ import annotations

import re

_PATH = r"(?:/[A-Za-z0-9._~%!$&'()*+,;=:@/-]*)?"
_HOST = r"(?:[A-Za-z0-9](?:[A-Za-z0-9.-]{0,252})|\[[0-9A-Fa-f:.]{2,45}\])"
_HERE = r"(?:127(?:\.[0-9]{1,3}){3}|localhost|\[::1\])"
_PORT = r"(?::[0-9]{1,5})?"
_ISSUER = re.compile(rf"(?:https://{_HOST}|http://{_HERE}){_PORT}{_PATH}", re.ASCII)
_ENDPOINT = re.compile(rf"{_ISSUER.pattern}(?:\?[A-Za-z0-9._~%!$&'()*+,;=:@/?-]*)?", re.ASCII)
_LONGEST = 1000


def is_issuer(text: str) -> bool:
    """As OpenID Connect has it: no query and no fragment; nor a user, which would be a secret."""
    return len(text) <= _LONGEST and _ISSUER.fullmatch(text) is not None


def is_endpoint(text: object, issuer: str) -> bool:
    """One that the provider names. A provider that is spoken to over TLS does not lead us off it."""
    if not isinstance(text, str) or len(text) > _LONGEST or _ENDPOINT.fullmatch(text) is None:
        return False
    return text.startswith("https://") or issuer.startswith("http://")


def discovery_address(issuer: str) -> str:
    return f"{issuer.rstrip('/')}/.well-known/openid-configuration"
