"""Progress: what is being done, how far it is, how long it will take."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Self, TextIO


class Stage:
    """A piece of work with a known number of steps, used as a context manager; shows nothing."""

    def advance(self, steps: int = 1) -> None:
        """Count `steps` more as done."""

    def note(self, doing: str) -> None:
        """Say what a long step is doing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        """Close the stage."""


class Progress:
    """Follows an audit; this one shows nothing."""

    def stage(self, title: str, total: int) -> Stage:
        """Open a stage of `total` steps."""
        return Stage()

    def say(self, line: str) -> None:
        """Pass one line on."""


class Silent(Progress):
    """Shows nothing."""


class Lines(Progress):
    """Shows progress on stderr: nothing for two seconds, then how far it is and the time left.

    A terminal gets a bar; in a log a line is added every ten seconds.
    """

    def __init__(
        self, out: TextIO | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.out = out or sys.stderr
        self.clock = clock
        self.live = self.out.isatty()

    def stage(self, title: str, total: int) -> Stage:
        """Open a stage that shows itself once it has taken two seconds."""
        return _LineStage(self, title, total)

    def say(self, line: str) -> None:
        """Print the line."""
        print(line, file=self.out, flush=True)


class _LineStage(Stage):
    PATIENCE = 2.0

    def __init__(self, lines: Lines, title: str, total: int) -> None:
        self._lines, self._title, self._total = lines, title, total
        self._done = 0
        self._start = lines.clock()
        self._next = self._start + self.PATIENCE
        self._shown = False
        self._doing = ""
        self._bar: Any = None

    def advance(self, steps: int = 1) -> None:
        """Count the steps, and show them when it is time to."""
        self._done += steps
        self._doing = ""
        self._tick()

    def note(self, doing: str) -> None:
        """Add what is being done, when it is time to show something."""
        self._doing = f"; {doing}"
        self._tick()

    def _tick(self) -> None:
        now = self._lines.clock()
        if now < self._next:
            return
        self._next = now + (0.2 if self._lines.live else 10.0)
        self._shown = True
        if self._lines.live:
            self._draw(self._line(now))
        else:
            self._lines.say(self._line(now))

    def _line(self, now: float) -> str:
        share = self._done / max(self._total, 1)
        left = (now - self._start) * (1 - share) / share if share else None
        estimate = "" if left is None else f", about {duration(left)} left"
        counted = f"{self._done:,} of {self._total:,} ({share:.0%})"
        return f"{self._title}: {counted}{estimate}{self._doing}"

    def _draw(self, text: str) -> None:
        if self._bar is None:
            from rich import progress
            from rich.console import Console

            self._bar = progress.Progress(
                progress.BarColumn(bar_width=20),
                progress.TextColumn("{task.description}", markup=False),
                console=Console(file=self._lines.out),
                auto_refresh=False,
                transient=True,
            )
            self._bar.add_task(text, total=self._total)
            self._bar.start()
        (task,) = self._bar.task_ids
        self._bar.update(task, completed=self._done, description=text, refresh=True)

    def __exit__(self, *error: object) -> None:
        if self._bar is not None:
            self._bar.stop()
        if self._shown and error[0] is None:
            took = duration(self._lines.clock() - self._start)
            self._lines.say(f"{self._title}: {self._done:,} in {took}")


_listener: ContextVar[Callable[[str], None] | None] = ContextVar("listener", default=None)


@contextmanager
def listening(stage: Stage) -> Iterator[None]:
    """Let work that is done in this process say how far it is, by `tell`."""
    token = _listener.set(stage.note)
    try:
        yield
    finally:
        _listener.reset(token)


def tell(doing: str) -> None:
    """Say what a long step is doing, to whoever listens: counts and phases, never data."""
    listener = _listener.get()
    if listener is not None:
        listener(doing)


def duration(seconds: float) -> str:
    """Write a time span for people.

    >>> duration(0.4), duration(75), duration(7500)
    ('0 s', '1 min 15 s', '2 h 5 min')
    """
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"
