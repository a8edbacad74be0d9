"""Structured logs: one JSON object a line on stderr, never a secret.

Whoever logs passes no secret. Should one slip into a line all the same, by the text of somebody else's
exception for example, what looks like an API key is cut out of it.

The standard library does the work; this file owns the form. Call sites pass facts as
`extra={"facts": {...}}` through `say`, so that a line has a stable message and separate values.
"""

from __future__ import annotations

import json
import logging
import re
import sys
from typing import Any

from windlass.core.units import format_timestamp

_KEYS = re.compile(r"(wdl_|(?:[Bb]earer|[Bb]asic) )[A-Za-z0-9._~+/=-]{8,}")
"""A key of ours, or whatever stands after the name of a scheme as in an Authorization header."""

_LOGGER = logging.getLogger("windlass")


class JsonLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "at": format_timestamp(int(record.created * 1000)),
            "level": record.levelname.lower(),
            "message": record.getMessage(),
        }
        line.update(getattr(record, "facts", {}))
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return _KEYS.sub(r"\1…", json.dumps(line, default=str, ensure_ascii=False))


def configure(level: str = "info") -> None:
    """Once per process, at the top."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    _LOGGER.setLevel(level.upper())


def say(message: str, **facts: object) -> None:
    _LOGGER.info(message, extra={"facts": facts})


def warn(message: str, **facts: object) -> None:
    _LOGGER.warning(message, extra={"facts": facts})


def broke(message: str, error: BaseException, **facts: object) -> None:
    """A bug or a surprise: with its traceback."""
    _LOGGER.error(message, exc_info=error, extra={"facts": facts})
