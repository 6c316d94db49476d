"""Progress: what is being done, how far it is, how long it will take."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Self, TextIO


class Stage:
    """A piece of work with a known number of steps, used as a context manager; shows nothing."""

    def advance(self, steps: int = 1) -> None:
        """Count `steps` more as done."""

    def note(self, doing: str, part: float | None = None) -> None:
        """Say what a long step is doing, and how many steps of the open unit are done."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        """Close the stage."""


class Progress:
    """Follows an audit; this one shows nothing."""

    def expect(self, stages: Mapping[str, float]) -> None:
        """Take note of the stages to come, and of the seconds that each may take (0: unknown)."""

    def stage(self, title: str, total: int) -> Stage:
        """Open a stage of `total` steps."""
        return Stage()

    def say(self, line: str) -> None:
        """Pass one line on."""


class Silent(Progress):
    """Shows nothing."""


class Lines(Progress):
    """Shows progress on stderr: nothing for two seconds, then how far it is and the time left.

    A terminal gets a bar; in a log a line is added every ten seconds. Where the stages to come are
    known, each is numbered, and the time left is that of all of them: a stage that has begun is
    extrapolated, a later one counts with what was expected of it, times how far earlier stages were
    from what was expected of them.
    """

    def __init__(
        self, out: TextIO | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.out = out or sys.stderr
        self.clock = clock
        self.live = self.out.isatty()
        self._expected: dict[str, float] = {}
        self._took: dict[str, float] = {}

    def expect(self, stages: Mapping[str, float]) -> None:
        """Number these stages, and count them in the time that is left."""
        self._expected, self._took = dict(stages), {}

    def stage(self, title: str, total: int) -> Stage:
        return _LineStage(self, title, total)

    def say(self, line: str) -> None:
        print(line, file=self.out, flush=True)

    def name(self, title: str) -> str:
        """Return a stage's title with its number.

        >>> lines = Lines()
        >>> lines.expect({"releases": 0, "observations": 20})
        >>> lines.name("observations"), lines.name("power")
        ('[2/2] observations', 'power')
        """
        if title not in self._expected:
            return title
        return f"[{[*self._expected].index(title) + 1}/{len(self._expected)}] {title}"

    def close(self, title: str, seconds: float) -> None:
        self._took[title] = self._took.get(title, 0.0) + seconds

    def estimate(self, title: str, seconds: float, share: float) -> str:
        """Write how long it takes from now on, `seconds` into a stage of which `share` is done."""
        pace = self._pace()
        left = seconds * (1 - share) / share if share else None
        if left is None and self._expected.get(title):
            left = max(0.0, self._expected[title] * pace - seconds)
        if left is None:
            return ""
        if title not in self._expected:
            return f", about {duration(left)} left"
        later = [*self._expected][[*self._expected].index(title) + 1 :]
        left += pace * sum(self._expected[name] for name in later)
        return f", about {duration(left)} left in all"

    def _pace(self) -> float:
        """Return how many times longer than expected the finished stages took.

        Ten seconds as expected are added: a short stage says little of the pace.
        """
        known = [name for name in self._took if self._expected.get(name)]
        took = sum(self._took[name] for name in known)
        return (10 + took) / (10 + sum(self._expected[name] for name in known))


def default_progress() -> Progress:
    """Return what a call from Python shows: lines in a notebook or a terminal, else nothing."""
    if "ipykernel" in sys.modules:
        return Lines(sys.stdout)
    return Lines() if sys.stderr.isatty() else Silent()


class _LineStage(Stage):
    PATIENCE = 2.0

    def __init__(self, lines: Lines, title: str, total: int) -> None:
        self._lines, self._title, self._total = lines, title, total
        self._done = 0
        self._part = 0.0
        self._start = lines.clock()
        self._next = self._start + self.PATIENCE
        self._shown = False
        self._doing = ""
        self._bar: Any = None

    def advance(self, steps: int = 1) -> None:
        self._done += steps
        self._part, self._doing = 0.0, ""
        self._tick()

    def note(self, doing: str, part: float | None = None) -> None:
        self._doing = f"; {doing}"
        self._part = self._part if part is None else part
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
        share = min(1.0, (self._done + self._part) / max(self._total, 1))
        estimate = self._lines.estimate(self._title, now - self._start, share)
        counted = f"{self._done:,} of {self._total:,} ({share:.0%})"
        return f"{self._lines.name(self._title)}: {counted}{estimate}{self._doing}"

    def _draw(self, text: str) -> None:
        if self._bar is None:
            from rich import progress
            from rich.console import Console
            from rich.table import Column

            self._bar = progress.Progress(
                progress.BarColumn(bar_width=10),
                progress.TextColumn(
                    "{task.description}",
                    markup=False,
                    table_column=Column(no_wrap=True, overflow="ellipsis"),
                ),
                console=Console(file=self._lines.out),
                auto_refresh=False,
                transient=True,
            )
            self._bar.add_task(text, total=self._total)
            self._bar.start()
        (task,) = self._bar.task_ids
        done = self._done + self._part
        self._bar.update(task, completed=done, description=text, refresh=True)

    def __exit__(self, *error: object) -> None:
        if self._bar is not None:
            self._bar.stop()
        if error[0] is not None:
            return
        seconds = self._lines.clock() - self._start
        if self._shown:
            name = self._lines.name(self._title)
            self._lines.say(f"{name}: {self._done:,} in {duration(seconds)}")
        self._lines.close(self._title, seconds)


_listener: ContextVar[Callable[[str, float | None], None] | None] = ContextVar(
    "listener", default=None
)
_span: ContextVar[tuple[float, float]] = ContextVar("span", default=(0.0, 1.0))


@contextmanager
def listening(stage: Stage) -> Iterator[None]:
    """Let work that is done in this process say how far it is, by `tell`."""
    token = _listener.set(stage.note)
    try:
        yield
    finally:
        _listener.reset(token)


@contextmanager
def span(start: float, end: float) -> Iterator[None]:
    """Let `tell` count from `start` to `end` steps of the open unit; inside a span, shares of it.

    >>> with span(0, 20), span(0.5, 1):
    ...     _span.get()
    (10.0, 20.0)
    """
    low, high = _span.get()
    token = _span.set((low + start * (high - low), low + end * (high - low)))
    try:
        yield
    finally:
        _span.reset(token)


def tell(doing: str, share: float | None = None) -> None:
    """Say what a long step is doing, to whoever listens: counts and phases, never data.

    `share` is how much of the open span is done: it goes into the estimate of the time left.
    """
    listener = _listener.get()
    if listener is not None:
        low, high = _span.get()
        listener(doing, None if share is None else low + share * (high - low))


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
