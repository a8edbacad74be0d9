"""A primary and its standby at one address, and what can happen to the two: one dies and the other takes
over, and whoever died comes back as the new standby."""

from __future__ import annotations

import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tools.postgres_server import PASSWORD, PostgresServer, Session, standby_of

_PATIENCE_S = 60.0


@dataclass
class Pair:
    primary: PostgresServer
    standby: PostgresServer

    @property
    def url(self) -> str:
        """The same whoever leads: clients look for the one that takes writes."""
        return self.url_by(self.ports)

    @property
    def ports(self) -> list[int]:
        return sorted((self.primary.port, self.standby.port))

    def url_by(self, ports: Sequence[int]) -> str:
        """Of the two, reached by these ports."""
        hosts = ",".join(f"127.0.0.1:{port}" for port in ports)
        return f"postgresql://windlass:{PASSWORD}@{hosts}/postgres"

    def wait_for_standby(self) -> None:
        """From now on a commit of the primary is done when both have it. Once the standby leads, it waits for
        nobody."""
        _wait_for_followers(self.primary)
        session = Session(self.primary.url())
        deadline = time.monotonic() + _PATIENCE_S
        while not session.rows("SELECT 1 FROM pg_stat_replication WHERE sync_state = 'sync'"):
            assert time.monotonic() < deadline, "the standby never followed"
            time.sleep(0.02)
        session.close()

    def wait_for_each_other(self) -> None:
        """From now on a commit is done when both have it, whichever of the two leads."""
        _wait_for_followers(self.standby)
        self.wait_for_standby()

    def fail_over(self) -> None:
        """The primary is gone without a word, the standby leads. Until the other follows it, it
        acknowledges nothing."""
        self.primary.stop("immediate")
        self.standby.promote()
        self.primary, self.standby = self.standby, self.primary

    def follow_again(self) -> None:
        """Whoever led before comes back with a copy of what the other has now."""
        shutil.rmtree(self.standby.folder)
        self.standby = standby_of(self.primary, self.standby.folder, port=self.standby.port)
        self.standby.start()

    def revive(self) -> None:
        """Whoever gave up is started again."""
        for server in (self.primary, self.standby):
            if not server.answers():
                server.start()

    def stop(self) -> None:
        for server in (self.primary, self.standby):
            server.stop("immediate")


def started_pair(folder: Path) -> Pair:
    primary = PostgresServer(folder / "one")
    primary.create()
    primary.start()
    standby = standby_of(primary, folder / "two")
    standby.start()
    return Pair(primary, standby)


def _wait_for_followers(server: PostgresServer) -> None:
    session = Session(server.url())
    session.rows("ALTER SYSTEM SET synchronous_standby_names = '*'")
    session.rows("SELECT pg_reload_conf()")
    session.close()
