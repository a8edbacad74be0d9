"""How a secret of ours is written, so that people, the door and secret scanners can tell it.

    wdl_<32 hexadecimal digits: its id>_<43 characters of chance><6 characters of checksum>
    wdt_…                                                            the same, of a short-lived token

The checksum is the CRC-32 of everything before it in base 62, as other forges have it: a scanner that
finds the pattern can tell a real secret from a look-alike without asking anybody, and a key that was
cut off or mistyped is told apart from one that was revoked. It guards against accidents, not forgers.
Keys made before the checksum have 43 characters after the id and stay valid.
"""

from __future__ import annotations

import re
from typing import Literal
from zlib import crc32

Kind = Literal["key", "token"]
PREFIXES: dict[Kind, str] = {"key": "wdl_", "token": "wdt_"}
SCANNED = r"\bwd[lt]_[0-9a-f]{32}_[A-Za-z0-9_-]{43}[0-9A-Za-z]{6}\b"
"""What a secret scanner looks for."""

_WHOLE = re.compile(r"wd[lt]_[0-9a-f]{32}_[A-Za-z0-9_-]{43}[0-9A-Za-z]{6}", re.ASCII)
_OLD = re.compile(r"wdl_[0-9a-f]{32}_[A-Za-z0-9_-]{43}", re.ASCII)
_DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_CHECKSUM = 6


def written(kind: Kind, id: str, chance: str) -> str:
    """`id` is that of the row, such as key_01ab…; its own prefix is left out."""
    body = f"{PREFIXES[kind]}{id.partition('_')[2]}_{chance}"
    return body + _checksum(body)


def is_ours(text: str) -> bool:
    return text.startswith(tuple(PREFIXES.values()))


def is_whole(text: str) -> bool:
    """Whether it can be a secret of ours at all: the right form, and a checksum that fits."""
    if _OLD.fullmatch(text):
        return True
    return _WHOLE.fullmatch(text) is not None and text[-_CHECKSUM:] == _checksum(text[:-_CHECKSUM])


def _checksum(body: str) -> str:
    number, digits = crc32(body.encode("ascii")), ""
    for _ in range(_CHECKSUM):
        number, digit = divmod(number, len(_DIGITS))
        digits = _DIGITS[digit] + digits
    return digits
