"""A real Kubernetes for tests: API server, controllers, scheduler, Kueue with its webhooks, and KWOK in the
place of nodes. Started in a temporary folder on free ports, gone with the test run.

The programs are built by tools/kube_binaries. Nothing else is needed of the machine, and no rights.
"""

from __future__ import annotations

import base64
import json
import os
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import yaml
from tests.kube.certificates import Certificates, certificates
from tests.kube.client import Client

T = TypeVar("T")
TOKEN = "windlass-tests"  # of a server that lives for minutes on the loopback
WEBHOOKS = (
    "clusterqueue",
    "cohort",
    "resourceflavor",
    "workload",
    "deployment",
    "statefulset",
    "-job",
    "-pod",
)
"""Of Kueue's, those for kinds that are here."""


class Plane:
    def __init__(self, programs: Path, folder: Path) -> None:
        self._programs, self._folder = programs, folder
        self._running: list[tuple[str, subprocess.Popen[bytes]]] = []
        self._ports = {name: _free_port() for name in ("api", "etcd", "peer", "kueue", "health")}
        self._certificates: Certificates = certificates(folder)
        self.client = Client("127.0.0.1", self._ports["api"], TOKEN)
        self._kubeconfig = folder / "kubeconfig"

    def start(self) -> None:
        """The API server with every definition, and the controllers."""
        self._kubeconfig.write_text(json.dumps(self._configured()))
        self._etcd()
        self._api_server()
        eventually(lambda: self.client.ready() or None, "the API server")
        self._define()
        config = f"--kubeconfig={self._kubeconfig}"
        quiet = ["--leader-elect=false", "--secure-port=0", "--kube-api-qps=200", "--kube-api-burst=400"]
        key = f"--service-account-private-key-file={self._certificates.account_key}"
        self._run("kube-controller-manager", config, *quiet, key)
        self._run("kube-scheduler", config, *quiet)
        nodes = ["--manage-all-nodes=true", "--node-lease-duration-seconds=40", "--node-ip=127.0.0.1"]
        stages = f"--config={self._programs / 'stages.yaml'}"
        self._run("kwok", config, *nodes, "--cidr=10.0.0.1/24", stages)

    def start_kueue(self, configuration: Mapping[str, Any]) -> None:
        """With what a site is told to configure, and where things are on this machine."""
        self.client.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kueue-system"}})
        here = {
            **configuration,
            "namespace": "kueue-system",
            "health": {"healthProbeBindAddress": f"127.0.0.1:{self._ports['health']}"},
            "metrics": {"bindAddress": "0"},
            "webhook": {
                "host": "127.0.0.1",
                "port": self._ports["kueue"],
                "certDir": str(self._certificates.folder),
            },
            "leaderElection": {"leaderElect": False},
            "internalCertManagement": {"enable": False},
            "featureGates": {"VisibilityOnDemand": False, "UnadmittedWorkloadsObservability": True},
        }
        written = self._folder / "kueue.yaml"
        written.write_text(json.dumps(here))
        self._run("kueue", f"--config={written}", f"--kubeconfig={self._kubeconfig}")
        eventually(lambda: _answers(self._ports["health"]) or None, "Kueue")
        eventually(lambda: _open(self._ports["kueue"]) or None, "Kueue's webhooks")
        for hooks in self._hooks():
            self.client.apply(hooks)

    def stop(self) -> None:
        for _, process in reversed(self._running):
            process.terminate()
        for _, process in reversed(self._running):
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def log(self, name: str) -> str:
        return (self._folder / f"{name}.log").read_text(errors="replace")

    def _etcd(self) -> None:
        client, peer = (f"http://127.0.0.1:{self._ports[name]}" for name in ("etcd", "peer"))
        self._run(
            "etcd",
            f"--data-dir={self._folder / 'etcd'}",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
            "--unsafe-no-fsync",
            "--log-level=error",
        )

    def _api_server(self) -> None:
        tokens = self._folder / "tokens.csv"
        tokens.write_text(f'{TOKEN},admin,admin,"system:masters"\n')
        self._run(
            "kube-apiserver",
            f"--etcd-servers=http://127.0.0.1:{self._ports['etcd']}",
            "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1",
            "--endpoint-reconciler-type=none",
            f"--secure-port={self._ports['api']}",
            f"--cert-dir={self._folder}",
            f"--token-auth-file={tokens}",
            "--authorization-mode=RBAC",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-signing-key-file={self._certificates.account_key}",
            f"--service-account-key-file={self._certificates.account_key}",
            "--service-cluster-ip-range=10.0.0.0/24",
            "--disable-admission-plugins=ServiceAccount",
        )

    def _define(self) -> None:
        for file in sorted((self._programs / "definitions").glob("*.yaml")):
            for definition in yaml.safe_load_all(file.read_text()):
                if definition["spec"]["group"] == "infrastructure.opendatahub.io":
                    # Released as v1 with the same shape; the newest module that can be had calls it v1alpha1.
                    definition["spec"]["versions"][0]["name"] = "v1"
                self.client.apply(definition)
                self.client.established(definition["metadata"]["name"])

    def _hooks(self) -> Iterator[dict[str, Any]]:
        bundle = base64.b64encode(self._certificates.authority.read_bytes()).decode()
        for hooks in yaml.safe_load_all((self._programs / "webhooks.yaml").read_text()):
            kept = []
            for hook in hooks["webhooks"]:
                path = hook["clientConfig"]["service"]["path"]
                if path.endswith(WEBHOOKS):
                    address = f"https://127.0.0.1:{self._ports['kueue']}{path}"
                    kept.append({**hook, "clientConfig": {"url": address, "caBundle": bundle}})
            yield {**hooks, "webhooks": kept}

    def _configured(self) -> dict[str, Any]:
        server = f"https://127.0.0.1:{self._ports['api']}"
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "c", "cluster": {"server": server, "insecure-skip-tls-verify": True}}],
            "users": [{"name": "u", "user": {"token": TOKEN}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "c",
        }

    def _run(self, program: str, *arguments: str) -> None:
        environment = {**os.environ, "KUEUE_METRICS_CERTS": str(self._certificates.folder)}
        with (self._folder / f"{program}.log").open("wb") as log:
            process = subprocess.Popen(
                [str(self._programs / program), *arguments],
                stdout=log,
                stderr=subprocess.STDOUT,
                env=environment,
                cwd=self._folder,
            )
        self._running.append((program, process))


@contextmanager
def plane(programs: Path, folder: Path) -> Iterator[Plane]:
    running = Plane(programs, folder)
    try:
        running.start()
        yield running
    finally:
        running.stop()


def eventually(look: Callable[[], T | None], what: str) -> T:
    """Looks until there is something. Minutes, because a busy machine is no defect."""
    for _ in range(1800):
        if (found := look()) is not None:
            return found
        time.sleep(0.1)  # between two looks at another process
    raise AssertionError(f"{what} did not come")


def _answers(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), 1) as connection:
            connection.sendall(b"GET /readyz HTTP/1.0\r\n\r\n")
            return b" 200 " in connection.recv(64)
    except OSError:
        return False


def _open(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True


def _free_port() -> int:
    with socket.socket() as chosen:
        chosen.bind(("127.0.0.1", 0))
        port: int = chosen.getsockname()[1]
        return port
