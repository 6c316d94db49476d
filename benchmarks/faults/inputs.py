"""Malformed inputs over all readers, the spec, and what is typed (`malformed.py`, `features.py`).

Every input is made from a valid one by a seeded change (`malformed.py`) and goes through the
command line in a process of its own, forked from one that has imported everything. Every record
holds a word that occurs nowhere else, so that its text can be looked for in all that is printed and
published.

A fault is handled if the exit code is 0 or 2 (1 where a gate was asked for), a failure is one line
that starts with `synthleak:`, the end comes within ten seconds of work and with less than 1 GiB of
memory beyond what the process had, no word of a record is printed, and nothing new lies on the disk
but the run folder, without private or half-written files.
"""

from __future__ import annotations

import argparse
import importlib
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import features
from malformed import MARKER, Case, cases, sides

import synthleak

COUNT = 2500
SECONDS = 10.0
BETWEEN = 0.05
"""Seconds between two looks at the memory of all processes of a case."""
MEMORY = 2**30
OUT = "out"
"""The run folder of every case."""


@dataclass(frozen=True)
class Ended:
    """How one command ended."""

    code: int
    seconds: float
    memory: int
    stdout: str
    stderr: str


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    """Run every case and return what was found."""
    os.environ |= {"OMP_NUM_THREADS": "1", "SYNTHLEAK_DEBUG": ""}
    count = arguments.count or COUNT
    with tempfile.TemporaryDirectory(prefix="faults-") as home:
        os.environ["TMPDIR"] = tempfile.tempdir = str(Path(home, "tmp"))
        Path(home, "tmp").mkdir()
        _import_everything(Path(home))
        idle = run(Case("idle", {}, ["--version"]), Path(home, "idle"))
        findings: list[dict[str, Any]] = []
        codes: Counter[str] = Counter()
        worst: dict[str, tuple[float, str]] = {"seconds": (0.0, ""), "memory_mb": (0.0, "")}
        started, worked = time.monotonic(), 0.0
        for number, case in enumerate(
            cases(arguments.seed, count, arguments.only, features.SURFACES)
        ):
            folder = Path(home, f"case-{number}")
            ended = run(case, folder)
            beyond = max(0, ended.memory - idle.memory)
            faults = judge(case, ended, beyond, folder)
            if any(Path(home, "tmp").iterdir()):
                faults.append("left in the temporary folder")
                shutil.rmtree(Path(home, "tmp"))
                Path(home, "tmp").mkdir()
            worked += ended.seconds
            surface = case.name.partition(" ")[0]
            codes[f"{surface}: exit {ended.code}"] += 1
            worst["seconds"] = max(worst["seconds"], (round(ended.seconds, 2), case.name))
            worst["memory_mb"] = max(worst["memory_mb"], (round(beyond / 1e6, 1), case.name))
            if faults:
                shown = ended.stderr.strip()[-400:] if arguments.keep else ""
                findings.append({"number": number, "case": case.name, "faults": faults})
                print(f"{number} {case.name}: {'; '.join(faults)} {shown}", file=sys.stderr)
                if arguments.keep:
                    shutil.copytree(folder, arguments.keep / str(number), dirs_exist_ok=True)
            shutil.rmtree(folder, ignore_errors=True)
        return {
            "inputs": count,
            "seconds": round(time.monotonic() - started, 1),
            "seconds_of_work": round(worked, 1),
            "worst": worst,
            "limits": {"seconds": SECONDS, "memory_mb": round(MEMORY / 1e6, 1)},
            "ended": dict(sorted(codes.items())),
            "findings": findings,
        }


def _import_everything(home: Path) -> None:
    """Load what the commands import late, so that every fork has it."""
    for name in (
        *("openpyxl", "pyarrow.parquet", "jinja2", "rich.table", "synthleak.cli.main"),
        *("synthleak.preflight.cost", "synthleak.preflight.preview"),
    ):
        importlib.import_module(name)
    from synthleak.core.registry import REGISTRIES
    from synthleak.core.runtime import Runtime
    from synthleak.corpus.statistics import count_tokens

    for registry in REGISTRIES:
        list(registry)
    count_tokens(["a text"])
    synthleak.check(**sides(), out=home / "first", encoder="hashing", runtime=Runtime(workers=1))
    shutil.rmtree(home / "first")


def run(case: Case, folder: Path) -> Ended:
    """Lay a case out in a folder and run its command there, in a fork."""
    case.lay_out(folder)
    started = time.monotonic()
    child = os.fork()
    if child == 0:
        _be_the_command(case, folder)
    code, seconds, memory = _wait(child, started)
    said = [folder.with_suffix(f".{name}") for name in ("stdout", "stderr")]
    texts = [path.read_text(encoding="utf-8", errors="replace") for path in said]
    for path in said:
        path.unlink()
    return Ended(code, seconds, memory, *texts)


def _be_the_command(case: Case, folder: Path) -> None:
    code = 99
    try:
        os.setsid()
        for number, name in ((1, "stdout"), (2, "stderr")):
            path = folder.with_suffix(f".{name}")
            os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), number)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        # Far beyond what is allowed, so that a finding does not take the machine with it.
        resource.setrlimit(resource.RLIMIT_AS, (16 * MEMORY, 16 * MEMORY))
        sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
        sys.stderr = open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
        os.chdir(folder)
        os.environ |= case.environment
        sys.argv = ["synthleak", *case.argv]
        from synthleak.cli.main import main

        try:
            main()
            code = 0
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code)


def _wait(child: int, started: float) -> tuple[int, float, int]:
    """Wait for a fork; return its code, its seconds of work and the peak memory of its session.

    On a busy machine ten seconds of work take longer: a fork is killed that works for longer, with
    the processes that it started, or that sleeps for as long.
    """
    awake, peak, looked = started, 0, 0.0
    while True:
        done, status, usage = os.wait4(child, os.WNOHANG)
        if done:
            code, worked = os.waitstatus_to_exitcode(status), usage.ru_utime + usage.ru_stime
            return code, worked, max(peak, usage.ru_maxrss * 1024)
        state, worked = _state(child)
        now = time.monotonic()
        if now - looked > BETWEEN:
            looked, (others, memory) = now, _of_session(child)
            worked, peak = max(worked, others), max(peak, memory)
        awake = awake if state == "S" else now
        if worked > 1.5 * SECONDS or now - awake > SECONDS:
            os.killpg(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return 124, max(worked, now - awake), peak
        time.sleep(0.005)


def _state(process: int) -> tuple[str, float]:
    """Return whether a process runs or sleeps, and how many seconds it has worked."""
    fields = _fields(process)
    return fields[0], _seconds(fields)


def _of_session(leader: int) -> tuple[float, int]:
    """Return how many seconds all processes of a session have worked, and the memory they hold.

    Pages that several processes share are counted once between them.
    """
    seconds, kilobytes = 0.0, 0
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = _fields(int(folder.name))
            if int(fields[3]) != leader:
                continue
            seconds += _seconds(fields)
            rollup = (folder / "smaps_rollup").read_text()
        except (OSError, ValueError):  # it has ended
            continue
        kilobytes += sum(int(line.split()[1]) for line in rollup.splitlines() if "Pss:" in line[:4])
    return seconds, 1024 * kilobytes


def _fields(process: int) -> list[str]:
    """Return what /proc/PID/stat says behind the name: state, parent, group, session, and so on."""
    return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()


def _seconds(fields: Sequence[str]) -> float:
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def judge(case: Case, ended: Ended, memory: int, folder: Path) -> list[str]:
    """Return what is wrong with how a case ended."""
    lines = ended.stderr.splitlines()
    faults = []
    if ended.code not in (0, 2) and not (case.gate and ended.code == 1):
        faults.append(f"exit code {ended.code}")
    if case.valid and ended.code:
        faults.append("a valid input that is refused")
    if ended.code == 2 and (len(lines) != 1 or not lines[0].startswith("synthleak: ")):
        faults.append(f"{len(lines)} lines on stderr")
    if ended.code == 2 and ended.stdout:
        faults.append("a failure that also prints results")
    if ended.code == 0 and lines:
        faults.append("stderr of a success")
    if "Traceback" in ended.stderr or "Warning" in ended.stderr:
        faults.append("a traceback or a warning")
    if ended.seconds > SECONDS:
        faults.append(f"{ended.seconds:.1f} s")
    if memory > MEMORY:
        faults.append(f"{memory / 1e6:,.0f} MB")
    if MARKER in (ended.stdout + ended.stderr).casefold():
        faults.append("private text printed")
    if "\x1b" in ended.stdout + ended.stderr:
        faults.append("an escape sequence printed")
    return faults + _left(case, ended, folder)


def _left(case: Case, ended: Ended, folder: Path) -> list[str]:
    """Return what is wrong with the files that a command left."""
    faults = []
    there = {path.relative_to(folder) for path in folder.rglob("*")}
    new = {path for path in there - case.paths(folder) if path.parts[0] != OUT}
    if new:
        faults.append(f"new files: {', '.join(sorted(map(str, new))[:3])}")
    own = [path for path in there if path.parts[0] == OUT]
    if any(".private" in path.parts or path.name.endswith(".part") for path in own):
        faults.append("private or half-written files")
    whole = any((folder / OUT / name).is_file() for name in ("manifest.json", "coins.json"))
    if ended.code == 2 and own and not whole:
        faults.append("half a run folder")
    for path in own:
        published = path.parts[1:2] in (("results",), ("report.html",), ("manifest.json",))
        if not published or not (folder / path).is_file():
            continue
        if MARKER.encode() in (folder / path).read_bytes().lower():
            faults.append(f"private text in {path}")
    return faults
