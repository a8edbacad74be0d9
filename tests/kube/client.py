"""What the tests say to an API server: apply strictly, get, list, patch a status."""

from __future__ import annotations

import http.client
import json
import ssl
import time
from collections.abc import Mapping
from typing import Any


class Refused(AssertionError):
    """The server does not take it. The message is the server's."""


class Client:
    """Every write is a server-side apply that refuses unknown and doubled fields."""

    def __init__(self, host: str, port: int, token: str) -> None:
        self._host, self._port, self._token = host, port, token
        self._resources: dict[str, dict[str, tuple[str, bool]]] = {}
        self._unchecked = ssl.create_default_context()
        self._unchecked.check_hostname = False
        self._unchecked.verify_mode = ssl.CERT_NONE  # it made its certificate a moment ago, on this machine

    def ready(self) -> bool:
        try:
            return self._ask("GET", "/readyz")[0] == 200
        except OSError:
            return False

    def apply(self, thing: Mapping[str, Any], *, dry: bool = False) -> dict[str, Any]:
        metadata = thing["metadata"]
        path = self.path(thing["apiVersion"], thing["kind"], metadata.get("namespace"), metadata["name"])
        options = "?fieldManager=windlass&force=true&fieldValidation=Strict" + ("&dryRun=All" if dry else "")
        return self._told("PATCH", path + options, thing, "application/apply-patch+yaml")

    def status(self, thing: Mapping[str, Any]) -> None:
        metadata = thing["metadata"]
        path = self.path(thing["apiVersion"], thing["kind"], metadata.get("namespace"), metadata["name"])
        self._told("PATCH", path + "/status", thing, "application/merge-patch+json")

    def get(self, api_version: str, kind: str, name: str, namespace: str | None = None) -> dict[str, Any]:
        return self._told("GET", self.path(api_version, kind, namespace, name))

    def items(self, api_version: str, kind: str, namespace: str | None = None) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self._told("GET", self.path(api_version, kind, namespace))["items"]
        return found

    def delete(self, api_version: str, kind: str, name: str, namespace: str | None = None) -> None:
        self._told("DELETE", self.path(api_version, kind, namespace, name) + "?propagationPolicy=Background")

    def established(self, name: str) -> None:
        for _ in range(600):
            defined = self.get("apiextensions.k8s.io/v1", "CustomResourceDefinition", name)
            stated = defined.get("status", {}).get("conditions") or []
            conditions = {one["type"]: one["status"] for one in stated}
            if conditions.get("Established") == "True":
                self._resources.clear()
                return
            time.sleep(0.05)  # between two looks at another process
        raise AssertionError(f"the definition {name} was not established")

    def path(self, api_version: str, kind: str, namespace: str | None, name: str = "") -> str:
        root = f"/api/{api_version}" if "/" not in api_version else f"/apis/{api_version}"
        if api_version not in self._resources:
            listed = self._told("GET", root)["resources"]
            self._resources[api_version] = {
                one["kind"]: (one["name"], one["namespaced"]) for one in listed if "/" not in one["name"]
            }
        plural, namespaced = self._resources[api_version][kind]
        where = f"/namespaces/{namespace or 'default'}" if namespaced else ""
        return f"{root}{where}/{plural}" + (f"/{name}" if name else "")

    def _told(
        self, method: str, path: str, body: Any = None, kind: str = "application/json"
    ) -> dict[str, Any]:
        status, answer = self._ask(method, path, body, kind)
        said: dict[str, Any] = json.loads(answer)
        if status >= 300:
            raise Refused(f"{method} {path}: {status} {said.get('message')}")
        return said

    def _ask(
        self, method: str, path: str, body: Any = None, kind: str = "application/json"
    ) -> tuple[int, bytes]:
        connection = http.client.HTTPSConnection(self._host, self._port, timeout=60, context=self._unchecked)
        try:
            headers = {"Authorization": f"Bearer {self._token}", "Content-Type": kind}
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()
