"""The scalars of documents: what a single value in one can be, and how it is written down.

`forms.py` reads and writes each; `kinds.py` and `definitions.py` make documents of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Annotated, Any, Literal

from windlass.core.units import Ms

MAX_WORKERS = 100_000
"""Of one component, replicas included: each is a place to find and a process to watch."""


class Form(Enum):
    """How a scalar is written down, where its Python type alone does not say."""

    NAME = "a DNS label"
    ENVIRONMENT = "a DNS label without a hyphen"
    VERSIONED_NAME = "a name, or name@version"
    DURATION = "a duration such as 90s, 10m, 4h or 30d"
    INSTANT = "an RFC 3339 time"
    CURRENCY = "a currency of three capital letters"
    FRACTION = "a decimal between 0 and 1"
    LABEL_KEY = "a label key"
    LABEL_VALUE = "a label value"
    VARIABLE = "the name of an environment variable"
    TEXT = "text of up to 64 KiB"
    VERSION = "a version such as 1.0.0"
    IMAGE = "an image reference"
    POSITIVE = "a whole number above zero"
    NATURAL = "a whole number, zero or more"
    SHARE = "thousandths of a GPU, 1 to 1000"
    PERCENT = "a whole number from 0 to 100"
    WORKERS = "a whole number from 1 to 100000"


Name = Annotated[str, Form.NAME]
Environment = Annotated[str, Form.ENVIRONMENT]
VersionedName = Annotated[str, Form.VERSIONED_NAME]
Duration = Annotated[Ms, Form.DURATION]
Instant = Annotated[Ms, Form.INSTANT]
Currency = Annotated[str, Form.CURRENCY]
Fraction = Annotated[str, Form.FRACTION]
Positive = Annotated[int, Form.POSITIVE]
Natural = Annotated[int, Form.NATURAL]
Share = Annotated[int, Form.SHARE]
Percent = Annotated[int, Form.PERCENT]
Workers = Annotated[int, Form.WORKERS]
Text = Annotated[str, Form.TEXT]
Image = Annotated[str, Form.IMAGE]
Version = Annotated[str, Form.VERSION]
VariableName = Annotated[str, Form.VARIABLE]
LabelKey = Annotated[str, Form.LABEL_KEY]
LabelValue = Annotated[str, Form.LABEL_VALUE]
Sharing = Literal["dedicated", "mig", "time-slice"]
Workload = Literal["job", "service", "interactive"]
Target = Literal["kubernetes", "slurm", "local"]
JsonObject = Mapping[str, Any]
Action = Literal[
    "submit-job",
    "create-service",
    "deploy-model",
    "scale-service",
    "change-batch-size",
    "request-sharing",
    "change-placement",
    "change-priority",
    "tenant-signup",
    "tenant-deletion",
    "request-quota",
]
"""What a decision can be about."""


def wire(name: str) -> dict[str, str]:
    """For a field whose name on the wire is not its camelCase (a Python keyword, say)."""
    return {"wire": name}
