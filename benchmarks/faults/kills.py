"""Signals and concurrent starts: tables identical, no private file left, nothing paid twice.

An audit is killed at random points of its work, again and again until it is finished, and compared
with one that nobody disturbed.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from small_audit import (
    SmallAudit,
    Started,
    files_in,
    manifest_in,
    private_files,
    processes_in,
    settled,
)

KILLS, TERMS, STARTS, AT_ONCE = 50, 20, 20, 5
SEVERAL_WORKERS = 0.25
"""How many of the starts have two workers."""
PER_AUDIT = 4
"""Signals to one audit at most: then it may end, and another one begins."""
LATE = 4.0
"""Seconds after which a signal comes at the latest where no file is waited for."""


@dataclass
class Tally:
    """What happened, and what should not have."""

    truth: dict[str, bytes]
    manifest: dict[str, Any]
    rng: Random
    findings: list[str] = field(default_factory=list)
    again: int = 0
    allowed: int = 0
    finished: int = 0
    swept: list[str] = field(default_factory=list)
    at: list[int] = field(default_factory=list)

    def compare(self, out: Path, where: str) -> None:
        """Compare a finished folder with the undisturbed one, byte by byte."""
        found = files_in(out)
        if found != self.truth:
            names = sorted(n for n in {*found, *self.truth} if found.get(n) != self.truth.get(n))
            self.findings.append(f"{where}: {len(names)} files differ, e.g. {names[0]}")
        if manifest_in(out) != self.manifest:
            self.findings.append(f"{where}: the manifest differs")
        self.finished += 1

    def check(self, true: bool, what: str) -> None:
        if not true:
            self.findings.append(what)


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    """Disturb audits, and return what differed."""
    share = 1.0 if arguments.count is None else arguments.count / (KILLS + TERMS + STARTS)
    counts = {name: max(1, round(share * n)) for name, n in (("k", KILLS), ("t", TERMS))}
    starts = max(AT_ONCE, round(share * STARTS))
    with tempfile.TemporaryDirectory(prefix="small-audit-") as name:
        home = Path(name)
        audit = SmallAudit(home, built_in=False)
        audit.undisturbed(home / "truth")
        truth, manifest = files_in(home / "truth"), manifest_in(home / "truth")
        releases = sum(audit.bills().values())
        result: dict[str, Any] = {"files of the audit": len(truth), "paid releases": releases}
        findings = []
        for title, number, count in (
            ("SIGKILL", signal.SIGKILL, counts["k"]),
            ("SIGTERM", signal.SIGTERM, counts["t"]),
        ):
            tally = Tally(truth, manifest, Random(f"{arguments.seed} {title}"))
            _disturb(audit, title, tally, number, count)
            result[title] = {
                "signals": count,
                "audits finished and identical": tally.finished,
                "at how many files": tally.at,
                "left for the next start to remove": dict(Counter(tally.swept)),
                "paid again": tally.again,
                "in flight when stopped": tally.allowed,
            }
            findings += tally.findings
        tally = Tally(truth, manifest, Random(arguments.seed))
        result["concurrent starts"] = _at_once(audit, tally, starts)
        return {**result, "findings": findings + tally.findings}


def _disturb(audit: SmallAudit, title: str, tally: Tally, number: int, count: int) -> None:
    """Stop an audit at random points until it has ended, then begin another one."""
    stopped = 0
    while stopped < count:
        out, here = audit.home / f"{title}-{tally.finished}", 0
        last = min(count, stopped + tally.rng.randint(1, PER_AUDIT))
        audit.new_log()
        while True:
            audit.workers = 2 if tally.rng.random() < SEVERAL_WORKERS else 1
            process = audit.start(out)
            hit = stopped < last and _stop_somewhere(process, out, tally, number)
            said = process.communicate()[1]
            if not hit:
                break
            stopped, here = stopped + 1, here + audit.workers
            where = f"signal {stopped} to {out.name}"
            tally.check("Traceback" not in said, f"{where}: traceback")
            if number == signal.SIGTERM:
                # Before the first line of the command is reached, a signal has its usual effect.
                known = process.returncode in (143, -number)
                tally.check(known, f"{where}: exit {process.returncode}")
                left = private_files(out, audit.temporary)
            else:
                names = [Path(name).name for name in settled(out, audit.temporary)]
                tally.swept += [".part" if name.endswith(".part") else name for name in names]
                left = []
            tally.check(not left, f"{where}: left {left[:3]}")
            tally.check(not _alive(out), f"{where}: processes outlived it")
            print(
                f"{where}, at {tally.at[-1]} files: {len(tally.findings)} findings", file=sys.stderr
            )
        tally.check(
            process.returncode == 0, f"{out.name}: exit {process.returncode}: {said[-300:]}"
        )
        left = private_files(out, audit.temporary)
        tally.check(not left and not (out / ".private").exists(), f"{out.name}: left {left[:3]}")
        tally.compare(out, out.name)
        again = sum(audit.bills().values()) - len(audit.bills())
        tally.again += again
        tally.allowed += here
        tally.check(again <= here, f"{out.name}: {again} paid again, {here} in flight")


def _alive(out: Path) -> bool:
    """Say whether a process of a run is still there after a moment."""
    for _ in range(100):
        if not processes_in(out / ".private"):
            return False
        time.sleep(0.1)
    return True


def _stop_somewhere(process: Started, out: Path, tally: Tally, number: int) -> bool:
    """Send a signal once a random number of files is there; say whether it came in time."""
    now = _files(out)
    aim = tally.rng.randint(now, max(now, len(tally.truth)))
    delay = tally.rng.uniform(0, 0.05 if aim > now else LATE)
    while process.poll() is None and _files(out) < aim:
        time.sleep(0.02)
    time.sleep(delay)
    if process.poll() is not None:
        return False
    tally.at.append(_files(out))
    process.send_signal(number)
    return process.wait() != 0


def _files(out: Path) -> int:
    return sum(name[:1] != "." for _, _, names in os.walk(out) for name in names)


def _at_once(audit: SmallAudit, tally: Tally, starts: int) -> dict[str, Any]:
    """Start an audit several times at once; every other time they wait for their turn."""
    refused, paid, rounds = 0, 0, max(1, starts // AT_ONCE)
    for number in range(rounds):
        audit.new_log()
        audit.workers = 1
        out, wait = audit.home / f"at-once-{number}", ["--wait"] if number % 2 else []
        started = [audit.start(out, *wait) for _ in range(AT_ONCE)]
        said = [(process.communicate()[1], process.returncode) for process in started]
        codes = sorted(code for _, code in said)
        expected = [0] * AT_ONCE if wait else [0] + [2] * (AT_ONCE - 1)
        # One that starts after another has ended finds nothing to do.
        tally.check(
            codes == expected or (not wait and set(codes) <= {0, 2} and 0 in codes),
            f"concurrent starts {number}: exit codes {codes}",
        )
        for text, code in said:
            if code == 2:
                refused += 1
                lines = text.strip().splitlines()
                tally.check(
                    len(lines) == 1 and "another run works in this folder" in lines[0],
                    f"concurrent starts {number}: {lines[-1:]}",
                )
        tally.compare(out, f"concurrent starts {number}")
        paid += sum(audit.bills().values()) - len(audit.bills())
        tally.check(max(audit.bills().values()) == 1, f"concurrent starts {number}: paid twice")
    return {"starts": rounds * AT_ONCE, "refused in one line": refused, "paid again": paid}
