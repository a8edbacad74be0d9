"""One document of each kind that parses: the demo's own, what comes with every release, or one made
from the types, so that an example cannot have a field that does not exist."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Any

import yaml

from windlass.core.catalog.shipped import SHIPPED
from windlass.core.documents.definitions import Example, Policy, Requirement
from windlass.core.documents.kinds import Document, GroupMapping, IdentityProvider, Metadata, Site
from windlass.core.documents.parse import COMPONENT
from windlass.core.documents.wire import write_document, write_intent
from windlass.core.intent import Intent, IntentSpec, TraitUse
from windlass.core.units import GPU, HOUR_MS, MilliGpu, Ms


def example(kind: str) -> str:
    if kind == COMPONENT:
        return _dumped(write_intent(_intent()))
    if kind == "Site":
        return _dumped(write_document(Document("Site", Metadata("local"), Site("local", region="here"))))
    if kind == "IdentityProvider":
        return _dumped(write_document(Document(kind, Metadata("corp"), _provider())))
    if kind == "Policy":
        return _dumped(write_document(Document(kind, Metadata("images", tenant="aurora"), _policy())))
    return _demo().get(kind) or _dumped(write_document(_richest(kind)))


@cache
def _demo() -> dict[str, str]:
    """The longest of each kind: it shows the most."""
    text = files("windlass.control.catalog").joinpath("demo", "catalog.yaml").read_text(encoding="utf-8")
    found: dict[str, str] = {}
    for part in text.split("\n---\n"):
        body = "\n".join(line for line in part.splitlines() if not line.startswith("#"))
        kind = yaml.safe_load(body)["kind"]
        found[kind] = max(found.get(kind, ""), body, key=len)
    return found


def _richest(kind: str) -> Document:
    of_kind = [document for document in SHIPPED.values() if document.kind == kind]
    return max(of_kind, key=lambda document: len(_dumped(write_document(document))))


def _provider() -> IdentityProvider:
    return IdentityProvider(
        issuer="https://login.example.com",
        audience="https://windlass.example.com",
        client_id="windlass-cli",
        name_claim="email",
        mappings=(
            GroupMapping("gpu-operators", "platform-admin"),
            GroupMapping("perception", "developer", "aurora"),
        ),
    )


def _policy() -> Policy:
    return Policy(
        rules=(
            Requirement(
                name="own-registry",
                when="spec.env == 'prod'",
                require="spec.image.startsWith('ghcr.io/aurora/')",
                message="${'production runs our own images, not ' + spec.image}",
                remedy="push the image to ghcr.io/aurora first",
            ),
        ),
        tests=(
            Example("ours", spec={"env": "prod", "image": "ghcr.io/aurora/sft:v3"}),
            Example(
                "another's", "rejected", spec={"env": "prod", "image": "docker.io/x:1"}, rule="own-registry"
            ),
        ),
    )


def _intent() -> Intent:
    return Intent(
        name="sft-run",
        project="atlas",
        labels={"team": "perception"},
        spec=IntentSpec(
            type="training-job",
            env="dev",
            image="ghcr.io/aurora/sft:v3",
            gpus=MilliGpu(4 * GPU),
            workers=2,
            profile="h100-80g",
            command=("python", "train.py"),
            variables={"EPOCHS": "3"},
            traits=(TraitUse("spot-tolerant"),),
            time_limit=Ms(4 * HOUR_MS),
            retries=2,
        ),
    )


def _dumped(document: dict[str, Any]) -> str:
    text: str = yaml.safe_dump(
        document, sort_keys=False, allow_unicode=True, default_flow_style=None, width=110
    )
    return text
