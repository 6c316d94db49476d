"""Progress: what is being done, how far it is, how long it will take."""

from __future__ import annotations

import math
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


TELLING, AGREE = 0.1, 1.5
"""An estimate is told once this share is done, or once both halves of the time so far agree so
well."""
MEASURED = 5.0
"""Seconds of work that must have been timed before what is expected of later stages is told."""


class Timed(Progress):
    """Knows how long stages take: what is known of the time that is left.

    A stage that has begun is extrapolated; a later one counts with what was expected of it, times
    how far the work so far was from what was expected. Before anything was timed, nothing is told.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self._expected: dict[str, float] = {}
        self._took: dict[str, float] = {}

    def expect(self, stages: Mapping[str, float]) -> None:
        """Count these stages in the time that is left."""
        self._expected, self._took = dict(stages), {}

    def close(self, title: str, seconds: float) -> None:
        self._took[title] = self._took.get(title, 0.0) + seconds

    def time_left(self, title: str, seconds: float, total: float | None) -> tuple[float, str]:
        """Return how many seconds are left, and of what: "" where that is not known.

        Args:
            title: the open stage.
            seconds: how long it has taken so far.
            total: how long it takes as a whole, extrapolated; None: not known yet.
        """
        if title not in self._expected:
            return (0.0, "") if total is None else (total - seconds, "left")
        pace = self._pace(title, total)
        if pace is None:
            return (0.0, "") if total is None else (total - seconds, "left in this step")
        if total is None:
            total = self._expected[title] * pace
            if not total:
                return 0.0, ""
        later = [*self._expected][[*self._expected].index(title) + 1 :]
        left = max(0.0, total - seconds)
        return left + pace * sum(self._expected[name] for name in later), "left in all"

    def _pace(self, title: str, total: float | None) -> float | None:
        """Return how many times longer than expected stages take; None before that was timed.

        Ten seconds as expected are added: a short stage says little of the pace.
        """
        times = {name: took for name, took in self._took.items() if self._expected.get(name)}
        if total is not None and self._expected.get(title):
            times[title] = total
        took = sum(times.values())
        if took < MEASURED:
            return None
        return (10 + took) / (10 + sum(self._expected[name] for name in times))


class _TimedStage(Stage):
    def __init__(self, timed: Timed, title: str, total: int) -> None:
        self._timed, self._title, self._total = timed, title, total
        self._done, self._part = 0, 0.0
        self._start = timed.clock()
        self._seen: list[tuple[float, float]] = []

    def advance(self, steps: int = 1) -> None:
        self._done += steps
        self._part = 0.0
        self._look()

    def note(self, doing: str, part: float | None = None) -> None:
        self._part = self._part if part is None else part
        self._look()

    @property
    def share(self) -> float:
        return min(1.0, (self._done + self._part) / max(self._total, 1))

    @property
    def seconds(self) -> float:
        return self._timed.clock() - self._start

    def _look(self) -> None:
        """Write down how far the stage is, at times that grow further apart."""
        if not self._seen or self.seconds > 1.2 * self._seen[-1][0]:
            self._seen.append((self.seconds, self.share))

    def time_left(self) -> tuple[float, str]:
        seconds, share, pace = self.seconds, self.share, None
        halves = [(t, s) for t, s in self._seen if s and t <= seconds / 2]
        if share >= TELLING:
            pace = share / seconds if seconds else None
        elif halves:
            at, before = halves[-1]
            first, second = before / at if at else math.inf, (share - before) / (seconds - at)
            pace = second if first < AGREE * second and second < AGREE * first else None
        total = None if not pace else seconds + (1 - share) / pace
        return self._timed.time_left(self._title, seconds, total)

    def __exit__(self, *error: object) -> None:
        if error[0] is None:
            self._timed.close(self._title, self.seconds)


class Lines(Timed):
    """Shows progress on stderr: nothing for two seconds, then how far it is and the time left.

    A terminal gets a bar; in a log a line is added every ten seconds. Of the stages of a run those
    that are shown are numbered.
    """

    def __init__(
        self, out: TextIO | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__(clock)
        self.out = out or sys.stderr
        self.live = self.out.isatty()
        self._numbers: dict[str, int] = {}

    def expect(self, stages: Mapping[str, float]) -> None:
        super().expect(stages)
        self._numbers = {}

    def stage(self, title: str, total: int) -> Stage:
        return _LineStage(self, title, total)

    def say(self, line: str) -> None:
        print(line, file=self.out, flush=True)

    def name(self, title: str) -> str:
        """Return the title of a stage that is shown, with its number.

        >>> lines = Lines()
        >>> lines.expect({"releases": 0, "observations": 20, "report": 2})
        >>> lines.name("observations"), lines.name("report"), lines.name("power")
        ('1. observations', '2. report', 'power')
        """
        if title not in self._expected:
            return title
        return f"{self._numbers.setdefault(title, len(self._numbers) + 1)}. {title}"


class Noted(Timed):
    """Passes progress on, and notes in a file how far a run is, for other processes to read.

    Args:
        progress: what is told too.
        note: writes the note: stage, steps done and in all, seconds left and of what.
    """

    EVERY = 2.0

    def __init__(self, progress: Progress, note: Callable[[dict[str, Any]], None]) -> None:
        super().__init__()
        self._progress, self.write = progress, note

    def expect(self, stages: Mapping[str, float]) -> None:
        super().expect(stages)
        self._progress.expect(stages)

    def stage(self, title: str, total: int) -> Stage:
        return _NotedStage(self, self._progress.stage(title, total), title, total)

    def say(self, line: str) -> None:
        self._progress.say(line)


class _NotedStage(_TimedStage):
    def __init__(self, noted: Noted, stage: Stage, title: str, total: int) -> None:
        super().__init__(noted, title, total)
        self._noted, self._stage = noted, stage
        self._next = self._start
        self._look()

    def advance(self, steps: int = 1) -> None:
        super().advance(steps)
        self._stage.advance(steps)

    def note(self, doing: str, part: float | None = None) -> None:
        super().note(doing, part)
        self._stage.note(doing, part)

    def _look(self) -> None:
        super()._look()
        now = self._noted.clock()
        if now >= self._next:
            self._next = now + self._noted.EVERY
            left, of = self.time_left()
            self._noted.write(
                {"stage": self._title, "done": self._done, "of": self._total, "left": left}
                | {"meaning": of}
            )

    def __enter__(self) -> Self:
        self._stage.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        super().__exit__(*error)
        self._stage.__exit__(*error)


def default_progress() -> Progress:
    """Return what a call from Python shows: lines in a notebook or a terminal, else nothing."""
    if "ipykernel" in sys.modules:
        return Lines(sys.stdout)
    return Lines() if sys.stderr.isatty() else Silent()


def progress_of(asked: Progress | bool | None) -> Progress:
    """Return what a call from Python tells: what was asked for; False: nobody, True: everybody."""
    if isinstance(asked, bool):
        return Lines() if asked else Silent()
    return asked or default_progress()


class _LineStage(_TimedStage):
    PATIENCE = 2.0

    def __init__(self, lines: Lines, title: str, total: int) -> None:
        super().__init__(lines, title, total)
        self._lines = lines
        self._next = self._start + self.PATIENCE
        self._shown = False
        self._doing = ""
        self._bar: Any = None

    def advance(self, steps: int = 1) -> None:
        self._doing = ""
        super().advance(steps)

    def note(self, doing: str, part: float | None = None) -> None:
        self._doing = f"; {doing}"
        super().note(doing, part)

    def _look(self) -> None:
        super()._look()
        now = self._lines.clock()
        if now < self._next:
            return
        self._next = now + (0.2 if self._lines.live else 10.0)
        self._shown = True
        if self._lines.live:
            self._draw(self._line())
        else:
            self._lines.say(self._line())

    def _line(self) -> str:
        left, of = self.time_left()
        estimate = f", about {duration(left)} {of}" * bool(of)
        counted = f"{self._done:,} of {self._total:,} ({self.share:.0%})"
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
        if error[0] is None and self._shown:
            name = self._lines.name(self._title)
            self._lines.say(f"{name}: {self._done:,} in {duration(self.seconds)}")
        super().__exit__(*error)


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


def rounded(seconds: float) -> str:
    """Write a time span that was estimated.

    >>> rounded(40), rounded(717), rounded(7500)
    ('40 s', '12 min', '2 h 5 min')
    """
    return duration(seconds) if not 60 <= seconds < 3570 else f"{round(seconds / 60)} min"


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
