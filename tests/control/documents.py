"""The catalog the control plane's tests play in, and builders for intents.

Three tenants on 16 H100s and 4 L40S: acme (standard) shares with globex (gold, never preempted) and
with umbra, which is guaranteed nothing and lives on what the others lend.
"""

from __future__ import annotations

from typing import Any

CATALOG = """
apiVersion: windlass.dev/v1
kind: Tier
metadata: {name: gold}
spec: {priority: 100, preempts: true, preemptible: false, priorityRange: {min: -10, max: 10}}
---
apiVersion: windlass.dev/v1
kind: Tier
metadata: {name: standard}
spec: {priority: 50, preempts: true, preemptible: true}
---
apiVersion: windlass.dev/v1
kind: Tier
metadata: {name: best-effort}
spec: {priority: 0, preempts: false, preemptible: true}
---
apiVersion: windlass.dev/v1
kind: HardwareProfile
metadata: {name: h100-80g}
spec: {class: h100-80g, gpuModel: H100, memoryGib: 80, perGpu: {cpu: 1, memoryGib: 1}, maxPerWorker: 8}
---
apiVersion: windlass.dev/v1
kind: HardwareProfile
metadata: {name: h100-mig-1g}
spec: {class: h100-80g, gpuModel: H100, memoryGib: 10, sharing: mig, migProfile: 1g.10gb, share: 142,
       perGpu: {cpu: 1, memoryGib: 1}, maxPerWorker: 1}
---
apiVersion: windlass.dev/v1
kind: HardwareProfile
metadata: {name: l40s-48g}
spec: {class: l40s-48g, gpuModel: L40S, memoryGib: 48, perGpu: {cpu: 1, memoryGib: 1}, maxPerWorker: 8}
---
apiVersion: windlass.dev/v1
kind: PriceBook
metadata: {name: list}
spec:
  currency: USD
  effectiveFrom: "2026-01-01T00:00:00Z"
  prices:
  - {profileClass: h100-80g, perGpuHour: "2.49"}
  - {profileClass: h100-80g, tier: gold, perGpuHour: "3.99"}
  - {profileClass: l40s-48g, perGpuHour: "0.89"}
---
apiVersion: windlass.dev/v1
kind: Tenant
metadata: {name: acme}
spec: {displayName: Acme, tier: standard}
---
apiVersion: windlass.dev/v1
kind: Project
metadata: {name: nlp, tenant: acme}
spec: {environments: [dev, prod], traits: [spot-tolerant, topology], defaultProfile: h100-80g}
---
apiVersion: windlass.dev/v1
kind: Project
metadata: {name: vision, tenant: acme}
spec: {environments: [prod], traits: [], defaultProfile: h100-80g}
---
apiVersion: windlass.dev/v1
kind: Envelope
metadata: {name: acme, tenant: acme}
spec:
  scope: {tenant: acme}
  gpus:
  - {profileClass: h100-80g, guaranteed: 8, max: 16}
  - {profileClass: l40s-48g, guaranteed: 2, max: 4}
  sharing: [dedicated, mig]
  budget: {amount: "5000.00", currency: USD, period: month}
---
apiVersion: windlass.dev/v1
kind: Envelope
metadata: {name: nlp-prod, tenant: acme}
spec:
  scope: {tenant: acme, project: nlp, env: prod}
  gpus: [{profileClass: h100-80g, guaranteed: 4, max: 8}]
  sharing: [dedicated]
---
apiVersion: windlass.dev/v1
kind: Tenant
metadata: {name: globex}
spec: {displayName: Globex, tier: gold}
---
apiVersion: windlass.dev/v1
kind: Project
metadata: {name: chat, tenant: globex}
spec: {environments: [prod], traits: [], defaultProfile: h100-80g}
---
apiVersion: windlass.dev/v1
kind: Envelope
metadata: {name: globex, tenant: globex}
spec: {scope: {tenant: globex}, gpus: [{profileClass: h100-80g, guaranteed: 8, max: 16}]}
---
apiVersion: windlass.dev/v1
kind: Tenant
metadata: {name: umbra}
spec: {displayName: Umbra, tier: best-effort}
---
apiVersion: windlass.dev/v1
kind: Project
metadata: {name: cheap, tenant: umbra}
spec: {environments: [dev], traits: [], defaultProfile: h100-80g}
---
apiVersion: windlass.dev/v1
kind: Envelope
metadata: {name: umbra, tenant: umbra}
spec: {scope: {tenant: umbra}, gpus: [{profileClass: h100-80g, guaranteed: 0, max: 16}]}
"""

API = "windlass.dev/v1"


def intent(path: str, gpus: int | float | str = 1, /, **spec: Any) -> dict[str, Any]:
    """A job `project/env/name`. `labels` goes to its metadata, everything else to its spec."""
    project, env, name = path.split("/")
    metadata: dict[str, Any] = {"name": name, "project": project}
    if "labels" in spec:
        metadata["labels"] = spec.pop("labels")
    own = {
        "type": "training-job",
        "env": env,
        "image": "ghcr.io/acme/sft:v3",
        "gpus": gpus,
        "command": ["true"],
        **spec,
    }
    return {"apiVersion": API, "kind": "Component", "metadata": metadata, "spec": own}


def project(name: str, tenant: str = "acme", /, **spec: Any) -> dict[str, Any]:
    own = {"environments": ["prod"], "traits": [], "defaultProfile": "h100-80g", **spec}
    return {"apiVersion": API, "kind": "Project", "metadata": {"name": name, "tenant": tenant}, "spec": own}


def envelope(name: str, scope: dict[str, str], /, **spec: Any) -> dict[str, Any]:
    metadata = {"name": name, "tenant": scope["tenant"]}
    return {"apiVersion": API, "kind": "Envelope", "metadata": metadata, "spec": {"scope": scope, **spec}}


def quota(guaranteed: int, most: int, gpu_class: str = "h100-80g") -> list[dict[str, Any]]:
    return [{"profileClass": gpu_class, "guaranteed": guaranteed, "max": most}]


def policy(name: str, require: str, tenant: str | None = None, /, **rule: str) -> dict[str, Any]:
    metadata = {"name": name, **({"tenant": tenant} if tenant else {})}
    spec = {"rules": [{"name": name, "require": require, **rule}]}
    return {"apiVersion": API, "kind": "Policy", "metadata": metadata, "spec": spec}


def price_book(name: str, per_hour: str, since: str = "2026-01-01T00:00:00Z") -> dict[str, Any]:
    prices = [{"profileClass": "h100-80g", "perGpuHour": per_hour}]
    spec = {"currency": "USD", "effectiveFrom": since, "prices": prices}
    return {"apiVersion": API, "kind": "PriceBook", "metadata": {"name": name}, "spec": spec}


def site(name: str, /, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": API,
        "kind": "Site",
        "metadata": {"name": name},
        "spec": {"orchestrator": "local", **spec},
    }
