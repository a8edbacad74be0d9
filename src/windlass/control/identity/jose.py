"""Signatures, through joserfc: keys as a provider publishes them, and whether one made a signature.

joserfc and what stands behind it cost 100 ms and 20 MB, so they are loaded with the first provider's
keys, off the event loop, and never by an installation without one. Only what verifies is taken from a
key, and only kinds whose verifying key is public: a published key can never become a shared secret.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_MAX_KEYS = 100
_LEAST_RSA_BITS = 2048
_MOST_RSA_BITS = 8192  # a larger one would make each look-at-a-token a burden
_PUBLIC: Mapping[str, tuple[str, ...]] = {"RSA": ("n", "e"), "EC": ("crv", "x", "y"), "OKP": ("crv", "x")}
_CURVES = {"ES256": "P-256", "ES384": "P-384", "ES512": "P-521", "EdDSA": "Ed25519", "Ed25519": "Ed25519"}


@dataclass(frozen=True, slots=True)
class PublicKey:
    kid: str | None
    kind: str
    curve: str | None
    algorithm: str | None  # the only one it is for, where it says so
    key: Any

    def serves(self, algorithm: str) -> bool:
        if self.algorithm not in (None, algorithm):
            return False
        if algorithm[:2] in ("RS", "PS"):
            return self.kind == "RSA"
        return self.kind in ("EC", "OKP") and self.curve == _CURVES.get(algorithm)


def load_keys(published: object) -> tuple[PublicKey, ...]:
    """Those of a JWK Set that can verify; what is of another use or kind is left out."""
    entries = published.get("keys") if isinstance(published, dict) else None
    if not isinstance(entries, list):
        return ()
    return tuple(key for entry in entries[:_MAX_KEYS] if (key := _load(entry)) is not None)


def _load(entry: object) -> PublicKey | None:
    from joserfc.errors import JoseError
    from joserfc.jwk import import_key

    if not isinstance(entry, dict) or entry.get("use", "sig") != "sig":
        return None
    kind, kid, algorithm = (entry.get(name) for name in ("kty", "kid", "alg"))
    members = _PUBLIC.get(kind) if isinstance(kind, str) else None
    if members is None or not all(isinstance(entry.get(name), str) for name in members):
        return None
    if not isinstance(kid, str | None) or not isinstance(algorithm, str | None):
        return None
    if kind == "RSA" and not _LEAST_RSA_BITS <= _bits(entry["n"]) <= _MOST_RSA_BITS:
        return None
    try:
        key: Any = import_key({"kty": str(kind), **{name: entry[name] for name in members}})
        key.raw_value  # noqa: B018 (made when first looked at; a point off the curve shows here)
    except (JoseError, ValueError, TypeError, KeyError):  # the last: a curve that is none of its kind
        return None
    return PublicKey(kid, str(kind), entry.get("crv"), algorithm, key)


def _bits(number: str) -> int:
    try:
        return int.from_bytes(base64.urlsafe_b64decode(number + "=" * (-len(number) % 4))).bit_length()
    except ValueError:
        return 0


def made_by(key: PublicKey, algorithm: str, message: bytes, signature: bytes) -> bool:
    """Whether the key made the signature. The caller has checked that the algorithm is allowed."""
    from joserfc.errors import JoseError
    from joserfc.jws import JWSRegistry

    assert key.serves(algorithm), "a key is used for what it is made for"
    try:
        return bool(JWSRegistry.algorithms[algorithm].verify(message, signature, key.key))
    except (JoseError, ValueError):
        return False
