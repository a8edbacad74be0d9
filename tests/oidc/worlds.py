"""The people of these tests: somebody at a terminal, the same person in a browser, and the provider."""

from __future__ import annotations

import html
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.cookiejar import CookieJar
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urljoin
from urllib.request import HTTPCookieProcessor, Request, build_opener, urlopen

from tests.oidc.node import installed

AUDIENCE = "https://windlass.example.com"
LIFETIME_S = 25
"""Of access tokens: shorter than what the client calls soon, so that every command renews."""

_V1 = {"apiVersion": "windlass.dev/v1"}
CATALOG: list[dict[str, Any]] = [
    {
        **_V1,
        "kind": "Tier",
        "metadata": {"name": "gold"},
        "spec": {"priority": 1, "preempts": False, "preemptible": False},
    },
    *(
        {**_V1, "kind": "Tenant", "metadata": {"name": name}, "spec": {"tier": "gold"}}
        for name in ("acme", "globex")
    ),
]


def provider_document(issuer: str, name: str = "corp") -> dict[str, Any]:
    return {
        **_V1,
        "kind": "IdentityProvider",
        "metadata": {"name": name},
        "spec": {
            "issuer": issuer,
            "audience": AUDIENCE,
            "clientId": "windlass-cli",
            "audienceParameter": "resource",
            "scopes": ["openid", "offline_access", "email"],
            "nameClaim": "email",
            "mappings": [
                {"group": "acme-devs", "role": "developer", "tenant": "acme"},
                {"group": "globex-devs", "role": "viewer", "tenant": "globex"},
            ],
        },
    }


@dataclass
class RealProvider:
    process: subprocess.Popen[str]
    issuer: str

    def rotate(self) -> str:
        """A new signing key; its id."""
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write("rotate\n")
        self.process.stdin.flush()
        return str(_said(self.process)["kid"])

    def machine_token(self, resource: str) -> str:
        """For a client that is nobody."""
        form = {
            "grant_type": "client_credentials",
            "client_id": "machine",
            "client_secret": "a secret that only this machine ever sees",
            "resource": resource,
        }
        with urlopen(f"{self.issuer}/token", urlencode(form).encode()) as answer:  # noqa: S310 (loopback)
            return str(json.load(answer)["access_token"])


def _said(process: subprocess.Popen[str]) -> Any:
    """The next line of ours; the provider prints notices of its own."""
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("{"):
            return json.loads(line)
    raise AssertionError("the provider ended")


@contextmanager
def real_provider() -> Iterator[RealProvider]:
    node, folder = installed()
    script = Path(__file__).with_name("provider.mjs")
    process = subprocess.Popen(
        [str(node), str(script), AUDIENCE, str(LIFETIME_S)],
        cwd=folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdin is not None and process.stdout is not None
    try:
        yield RealProvider(process, _said(process)["issuer"])
    finally:
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()


class Browser:
    """Follows redirects, keeps cookies, fills in the forms of the provider's own pages."""

    def __init__(self) -> None:
        self._open = build_opener(HTTPCookieProcessor(CookieJar())).open

    def answer(self, address: str, person: str) -> str:
        """Logs in and says yes to everything; the last page."""
        request, page = Request(address), ""  # noqa: S310 (loopback)
        for _ in range(12):
            with self._open(request) as answer:
                page, here = answer.read().decode(), answer.url
            form = re.search(r'<form[^>]*action="([^"]+)"', page)
            if form is None:
                return str(page)
            hidden = re.findall(r'<input type="hidden" name="([^"]+)" value="([^"]*)"', page)
            data = {name: html.unescape(value) for name, value in hidden}
            if 'name="login"' in page:
                data |= {"login": person, "password": "any"}
            target = urljoin(here, html.unescape(form[1]))
            request = Request(target, urlencode(data).encode())  # noqa: S310 (loopback)
        raise AssertionError(f"the provider asks and asks: {page}")


@dataclass
class Desk:
    """A terminal with a configuration of its own."""

    config: Path
    server: str

    def begin(self, *args: str) -> subprocess.Popen[str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("WINDLASS_")}
        return subprocess.Popen(
            [sys.executable, "-m", "windlass.experience.cli.main", *args],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**kept, "WINDLASS_CONFIG": str(self.config)},
        )

    def run(self, *args: str) -> tuple[int, str, str]:
        process = self.begin(*args)
        out, err = process.communicate(timeout=120)
        return process.returncode, out, err

    def log_in(self, person: str, *args: str) -> tuple[int, str, str]:
        process = self.begin("login", "--server", self.server, *args)
        assert process.stderr is not None
        told = ""
        while "code " not in told:
            line = process.stderr.readline()
            assert line, told
            told += line
        address = re.search(r"open +(\S+)", told)
        assert address is not None
        Browser().answer(address[1], person)
        out, err = process.communicate(timeout=120)
        return process.returncode, out, told + err

    def tokens(self) -> dict[str, str]:
        import tomllib

        contexts = tomllib.loads(self.config.read_text())["contexts"]
        (login,) = [one["login"] for one in contexts.values() if "login" in one]
        return dict(login)
