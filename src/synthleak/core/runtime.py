"""How an audit runs: on how many workers, and whether it waits for its turn.

Nothing here may enter a key or a seed: the same audit on other hardware is the same audit.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field

from synthleak.core.errors import SpecError


def available_cores() -> int:
    """Return how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@dataclass(frozen=True, kw_only=True)
class Runtime:
    """Where and how fast, never what."""

    workers: int = field(default_factory=available_cores)
    wait: bool = False

    def __post_init__(self) -> None:
        if self.workers < 1:
            raise SpecError(f"workers = {self.workers}", "--workers", "use a whole number from 1")
