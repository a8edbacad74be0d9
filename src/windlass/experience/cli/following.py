"""A log, followed to the end of the work: through waiting, retries, preemptions and a server that
was away. `logs -f` and `run` both follow like this.

The API gives a log from its beginning only, so after a break it is read again and what was printed
is skipped.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TextIO

from windlass.core.errors import NotFound, Unavailable
from windlass.experience.cli import phrases
from windlass.experience.cli.output import print_next
from windlass.experience.cli.phases import WAITING, is_final
from windlass.experience.cli.progress import waiting
from windlass.experience.cli.session import Session
from windlass.sdk import api

_FIRST_POLL_S = 0.1
_LONGEST_POLL_S = 1.0
_PATIENCE_S = 60.0  # a server that restarts is back well within this
_BREAKS_AFTER_THE_END = 3


Printer = Callable[[str], None]


def copied(stream: TextIO) -> Printer:
    """As the work wrote it."""

    def copy(text: str) -> None:
        stream.write(text)
        stream.flush()

    return copy


class Lines:
    """For a program: one value per line, whatever pieces the log comes in."""

    def __init__(self, worker: int, output: str) -> None:
        self._worker, self._output, self._rest = worker, output, ""

    def __call__(self, text: str) -> None:
        *whole, self._rest = (self._rest + text).split("\n")
        for line in whole:
            print_next({"worker": self._worker, "line": line}, self._output)
        sys.stdout.flush()

    def finish(self) -> None:
        """What was written last may be no whole line."""
        if self._rest:
            self("\n")


class Follower:
    """One component's log. `printed` counts the characters that are out, of `attempt`; `silent` is
    whether there were none at all, `missing` why there could be none."""

    def __init__(self, session: Session, path: str, worker: int, printer: Printer) -> None:
        self._session = session
        self._path = path
        self._worker = worker
        self._print = printer
        self.attempt: int | None = None
        self.printed = 0
        self.silent = True
        self.missing: NotFound | None = None
        self._told = False

    def to_the_end(self) -> api.Component:
        """Copies the log of every attempt until the work has ended; returns the work as it ended."""
        component = self._until_started(self._look(), after=None)
        while True:
            self.attempt = self._next_attempt(component)
            try:
                self.copy_attempt(component)
            except NotFound as error:
                # An attempt that ended before it started; others may follow.
                self.missing = error
            followed = component.status.attempt if self.attempt is None else self.attempt
            self.printed = 0
            component = self._until_over(followed)
            if is_final(component) and component.status.attempt <= followed:
                return component
            if component.status.phase in WAITING:
                self._session.say(f"{self._path} is {component.status.phase}: it will start again")
            component = self._until_started(component, after=followed)
            if is_final(component) and component.status.attempt <= followed:
                return component

    def copy_attempt(self, component: api.Component, *, follow: bool = True) -> None:
        """The log of one attempt, to its end, however often the connection breaks."""
        breaks = 0
        while True:
            try:
                self._copy(follow=follow and not is_final(component))
                return
            except Unavailable as error:
                if not breaks:
                    self._session.say(f"the log broke off ({error.detail}); waiting for the server")
                component = self._look(patient=True)
                breaks = breaks + 1 if is_final(component) else max(breaks, 1)
                if breaks > _BREAKS_AFTER_THE_END:
                    self._session.say("the rest of the log cannot be read; `windlass logs` may show it later")
                    return
                time.sleep(_FIRST_POLL_S)

    def show(self, text: str) -> None:
        self.silent = self.silent and not text
        self._print(text)

    def _copy(self, *, follow: bool) -> None:
        skip = self.printed
        pieces = self._session.client.logs(
            self._path, follow=follow, worker=self._worker, attempt=self.attempt
        )
        for piece in pieces:
            fresh = piece[skip:]
            skip = max(0, skip - len(piece))
            self.printed += len(fresh)
            self.show(fresh)

    def _next_attempt(self, component: api.Component) -> int | None:
        """The one after the last that was copied; the present one at first (None: the server knows)."""
        now = component.status.attempt
        if not now:
            return None
        return now if self.attempt is None else min(self.attempt + 1, now)

    def _until_started(self, component: api.Component, after: int | None) -> api.Component:
        """Until there is a log to read that was not copied yet, or never will be one."""

        def ready(one: api.Component) -> bool:
            if is_final(one) or one.status.phase == "Running":
                return True
            # Preempted or waiting for its retry: what it wrote before is there already.
            return after is None and one.status.attempt > 0 and one.status.phase in WAITING

        if ready(component):
            return component
        with waiting(self._session, f"{self._path} waits for its turn") as tell:
            return self._poll(ready, tell)

    def _until_over(self, attempt: int) -> api.Component:
        """The log ends a moment before the platform notices the end of the work."""

        def over(one: api.Component) -> bool:
            return is_final(one) or one.status.phase in WAITING or one.status.attempt > attempt

        return self._poll(over, lambda _: None)

    def _poll(self, wanted: Callable[[api.Component], bool], tell: Callable[[str], None]) -> api.Component:
        pause_s = _FIRST_POLL_S
        while True:
            component = self._look(patient=True)
            if wanted(component):
                return component
            reason = component.status.reason
            if reason and component.status.phase in WAITING and not self._told:
                self._told = True  # once; what changes is for who looks at a terminal
                self._session.say(waits(self._session, self._path, component))
            tell(f"{self._path} is {component.status.phase}" + (f": {reason.message}" if reason else ""))
            time.sleep(pause_s)
            pause_s = min(pause_s * 1.5, _LONGEST_POLL_S)

    def _look(self, *, patient: bool = False) -> api.Component:
        until = time.monotonic() + (_PATIENCE_S if patient else 0)
        while True:
            try:
                return self._session.client.component(self._path)
            except Unavailable:
                if time.monotonic() > until:
                    raise
            time.sleep(_LONGEST_POLL_S)


def waits(session: Session, path: str, component: api.Component) -> str:
    """`nlp/prod/x waits (Pending), because of quota: …; it should start in about 5 m`."""
    status = component.status
    because = f", because of {status.reason.cause}: {status.reason.message}" if status.reason else ""
    when = phrases.when(status.estimated_start, session.now_ms())
    start = f"; it should start {when}" if when else ""
    return f"{path} is {status.phase}, waiting for its start{because.rstrip('.')}{start}"
