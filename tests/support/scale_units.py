"""Units that do nothing, for measuring what an engine costs."""

from __future__ import annotations

import time


def nothing(context: None, unit: int) -> int:
    """Do nothing."""
    return 1


def nap(context: None, unit: int) -> int:
    """Take a second without using the processor."""
    time.sleep(1.0)
    return 1
