"""A real Slurm on this machine: one controller, four nodes with pretended GPUs, in a folder of its own.

The machine's own Slurm if it has one; else Debian's packages, unpacked once into the cache folder. Those
expect to be under /usr, so each of their programs is started with that folder laid over /usr, in a mount
namespace that no other process sees.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from tools.debian_packages import NotToBeHad, laid_over_usr, unpacked

PACKAGES = (
    "libhwloc15",
    "liblua5.1-0",
    "libmunge2",
    "munge",
    "slurm-client",
    "slurm-wlm-basic-plugins",
    "slurmctld",
    "slurmd",
)
PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "srun", "scontrol")
PATIENCE_S = 60
T = TypeVar("T")

SLURM_CONF = """\
ClusterName=windlass
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller_port}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={at}/munge.sock
StateSaveLocation={at}/state
SlurmdSpoolDir={at}/spool.%n
SlurmctldPidFile={at}/slurmctld.pid
SlurmdPidFile={at}/slurmd.%n.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
SchedulerParameters=sched_interval=1,bf_interval=2
GresTypes=gpu,shard
MpiDefault=none
SlurmdParameters=config_overrides
ReturnToService=2
{nodes}
PartitionName=h100-80g Nodes=gpu[1-3] MaxTime=INFINITE State=UP
PartitionName=l40s-48g Nodes=gpu4 MaxTime=INFINITE State=UP
"""
NODES = (  # features, gres
    ("h100-80g", "gpu:h100-80g:8"),
    ("h100-80g,ib", "gpu:h100-80g:8"),
    ("h100-80g", "gpu:h100-80g_1g.10gb:7"),
    ("l40s-48g", "gpu:l40s-48g:2,shard:8"),
)
# A GPU is a device file; nothing opens these.
GRES_CONF = """\
AutoDetect=off
NodeName=gpu[1-2] Name=gpu Type=h100-80g File={at}/nvidia[0-7]
NodeName=gpu3 Name=gpu Type=h100-80g_1g.10gb File={at}/nvidia[0-6]
NodeName=gpu4 Name=gpu Type=l40s-48g File={at}/nvidia[0-1]
NodeName=gpu4 Name=shard Count=4 File={at}/nvidia0
NodeName=gpu4 Name=shard Count=4 File={at}/nvidia1
"""


@dataclass(frozen=True)
class Cluster:
    at: Path
    prefix: tuple[str, ...]

    def call(self, *argv: str, given: str | None = None) -> str:
        done = subprocess.run(
            [*self.prefix, *argv],
            input=given,
            cwd=self.at / "out",
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert done.returncode == 0, f"{argv}: {done.stderr}"
        return done.stdout.strip()

    @property
    def environment(self) -> dict[str, str]:
        path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
        return {"PATH": path, "SLURM_CONF": str(self.at / "slurm.conf"), "SECRET_OF_THE_AGENT": "x"}

    def submit(self, script: str) -> str:
        """As an agent does: the script alone says everything."""
        return self.call("sbatch", "--parsable", given=script)

    def job(self, number: str) -> dict[str, str]:
        shown = self.call("scontrol", "show", "--oneliner", "job", number).splitlines()[0]
        return {key: value for key, _, value in (part.partition("=") for part in shown.split())}

    def ended(self, number: str) -> str:
        """Its state, once it has one that lasts."""
        return wait_for(lambda: _lasting(self.job(number)["JobState"]), f"job {number}")

    def output(self, name: str) -> str:
        return (self.at / "out" / name).read_text()


def _lasting(state: str) -> str | None:
    return None if state in ("PENDING", "RUNNING", "COMPLETING", "CONFIGURING") else state


def wait_for(look: Callable[[], T | None], what: str) -> T:
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until:
        if found := look():
            return found
        time.sleep(0.1)  # nothing tells us: Slurm has to be asked
    raise AssertionError(f"{what} did not come about within {PATIENCE_S} s")


@contextmanager
def started(at: Path) -> Iterator[Cluster]:
    cluster = Cluster(at, programs())
    _configure(at)
    daemons: list[subprocess.Popen[bytes]] = []
    try:
        daemons.append(_daemon(cluster, "munged", "--foreground", "--force", *_munge(at)))
        wait_for((at / "munge.sock").exists, "munged")
        daemons.append(_daemon(cluster, "slurmctld", "-D", "-i"))
        daemons += [_daemon(cluster, "slurmd", "-D", "-N", f"gpu{n}") for n in range(1, len(NODES) + 1)]
        wait_for(lambda: _idle(cluster) == len(NODES), "nodes that are ready")
        yield cluster
    finally:
        for daemon in reversed(daemons):
            daemon.terminate()
        for daemon in daemons:
            daemon.wait(timeout=PATIENCE_S)


def _daemon(cluster: Cluster, name: str, *arguments: str) -> subprocess.Popen[bytes]:
    with (cluster.at / f"{name}{''.join(arguments[-1:])[:5]}.log".replace("/", "_")).open("wb") as log:
        return subprocess.Popen(
            [*cluster.prefix, name, *arguments], env=cluster.environment, stdout=log, stderr=log
        )


def _idle(cluster: Cluster) -> int:
    done = subprocess.run(
        [*cluster.prefix, "sinfo", "--noheader", "--Node", "--states=idle", "--format=%N"],
        env=cluster.environment,
        capture_output=True,
        text=True,
        check=False,
    )
    return len(set(done.stdout.split()))


def _munge(at: Path) -> list[str]:
    return [f"--{name}-file={at}/munge.{name}" for name in ("key", "pid", "log", "seed")] + [
        f"--socket={at}/munge.sock"
    ]


def _configure(at: Path) -> None:
    at.chmod(0o755)
    for folder in ("state", "out", *(f"spool.gpu{n}" for n in range(1, len(NODES) + 1))):
        (at / folder).mkdir()
    (at / "munge.key").write_bytes(os.urandom(1024))
    (at / "munge.key").chmod(0o400)
    for n in range(8):
        (at / f"nvidia{n}").symlink_to("/dev/null")
    host = socket.gethostname().partition(".")[0]
    controller, *ports = _free_ports(1 + len(NODES))
    nodes = "\n".join(
        f"NodeName=gpu{n} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs=96 RealMemory=2000000 "
        f"Gres={gres} Feature={features} State=UNKNOWN"
        for n, (port, (features, gres)) in enumerate(zip(ports, NODES, strict=True), start=1)
    )
    user = Path("~").expanduser().owner() if os.getuid() else "root"
    (at / "slurm.conf").write_text(
        SLURM_CONF.format(host=host, controller_port=controller, user=user, at=at, nodes=nodes)
    )
    (at / "gres.conf").write_text(GRES_CONF.format(at=at))
    (at / "cgroup.conf").write_text("CgroupPlugin=autodetect\nCgroupAutomount=no\nIgnoreSystemd=yes\n")


def _free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            with closing(one):
                pass


def programs() -> tuple[str, ...]:
    """What a program of Slurm is started through."""
    if all(shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin") for name in PROGRAMS):
        return ()
    debian = unpacked("slurm", PACKAGES)
    for name in ("slurmctld", "slurmstepd", "slurmd"):  # what Debian's alternatives would have done
        with suppress(FileExistsError):
            (debian / "usr" / "sbin" / name).symlink_to(f"{name}-wlm")
    prefix = laid_over_usr(debian)
    tried = subprocess.run([*prefix, "slurmctld", "-V"], capture_output=True, text=True, check=False)
    if tried.returncode:
        raise NotToBeHad(f"Debian's Slurm does not start here: {tried.stderr.strip()[-300:]}")
    return prefix
