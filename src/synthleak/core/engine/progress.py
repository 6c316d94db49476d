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
    """Knows how long stages take, and shows at intervals how far the open one is.

    A stage that has begun is extrapolated; a later one counts with what was expected of it, times
    how far the work so far was from what was expected. Before anything was timed, nothing is told.
    """

    patience: float = 0.0
    """Seconds of a stage before it is first shown."""
    every: float = 2.0
    """Seconds until it is shown again."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self._expected: dict[str, float] = {}
        self._took: dict[str, float] = {}

    def expect(self, stages: Mapping[str, float]) -> None:
        """Count these stages in the time that is left."""
        self._expected, self._took = dict(stages), {}

    def stage(self, title: str, total: int) -> Stage:
        return TimedStage(self, title, total)

    def show(self, stage: TimedStage) -> None:
        """Show how far a stage is."""

    def end(self, stage: TimedStage, *, done: bool) -> None:
        """Take down what was shown of a stage; `done` unless an error ended it."""

    def close(self, title: str, seconds: float) -> None:
        self._took[title] = self._took.get(title, 0.0) + seconds

    def time_left(self, stage: TimedStage) -> tuple[float, str]:
        """Return how many seconds are left, and of what: "" where that is not known."""
        title, seconds, total = stage.title, stage.seconds, stage.whole_seconds()
        pace = self._pace(title, total) if title in self._expected else None
        if pace is None:
            of = "left in this step" if title in self._expected else "left"
            return (0.0, "") if total is None else (total - seconds, of)
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


class TimedStage(Stage):
    """How far a stage is and since when; `inner` is told of every step too."""

    def __init__(self, timed: Timed, title: str, total: int, inner: Stage | None = None) -> None:
        self.title, self.total = title, total
        self.done, self.part, self.doing = 0, 0.0, ""
        self.bar: Any = None
        self.shown = False
        self._timed, self._inner = timed, inner or Stage()
        self._start = timed.clock()
        self._next = self._start + timed.patience
        self._seen: list[tuple[float, float]] = []
        """How far the stage was, at times that grow further apart."""

    def advance(self, steps: int = 1) -> None:
        self.done += steps
        self.part, self.doing = 0.0, ""
        self._look()
        self._inner.advance(steps)

    def note(self, doing: str, part: float | None = None) -> None:
        self.part = self.part if part is None else part
        self.doing = doing
        self._look()
        self._inner.note(doing, part)

    @property
    def share(self) -> float:
        return min(1.0, (self.done + self.part) / max(self.total, 1))

    @property
    def seconds(self) -> float:
        return self._timed.clock() - self._start

    def _look(self) -> None:
        if not self._seen or self.seconds > 1.2 * self._seen[-1][0]:
            self._seen.append((self.seconds, self.share))
        self._show()

    def _show(self) -> None:
        now = self._timed.clock()
        if now >= self._next:
            self._next, self.shown = now + self._timed.every, True
            self._timed.show(self)

    def whole_seconds(self) -> float | None:
        """Extrapolate how long the stage takes as a whole; None: not known yet."""
        seconds, share, pace = self.seconds, self.share, None
        halves = [(t, s) for t, s in self._seen if s and t <= seconds / 2]
        if share >= TELLING:
            pace = share / seconds if seconds else None
        elif halves:
            at, before = halves[-1]
            first, second = before / at if at else math.inf, (share - before) / (seconds - at)
            pace = second if first < AGREE * second and second < AGREE * first else None
        return None if not pace else seconds + (1 - share) / pace

    def __enter__(self) -> Self:
        self._inner.__enter__()
        self._show()
        return self

    def __exit__(self, *error: object) -> None:
        self._timed.end(self, done=error[0] is None)
        if error[0] is None:
            self._timed.close(self.title, self.seconds)
        self._inner.__exit__(*error)


class Lines(Timed):
    """Shows progress on stderr: nothing for two seconds, then how far it is and the time left.

    A terminal gets a bar; in a log a line is added every ten seconds. Of the stages of a run those
    that are shown are numbered.
    """

    patience = 2.0

    def __init__(
        self, out: TextIO | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__(clock)
        self.out = out or sys.stderr
        self.live = self.out.isatty()
        self.every = 0.2 if self.live else 10.0
        self._numbers: dict[str, int] = {}

    def expect(self, stages: Mapping[str, float]) -> None:
        super().expect(stages)
        self._numbers = {}

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

    def show(self, stage: TimedStage) -> None:
        left, of = self.time_left(stage)
        estimate = f", about {duration(left)} {of}" * bool(of)
        doing = f"; {stage.doing}" * bool(stage.doing)
        counted = f"{stage.done:,} of {stage.total:,} ({stage.share:.0%})"
        line = f"{self.name(stage.title)}: {counted}{estimate}{doing}"
        if not self.live:
            self.say(line)
            return
        if stage.bar is None:
            stage.bar = self._begin_bar(line, stage.total)
        (task,) = stage.bar.task_ids
        stage.bar.update(task, completed=stage.done + stage.part, description=line, refresh=True)

    def _begin_bar(self, text: str, total: int) -> Any:
        from rich import progress
        from rich.console import Console
        from rich.table import Column

        column = Column(no_wrap=True, overflow="ellipsis")
        bar = progress.Progress(
            progress.BarColumn(bar_width=10),
            progress.TextColumn("{task.description}", markup=False, table_column=column),
            console=Console(file=self.out),
            auto_refresh=False,
            transient=True,
        )
        bar.add_task(text, total=total)
        bar.start()
        return bar

    def end(self, stage: TimedStage, *, done: bool) -> None:
        if stage.bar is not None:
            stage.bar.stop()
        if done and stage.shown:
            self.say(f"{self.name(stage.title)}: {stage.done:,} in {duration(stage.seconds)}")


class Noted(Timed):
    """Passes progress on, and notes in a file how far a run is, for other processes to read.

    Args:
        progress: what is told too.
        note: writes the note: stage, steps done and in all, seconds left and of what.
    """

    def __init__(self, progress: Progress, note: Callable[[dict[str, Any]], None]) -> None:
        super().__init__()
        self._progress, self._note = progress, note

    def expect(self, stages: Mapping[str, float]) -> None:
        super().expect(stages)
        self._progress.expect(stages)

    def stage(self, title: str, total: int) -> Stage:
        return TimedStage(self, title, total, self._progress.stage(title, total))

    def say(self, line: str) -> None:
        self._progress.say(line)

    def show(self, stage: TimedStage) -> None:
        left, of = self.time_left(stage)
        about = {"stage": stage.title, "done": stage.done, "of": stage.total}
        self._note(about | {"left": left, "meaning": of})


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
