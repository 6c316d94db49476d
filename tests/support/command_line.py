"""The command line in a process of its own, as a user types it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def synthleak(*words: str | Path | int, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run a command and return its exit code and what it printed."""
    return subprocess.run(
        [sys.executable, "-m", "synthleak", *map(str, words)],
        capture_output=True,
        text=True,
        cwd=cwd,
        check=False,
    )


def assert_one_line_mistake(done: subprocess.CompletedProcess[str], *parts: str) -> None:
    """Check that a command failed with one line on stderr that holds these parts."""
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1 and done.stderr.startswith("synthleak: ")
    for part in parts:
        assert part in done.stderr
