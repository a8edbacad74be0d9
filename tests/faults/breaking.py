"""What is done to an installation, with two hands: one kills, at instants nobody chose, and several at a
time; the other does whatever else can happen to a machine. They do not wait for each other, so processes die
in the middle of a failover, on a full disk, beside a frozen one. Each goes by a chance of its own, made of
the seed; when the machine does what is its own affair."""

from __future__ import annotations

import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from tests.faults.clients import at_work
from tests.faults.installation import Installation

from windlass.site.orchestrators.local.processes import send_signal

FROZEN_S = 4.0  # longer than a lease
_STEPS_S = (-7200, -90, -5, 5, 90, 7200)
_WORKS_S = 4.0  # between two strikes: without it nothing but starting would be tested
_QUIET_S = 10.0
_MOST_AT_ONCE = 6


class Breaker:
    def __init__(self, subject: Installation, seed: int) -> None:
        self._subject = subject
        self._chance = random.Random(seed)
        self._other = Misfortune(subject, random.Random(seed + 1))
        self._done: Counter[str] = Counter()

    @property
    def done(self) -> Counter[str]:
        return self._done + self._other.done

    def work(self, kills: int) -> None:
        """Until so many were killed."""
        over = threading.Event()
        self._other.over = over
        with at_work([self._other], over):
            while self._killed < kills and self._other.failure is None:
                self._strike()
                began = time.monotonic()
                self._subject.until_one_is_ready()
                # A machine on which starting takes long works as long, or nobody would ever be answered.
                self._wait(max(_WORKS_S, 2 * (time.monotonic() - began)))
                self._done["gave up"] += self._subject.restart_those_that_gave_up()
        if self._other.failure is not None:
            raise self._other.failure
        for process in self._subject.processes:
            process.step_clock(0)

    @property
    def _killed(self) -> int:
        return self._done["kill"] + self._done["kill supervisor"]

    def _strike(self) -> None:
        """Some processes, perhaps all servers, and some supervisors before, between and after. Whoever is
        started again may be hit again before it is ready."""
        victims = self._chance.choices(self._subject.processes, k=self._chance.randint(1, _MOST_AT_ONCE))
        for victim in victims:
            self._kill_supervisors()
            self._done["kill"] += victim.runs
            victim.kill()
            self._wait(0.3)
            if self._chance.random() < 0.5:
                self._subject.start_those_that_were_killed()
                self._wait(1.5)
        self._kill_supervisors()
        self._subject.start_those_that_were_killed()

    def _kill_supervisors(self) -> None:
        running = self._subject.supervisors()
        most = min(len(running), _MOST_AT_ONCE)
        for state in self._chance.sample(running, self._chance.randint(0, most)):
            killed = send_signal(state.supervisor_pid, state.supervisor_start, signal.SIGKILL)
            self._done["kill supervisor"] += killed

    def _wait(self, most_s: float) -> None:
        time.sleep(self._chance.random() * most_s)


@dataclass
class Misfortune:
    """Everything but death: one after the other, with some peace between them, until it is over."""

    subject: Installation
    chance: random.Random
    over: threading.Event = field(default_factory=threading.Event)
    done: Counter[str] = field(default_factory=Counter)
    failure: BaseException | None = None

    def work(self) -> None:
        others: list[Callable[[], None]] = [self.freeze, self.freeze_supervisor, self.step_clock]
        if self.subject.pair is not None:
            others += [self.restart_database, self.fail_over, self.cut_off]
        if self.subject.disk.can_be_full:
            others.append(self.fill_disk)
        try:
            while not self.over.wait(self.chance.random() * _QUIET_S):
                self.chance.choice(others)()
        except BaseException as error:  # of a thread: told by whoever waits for it
            self.failure = error

    def freeze(self) -> None:
        victim = self.chance.choice(self.subject.processes)
        victim.send(signal.SIGSTOP)
        time.sleep(FROZEN_S * self.chance.random() * 1.5)
        victim.send(signal.SIGCONT)
        self.done["freeze"] += 1

    def cut_off(self) -> None:
        """One server hears nothing of the database, nor it of the server. What was under way comes late."""
        way = self.chance.choice(self.subject.ways)
        way.fall_silent()
        time.sleep(FROZEN_S * self.chance.random() * 3)
        way.be_heard()
        self.done["cut off"] += 1

    def freeze_supervisor(self) -> None:
        """It is woken by whoever looks at it."""
        if running := self.subject.supervisors():
            state = self.chance.choice(running)
            frozen = send_signal(state.supervisor_pid, state.supervisor_start, signal.SIGSTOP)
            self.done["freeze supervisor"] += frozen

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
        """Of the database and of the site."""
        self.subject.disk.fill()
        time.sleep(self.chance.random() * 4)
        self.subject.disk.make_room()
        if self.subject.pair is not None:
            self.subject.pair.revive()
        self.done["disk full"] += 1
