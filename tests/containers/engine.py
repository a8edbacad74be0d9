"""A real podman: Debian's packages in the cache folder, and one small image made here from busybox.

Nothing of it is installed, and nothing is pulled; images and containers live in the folder of the test.
"""

from __future__ import annotations

import io
import os
import subprocess
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tools.debian_packages import NotToBeHad, laid_over_usr, unpacked

PACKAGES = (
    *("podman", "conmon", "runc", "containernetworking-plugins", "golang-github-containers-common"),
    *("libgpgme11", "libassuan0", "libsubid4", "libsemanage2", "libdevmapper1.02.1", "libseccomp2"),
    *("iptables", "libip4tc2", "libip6tc2", "libxtables12", "libnftnl11", "libmnl0", "libnfnetlink0"),
    *("libnetfilter-conntrack3", "busybox-static"),
)
IMAGE = "localhost/windlass/busybox:1"
MARK = "in the image\n"
"""What /etc/mark says, and says nowhere else."""
APPLETS = ("sh", "cat", "echo", "env", "httpd", "kill", "mkfifo", "sleep", "trap", "wget")
# Debian's crun wants a cgroup layout that not every machine has; the limits are ones nobody needs rights for.
CONFIGURATION = """\
[containers]
default_ulimits = ["nofile=1024:1024", "nproc=4096:4096"]
[engine]
cgroup_manager = "cgroupfs"
events_logger = "none"
runtime = "runc"
[network]
network_backend = "cni"
network_config_dir = "{at}/networks"
"""


@dataclass(frozen=True)
class Podman:
    """`binary` is what a site calls: `podman`, in a folder of its own for PATH."""

    binary: Path

    @property
    def folder(self) -> Path:
        return self.binary.parent

    def call(self, *arguments: str, given: bytes | None = None) -> str:
        done = self.run(*arguments, given=given)
        assert done.returncode == 0, f"{arguments}: {done.stderr.decode(errors='replace')}"
        return done.stdout.decode()

    def run(self, *arguments: str, given: bytes | None = None) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            [str(self.binary), *arguments], input=given, capture_output=True, timeout=120, check=False
        )

    def containers(self) -> list[str]:
        return self.call("ps", "--all", "--format", "{{.Names}}").split()


@contextmanager
def started(at: Path) -> Iterator[Podman]:
    """Raises `NotToBeHad` where containers cannot be run, with the reason."""
    if os.getuid() != 0:
        raise NotToBeHad("containers are tried as root only")
    debian = unpacked("podman", PACKAGES)
    for name in ("iptables", "ip6tables"):  # what Debian's alternatives would have done
        with suppress(FileExistsError):
            (debian / "usr" / "sbin" / name).symlink_to("xtables-nft-multi")
    # One namespace for all its processes: what one of them mounts, the next one unmounts.
    keeper = subprocess.Popen([*laid_over_usr(debian), "cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        _echoes(keeper)
        podman = _podman(at, keeper.pid)
        policy = debian / "etc" / "containers" / "policy.json"
        podman.call("import", f"--signature-policy={policy}", "-", IMAGE, given=_image(debian))
        tried = podman.run("run", "--rm", "--network=host", IMAGE, "cat", "/etc/mark")
        if tried.stdout.decode() != MARK:
            raise NotToBeHad(f"Debian's podman runs no container here: {tried.stderr.decode()[-300:]}")
        yield podman
    finally:
        keeper.communicate()


def _echoes(keeper: subprocess.Popen[bytes]) -> None:
    """It is past its mounting."""
    assert keeper.stdin is not None and keeper.stdout is not None
    with suppress(BrokenPipeError):
        keeper.stdin.write(b"!")
        keeper.stdin.flush()
    if keeper.stdout.read(1) != b"!":
        raise NotToBeHad("Debian's packages cannot be laid over /usr here")


def _podman(at: Path, keeper: int) -> Podman:
    (at / "networks").mkdir()
    (at / "containers.conf").write_text(CONFIGURATION.format(at=at))
    podman = Podman(at / "bin" / "podman")
    podman.folder.mkdir()
    flags = f"--root {at}/store --runroot {at}/run --storage-driver vfs"
    podman.binary.write_text(
        f"#!/bin/sh\nexport CONTAINERS_CONF={at}/containers.conf PATH=/usr/sbin:/usr/bin\n"
        f'exec nsenter --mount=/proc/{keeper}/ns/mnt /usr/bin/podman {flags} "$@"\n'
    )
    podman.binary.chmod(0o755)
    return podman


def _image(debian: Path) -> bytes:
    """A file system as an archive: busybox under its names, a place to write, and a mark."""
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        tar.add(debian / "usr" / "bin" / "busybox", "bin/busybox")
        for applet in APPLETS:
            link = tarfile.TarInfo(f"bin/{applet}")
            link.type, link.linkname = tarfile.SYMTYPE, "busybox"
            tar.addfile(link)
        scratch = tarfile.TarInfo("tmp")
        scratch.type, scratch.mode = tarfile.DIRTYPE, 0o1777
        tar.addfile(scratch)
        mark = tarfile.TarInfo("etc/mark")
        mark.size = len(MARK)
        tar.addfile(mark, io.BytesIO(MARK.encode()))
    return archive.getvalue()
