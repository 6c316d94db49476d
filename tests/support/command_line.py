"""The command line in a process of its own, as a user types it."""

from __future__ import annotations

import atexit
import json
import os
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path


@cache
def _warm() -> subprocess.Popen[str]:
    """Start the process that commands are forked from; it ends when this one does."""
    process = subprocess.Popen(
        [sys.executable, Path(__file__).with_name("warm_command_line.py")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    atexit.register(process.communicate)
    return process


def synthleak(*words: str | Path | int, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run a command and return its exit code and what it printed."""
    with tempfile.TemporaryDirectory() as folder:
        output = [Path(folder, name) for name in ("stdout", "stderr")]
        for path in output:
            path.touch()
        request = {
            "words": [str(word) for word in words],
            "cwd": str(cwd),
            "environment": dict(os.environ),
            "output": [str(path) for path in output],
        }
        process = _warm()
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(json.dumps(request) + "\n")
        process.stdin.flush()
        code = int(process.stdout.readline())
        stdout, stderr = (path.read_text(encoding="utf-8") for path in output)
    return subprocess.CompletedProcess(request["words"], code, stdout, stderr)


def assert_one_line_mistake(done: subprocess.CompletedProcess[str], *parts: str) -> None:
    """Check that a command failed with one line on stderr that holds these parts."""
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1 and done.stderr.startswith("synthleak: ")
    for part in parts:
        assert part in done.stderr
