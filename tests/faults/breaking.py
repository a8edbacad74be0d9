"""What is done to an installation: so many kills at instants nobody chose, and between them what else can
happen to a machine. Chosen by a seed; when the machine does what is its own affair."""

from __future__ import annotations

import random
import signal
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from tests.faults.installation import Installation

from windlass.site.orchestrators.local.processes import send_signal

FROZEN_S = 4.0  # longer than a lease
_STEPS_S = (-7200, -90, -5, 5, 90, 7200)


@dataclass
class Breaker:
    subject: Installation
    chance: random.Random
    done: Counter[str] = field(default_factory=Counter)

    def work(self, kills: int) -> None:
        """Kills are counted; about one time in five something else happens before the next."""
        others: list[Callable[[], None]] = [self.freeze, self.freeze_supervisor, self.step_clock]
        if self.subject.pair is not None:
            others += [self.restart_database, self.fail_over]
        if self.subject.disk.can_be_full:
            others.append(self.fill_disk)
        while self.done["kill"] + self.done["kill supervisor"] < kills:
            time.sleep(self.chance.random())
            self.done["gave up"] += self.subject.restart_those_that_gave_up()
            if self.chance.random() < 0.2:
                self.chance.choice(others)()
            elif self.chance.random() < 0.5:
                self.kill_supervisor()
            else:
                self.kill()
        for process in self.subject.processes:
            process.step_clock(0)

    def kill(self) -> None:
        self._kill_one()
        if len(self.subject.servers) == 1 and self.chance.random() < 0.4:
            # Alone it must get to work now and then, or nothing but its starting would be tested.
            self.subject.until_ready()
            time.sleep(self.chance.random() * 2)

    def _kill_one(self) -> None:
        victim = self.chance.choice(self.subject.processes)
        victim.kill()
        time.sleep(self.chance.random() * 0.5)
        victim.start()
        self.done["kill"] += 1

    def kill_supervisor(self) -> None:
        self._signal_supervisor(signal.SIGKILL, "kill supervisor")

    def freeze(self) -> None:
        victim = self.chance.choice(self.subject.processes)
        victim.send(signal.SIGSTOP)
        time.sleep(FROZEN_S * self.chance.random() * 1.5)
        victim.send(signal.SIGCONT)
        self.done["freeze"] += 1

    def freeze_supervisor(self) -> None:
        """It is woken by whoever looks at it."""
        self._signal_supervisor(signal.SIGSTOP, "freeze supervisor")

    def _signal_supervisor(self, number: signal.Signals, what: str) -> None:
        running = self.subject.supervisors()
        if not running:
            return
        state = self.chance.choice(running)
        self.done[what] += send_signal(state.supervisor_pid, state.supervisor_start, number)

    def step_clock(self) -> None:
        """Of one process; it is right again when that process starts the next time."""
        self.chance.choice(self.subject.processes).step_clock(self.chance.choice(_STEPS_S))
        self.done["clock step"] += 1

    def restart_database(self) -> None:
        """Gone without a word, as a crash of its machine; back after a while."""
        pair = self.subject.pair
        assert pair is not None
        pair.primary.stop("immediate")
        time.sleep(self.chance.random() * 3)
        pair.primary.start()
        self.done["database gone"] += 1

    def fail_over(self) -> None:
        """The standby leads; whoever led before follows it after a while."""
        pair = self.subject.pair
        assert pair is not None
        pair.fail_over()
        time.sleep(self.chance.random() * 2)
        pair.follow_again()
        self.done["failover"] += 1

    def fill_disk(self) -> None:
        """Of the database and of the site. Half of the time somebody dies meanwhile, and starts on it."""
        self.subject.disk.fill()
        time.sleep(self.chance.random() * 2)
        if self.chance.random() < 0.5:
            self._kill_one()
        time.sleep(self.chance.random() * 2)
        self.subject.disk.make_room()
        if self.subject.pair is not None:
            self.subject.pair.revive()
        self.done["disk full"] += 1
