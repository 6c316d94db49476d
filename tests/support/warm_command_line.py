"""A process that has imported synthleak and forks a child per command, so that imports cost once.

It reads a request per line from standard input, and answers with the exit code of the command.
"""

from __future__ import annotations

import json
import os
import sys

import pyarrow.parquet  # noqa: F401 - imported here once, not by every command
import scipy.stats  # noqa: F401
import sklearn.linear_model  # noqa: F401

import synthleak.audit.run
import synthleak.checks.check  # noqa: F401
from synthleak.cli.main import main


def become(words: list[str], cwd: str, environment: dict[str, str], output: list[str]) -> None:
    """Turn this process into the command: its folder, environment, output and arguments."""
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(environment)
    sys.path[0] = cwd
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for descriptor, path in enumerate(output, start=1):
        os.dup2(os.open(path, os.O_WRONLY), descriptor)
    sys.argv = ["synthleak", *words]


if __name__ == "__main__":
    setattr(os, "fsync", lambda _: None)  # noqa: B010 - as in conftest.py
    for line in sys.stdin:
        child = os.fork()
        if not child:
            become(**json.loads(line))
            main()
            sys.exit()
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
