"""A small audit that faults are done to: records that can be searched for, and a paid program.

Every record holds a word that occurs nowhere else. One generator is built in, the other is a
program that writes a line to a log whenever it is started, as a service would write an invoice.
"""

from __future__ import annotations

import importlib
import json
import os
import pkgutil
import re
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import synthleak
from synthleak import Runtime, run
from synthleak.cli.main import main
from synthleak.core.spec import dump_toml
from synthleak.corpus.readers.demo import Demo

MARK = re.compile(rb"qzv\d{5}k")
"""The word of a record."""
PROGRAM = 'echo "$4" >> log; head -n "$3" "$1" > "$2"; sleep 0.05\n'
INF = float("inf")

for module in pkgutil.walk_packages(synthleak.__path__, "synthleak."):
    if "kernels" not in module.name and not module.name.endswith("__main__"):
        importlib.import_module(module.name)  # a user without rights may not read an interpreter


class Started:
    """A command in a process of its own, forked from this one, which has everything imported."""

    def __init__(
        self, words: list[str], cwd: Path, temporary: Path, user: int | None = None
    ) -> None:
        self.returncode: int | None = None
        self._said = (tempfile.TemporaryFile(), tempfile.TemporaryFile())  # noqa: SIM115
        sys.stdout.flush()
        ready, begun = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            self._become(words, cwd, temporary, user, begun)
        os.close(begun)
        os.read(ready, 1)  # before that, a signal would meet the benchmark and not the command
        os.close(ready)

    def _become(
        self, words: list[str], cwd: Path, temporary: Path, user: int | None, begun: int
    ) -> None:
        """Do what the command line does, from its first line to its exit code."""
        code = 70
        try:
            os.setsid()
            os.chdir(cwd)
            os.environ["TMPDIR"], tempfile.tempdir = str(temporary), None
            for number, file in enumerate(self._said, start=1):
                os.dup2(file.fileno(), number)
            for number in (signal.SIGTERM, signal.SIGHUP):
                signal.signal(number, signal.SIG_DFL)
            signal.signal(signal.SIGINT, signal.default_int_handler)
            if user is not None:
                os.setgroups([])
                os.setgid(user)
                os.setuid(user)
            sys.argv = ["synthleak", *words]
            os.close(begun)
            main()
            code = 0
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 1
        except BaseException:
            traceback.print_exc()
        finally:
            with suppress(BaseException):
                sys.stdout.flush()
                sys.stderr.flush()
            os._exit(code)  # what other threads left at the fork is not ended

    def poll(self) -> int | None:
        """Return the exit code, or none while it runs."""
        return self._reaped(os.WNOHANG)

    def wait(self) -> int:
        """Wait for the end; return the exit code, or a signal as a negative number."""
        code = self._reaped(0)
        assert code is not None
        return code

    def _reaped(self, how: int) -> int | None:
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, how)
            if pid:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send a signal to the command alone."""
        os.kill(self.pid, number)

    def communicate(self) -> tuple[str, str]:
        """Wait, and return what was printed."""
        self.wait()
        said = []
        for file in self._said:
            file.seek(0)
            said.append(file.read().decode(errors="replace"))
            file.close()
        return said[0], said[1]


class SmallAudit:
    """A spec, its corpus and its program in a folder; runs of it, as somebody types them."""

    def __init__(
        self,
        home: Path,
        *,
        workers: int = 1,
        program: str = PROGRAM,
        built_in: bool = True,
        instances: int = 4,
    ) -> None:
        self.home, self.workers = home, workers
        self.log, self.temporary = home / "log", home / "tmp"
        self.temporary.mkdir(parents=True, exist_ok=True)
        rows = [
            {"id": f"r{n:05d}", "text": f"{r.text} qzv{n:05d}k", "labels": list(r.labels)}
            for n, r in enumerate(Demo(size=160, seed=8).read())
        ]
        (home / "records.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        (home / "program.sh").write_text(program)
        argv = ["sh", "program.sh", "{train}", "{out}", "{n}", "{seed}"]
        self.spec: dict[str, Any] = {
            "seed": 3,
            "corpus": {"reader": "jsonl", "path": str(home / "records.jsonl")},
            "encoders": {"pools": "hashing", "evidence": "hashing"},
            "pool": [{"name": "outlier", "rule": "outlier", "percentile": 92}],
            "game": {"instances": instances, "records": 30, "rounds": 2, "candidates": 4},
            "generator": [
                *([{"name": "built-in", "kind": "ngram", "epsilon": [INF]}] * built_in),
                {"name": "paid", "kind": "command", "argv": argv, "epsilon": [INF]},
            ],
            "evidence": {"families": ["cos", "bigram_logprob"]},
            "prior": [],
        }
        (home / "audit.toml").write_text(dump_toml(self.spec))

    def undisturbed(self, out: Path) -> None:
        """Run it in this process, to the end."""
        os.chdir(self.home)
        run(self.home / "audit.toml", out, runtime=Runtime(workers=1))

    def start(self, out: Path, *more: str) -> Started:
        """Start a run in a process of its own."""
        words = ["run", str(self.home / "audit.toml"), "--out", str(out), *more]
        return self.type(*words, "--workers", str(self.workers))

    def type(self, *words: str) -> Started:
        """Start any command."""
        return Started(list(words), self.home, self.temporary)

    def new_log(self) -> None:
        """Forget what the program was started for."""
        self.log.unlink(missing_ok=True)

    def bills(self) -> Counter[str]:
        """Count how often the program was started, by the seed of the release."""
        return Counter(self.log.read_text().split()) if self.log.is_file() else Counter()


def files_in(folder: Path) -> dict[str, bytes]:
    """Return all files of a run folder but its manifest, which holds a time."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != "manifest.json"
    }


def manifest_in(folder: Path) -> dict[str, Any]:
    """Return what a manifest says beside times and its own digest."""
    said: dict[str, Any] = json.loads((folder / "manifest.json").read_text())
    said["looks"] = [{**look, "at": None} for look in said.get("looks", [])]
    return {key: said[key] for key in sorted(said) if key not in ("made", "seconds", "digest")}


def private_files(*folders: Path) -> list[str]:
    """Return the files that hold a record in clear, or are half-written."""
    found = []
    for folder in folders:
        paths = [Path(place, name) for place, _, names in os.walk(folder) for name in names]
        for path in paths:
            with suppress(OSError):  # it may go meanwhile
                if path.suffix == ".part" or MARK.search(path.read_bytes()):
                    found.append(str(path.relative_to(folder)))
    return found


def settled(*folders: Path, seconds: float = 15.0) -> list[str]:
    """Wait for what a killed run's workers remove in a moment; return what is left.

    A half-written file is removed by the next start alone.
    """
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        left = private_files(*folders)
        if all(name.endswith(".part") for name in left):
            break
        time.sleep(0.1)
    return left


def processes_in(folder: Path) -> list[str]:
    """Return the processes whose command line names a folder, as programs' do."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            said = path.read_bytes()
            if str(folder).encode() in said and int(path.parent.name) != os.getpid():
                found.append(said.replace(b"\0", b" ").decode(errors="replace"))
    return found


@contextmanager
def mounted(folder: Path, options: str) -> Iterator[Path]:
    """Mount a small disk in memory; the caller must be root."""
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)
