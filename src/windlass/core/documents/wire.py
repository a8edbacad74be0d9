"""Documents and intents as people see them: plain data ready for JSON or YAML, and its schema.

Reading what is written here gives an equal value again, so the same form is stored, compared and
shown.
"""

from __future__ import annotations

import json
from typing import Any

from windlass.core.documents.component import ComponentMetadata
from windlass.core.documents.kinds import API_VERSION, KINDS, Document, Metadata
from windlass.core.documents.parse import COMPONENT
from windlass.core.documents.shape import json_schema, write
from windlass.core.intent import Intent, IntentSpec


def write_document(document: Document) -> dict[str, Any]:
    return _document(document.kind, write(document.metadata), write(document.spec))


def write_intent(intent: Intent) -> dict[str, Any]:
    """Without what it overreached for: that is refused, never kept."""
    metadata: dict[str, Any] = {"name": intent.name, "project": intent.project}
    if intent.tenant is not None:
        metadata["tenant"] = intent.tenant
    if intent.labels:
        metadata["labels"] = dict(intent.labels)
    if intent.annotations:
        metadata["annotations"] = dict(intent.annotations)
    return _document(COMPONENT, metadata, write(intent.spec))


def canonical(document: Document) -> str:
    """One text for equal meaning, whatever its version number: `true` and `1` differ here, as they
    do not in Python."""
    wire = write_document(document)
    wire["metadata"].pop("version", None)
    return json.dumps(wire, sort_keys=True, separators=(",", ":"), default=str)


def document_schema(kind: str) -> dict[str, Any]:
    """The JSON Schema of a whole document of this kind."""
    is_component = kind == COMPONENT
    metadata = json_schema(ComponentMetadata if is_component else Metadata)
    spec = json_schema(IntentSpec if is_component else KINDS[kind].spec)
    return {
        "type": "object",
        "properties": {
            "apiVersion": {"const": API_VERSION},
            "kind": {"const": kind},
            "metadata": metadata,
            "spec": spec,
            "status": {"type": "object", "description": "Written by the platform; ignored when sent."},
        },
        "required": ["apiVersion", "kind", "metadata", "spec"],
        "additionalProperties": False,
    }


def _document(kind: str, metadata: dict[str, Any], spec: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": metadata, "spec": spec}
