"""Jobs in containers, when the site says so and podman or docker works here.

The supervisor's child is then `podman run …` in the foreground: it passes TERM on to the job and
exits with the job's code. A container is not its child, though; what ends it for certain is the
engine, so the supervisor is given a kill command that also removes what is left.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

Setting = Literal["auto", "never", "podman", "docker"]
PROBE_TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True)
class Engine:
    name: Literal["podman", "docker"]
    binary: str

    def run_command(
        self,
        *,
        container: str,
        image: str,
        command: tuple[str, ...],
        variables: Mapping[str, str],
        variables_file: str,
        devices: tuple[int, ...],
        publish: tuple[int, int] | None,
    ) -> list[str]:
        """`devices`: real GPUs by number. `publish`: a loopback port of ours -> one of the job's network."""
        argv = [self.binary, "run", "--rm", "--name", container]
        # As on Kubernetes: whoever starts it, a job has no rights over the machine and gets none.
        argv += ["--cap-drop=ALL", "--security-opt=no-new-privileges"]
        if publish is None:
            argv.append("--network=host")
        else:
            argv += ["--publish", f"127.0.0.1:{publish[0]}:{publish[1]}"]
        if devices and self.name == "docker":
            argv += ["--gpus", f'"device={",".join(map(str, devices))}"']
        else:
            argv += [part for number in devices for part in ("--device", f"nvidia.com/gpu={number}")]
        # By file: not visible in `ps`, and never in the engine's own environment, where an author's
        # LD_PRELOAD or DOCKER_HOST would steer a process of the host. A file has one line a variable.
        argv += ["--env-file", variables_file]
        for name, value in sorted(variables.items()):
            if "\n" in value:
                argv += ["--env", f"{name}={value}"]
        return [*argv, image, *command]

    def kill_command(self, container: str) -> list[str]:
        """KILL now, then remove. `rm --force` alone waits ten seconds in some versions of podman."""
        both = '"$0" stop -t 0 "$1"; "$0" rm --force "$1"'
        return ["sh", "-c", both, self.binary, container]


def file_of(variables: Mapping[str, str]) -> str:
    """The variables as an engine reads them from a file."""
    lines = (f"{name}={value}\n" for name, value in sorted(variables.items()) if "\n" not in value)
    return "".join(lines)


def container_name(workload: str, attempt: int, worker: int) -> str:
    return f"windlass-{workload}-{attempt}-{worker}"


def _works(binary: str) -> bool:
    try:
        probe = subprocess.run(
            [binary, "info"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=PROBE_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return probe.returncode == 0


def find_engine(
    setting: Setting,
    *,
    which: Callable[[str], str | None] = shutil.which,
    works: Callable[[str], bool] = _works,
) -> tuple[Engine | None, str]:
    """The engine to use, or none and why not: a clause for the author of an intent with an image."""
    if setting == "never":
        return None, "this site runs processes"
    names: tuple[Literal["podman", "docker"], ...] = ("podman", "docker")
    for name in names:
        if setting in ("auto", name):
            binary = which(name)
            if binary and works(binary):
                return Engine(name, binary), ""
    what = "neither podman nor docker works" if setting == "auto" else f"{setting} does not work"
    return None, f"{what} on this machine, so this site runs processes"
