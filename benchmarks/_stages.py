"""Progress that adds up how long each stage of an audit took."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TextIO

from synthleak.core.engine.progress import Lines


class StageTimes(Lines):
    """Seconds by stage, of the wall clock or of the processor."""

    def __init__(
        self, out: TextIO | None = None, clock: Callable[[], float] = time.perf_counter
    ) -> None:
        super().__init__(out, clock)
        self.seconds: dict[str, float] = {}

    def close(self, title: str, seconds: float) -> None:
        """Add the seconds of a stage."""
        super().close(title, seconds)
        self.seconds[title] = self.seconds.get(title, 0.0) + seconds
