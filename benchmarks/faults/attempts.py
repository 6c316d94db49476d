"""Attempts on a small audit: one table of classes, one runner.

Every attempt gets a copy of a finished audit, changes something there and types commands. Each
command must end within `SECONDS`, with exit code 0 or 2 (1 where a difference is to be found), a
failure in one line that starts with `synthleak:`; nothing printed holds a word of a record, nothing
outside the run folder changes, and no private file is left. Further demands are the attempt's own.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from small_audit import MARK, SmallAudit, Started

SECONDS = 20.0
RUN = "run"
"""The folder of the finished audit, in the home of every attempt."""
AGAIN = ("run", "audit.toml", "--out", RUN, "--workers", "1", "-q")


@dataclass(frozen=True)
class Ended:
    """How one command ended."""

    words: tuple[str, ...]
    code: int
    out: str
    err: str
    seconds: float


def nothing_more(_home: Path, _ended: list[Ended]) -> list[str]:
    """Demand nothing beyond what every attempt has to fulfil."""
    return []


@dataclass(frozen=True)
class Attempt:
    """What is changed, what is typed then, and what has to hold afterwards.

    `user` is the numeric id of the user who types, `interrupt` the second of a Ctrl-C, and
    `elsewhere` names what must stay as it is.
    """

    name: str
    prepare: Callable[[Path], None]
    commands: tuple[tuple[str, ...], ...]
    demand: Callable[[Path, list[Ended]], list[str]] = nothing_more
    user: int | None = None
    codes: tuple[int, ...] = (0, 1, 2)
    elsewhere: str = "elsewhere"
    interrupt: float | None = None


Class = Callable[[Path, Random, int], Iterator[Attempt]]
"""Yields attempts on the audit in a folder, for which a copy is made each."""


def measure_class(attempts: Class, arguments: argparse.Namespace, count: int) -> dict[str, Any]:
    """Carry out the attempts of one class, and return what was found."""
    findings: list[str] = []
    ends: Counter[str] = Counter()
    done, slowest = 0, (0.0, "")
    with tempfile.TemporaryDirectory(prefix="small-audit-") as name:
        Path(name).chmod(0o755)
        template = Path(name) / "template"
        SmallAudit(template).undisturbed(template / RUN)
        os.chdir(name)
        rng = Random(f"{arguments.seed} {attempts.__module__}")
        for attempt in attempts(template, rng, arguments.count or count):
            if not attempt.name.startswith(arguments.only):
                continue
            home = Path(name) / "attempt"
            shutil.copytree(template, home, symlinks=True)
            _move(home, template)
            (home / attempt.elsewhere).mkdir(exist_ok=True)
            attempt.prepare(home)
            before = _contents(home / attempt.elsewhere)
            ended = [_typed(home, words, attempt) for words in attempt.commands]
            faults = [f for one in ended for f in _judged(one, attempt.codes)]
            if _contents(home / attempt.elsewhere) != before:
                faults.append("something outside the run folder changed")
            if any((home / "tmp").iterdir()):
                faults.append("something is left in the temporary folder")
            faults += attempt.demand(home, ended)
            done += 1
            ends.update(f"{one.words[0]}: exit {one.code}" for one in ended)
            slowest = max([slowest, *((round(e.seconds, 2), attempt.name) for e in ended)])
            findings += [f"{attempt.name}: {fault}" for fault in dict.fromkeys(faults)]
            for fault in dict.fromkeys(faults):
                print(f"{attempt.name}: {fault}", file=sys.stderr)
            if faults and arguments.keep:
                shutil.copytree(home, arguments.keep / str(done), symlinks=True)
            shutil.rmtree(home)
    return {
        "attempts": done,
        "commands": sum(ends.values()),
        "slowest": slowest,
        "ended": dict(sorted(ends.items())),
        "findings": findings,
    }


def _move(home: Path, template: Path) -> None:
    """Let the spec that is typed read the copied records."""
    path = home / "audit.toml"
    path.write_text(path.read_text().replace(str(template), str(home)))


def _contents(folder: Path) -> dict[str, Any]:
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else path.is_symlink()
        for path in sorted(folder.rglob("*"))
    }


def _typed(home: Path, words: tuple[str, ...], attempt: Attempt) -> Ended:
    began = time.monotonic()
    process = Started(list(words), home, home / "tmp", user=attempt.user)
    interrupt = attempt.interrupt
    while process.poll() is None and (now := time.monotonic() - began) < 3 * SECONDS:
        if interrupt is not None and now > interrupt:
            os.killpg(process.pid, signal.SIGINT)
            interrupt = None
        time.sleep(0.01)
    if process.poll() is None:
        os.killpg(process.pid, 9)
    out, err = process.communicate()
    return Ended(words, process.returncode or 0, out, err, time.monotonic() - began)


def _judged(ended: Ended, codes: tuple[int, ...]) -> list[str]:
    """Return what is wrong with how a command ended, whatever the attempt."""
    what, lines = " ".join(ended.words[:1]), ended.err.splitlines()
    said = lines[-1][:200] if lines else ""
    faults = []
    if ended.code not in codes:
        faults.append(f"{what}: exit {ended.code}: {said}")
    if ended.code == 2 and sum(line.startswith("synthleak: ") for line in lines) != 1:
        faults.append(f"{what}: {len(lines)} lines, not one: {said}")
    if "Traceback" in ended.err or "Warning" in ended.err or "internal error" in ended.err:
        faults.append(f"{what}: a traceback or a warning: {said}")
    if MARK.search((ended.out + ended.err).encode()):
        faults.append(f"{what}: text of a record printed")
    if ended.seconds > SECONDS:
        faults.append(f"{what}: {ended.seconds:.0f} s")
    return faults
