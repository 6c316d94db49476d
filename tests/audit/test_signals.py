"""A run that is told to end leaves no private file and no program; a killed one is cleaned up."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from support.command_line import assert_one_line_mistake, synthleak

SLOW = """
import os, pathlib, sys, time
pathlib.Path({pids!r}, str(os.getpid())).touch()
time.sleep(60)
"""


def _heed_hangups() -> None:
    """Undo `nohup`, under which the tests may run: a run leaves an ignored signal ignored."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


class Running:
    """An audit whose generator is a program that takes a minute."""

    def __init__(self, folder: Path, workers: int) -> None:
        self.folder, self.out, self.temporary = folder, folder / "run", folder / "tmp"
        self.pids = folder / "pids"
        self.pids.mkdir(exist_ok=True)
        self.temporary.mkdir(exist_ok=True)
        (folder / "slow.py").write_text(SLOW.format(pids=str(self.pids)), encoding="utf-8")
        argv = [sys.executable, "slow.py", "{train}", "{out}"]
        (folder / "audit.toml").write_text(
            f"""
            [corpus]
            reader = "demo"
            size = 160
            [encoders]
            pools = "hashing"
            evidence = "hashing"
            [[pool]]
            name = "outlier"
            rule = "outlier"
            percentile = 92
            [game]
            instances = 4
            records = 30
            rounds = 2
            candidates = 4
            [[generator]]
            kind = "command"
            argv = {argv}
            """,
            encoding="utf-8",
        )
        self.process = subprocess.Popen(
            [sys.executable, "-m", "synthleak", *self.words, "--workers", str(workers)],
            cwd=folder,
            env={**os.environ, "TMPDIR": str(self.temporary)},
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=_heed_hangups,  # noqa: PLW1509
        )
        self.wait(lambda: len(list(self.pids.iterdir())) >= workers)

    @property
    def words(self) -> list[str]:
        return ["run", "audit.toml", "--out", str(self.out)]

    def wait(self, true: Callable[[], bool]) -> None:
        for _ in range(600):
            if true():
                return
            assert self.process.poll() is None or true(), self.process.communicate()[1]
            time.sleep(0.1)
        raise AssertionError("waited for a minute")

    def programs(self) -> list[int]:
        """Return the programs that are alive."""
        return [int(p.name) for p in self.pids.iterdir() if is_alive(int(p.name))]

    def private_files(self) -> list[Path]:
        """Return files with records, wherever a run may put them."""
        places = [*self.out.rglob("*"), *self.temporary.rglob("*")]
        return [p for p in places if p.name in ("train.jsonl", "context", "stderr", ".private")]


def is_alive(process: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{process}/stat").read_text().rpartition(")")[2][:3]
    except OSError:
        return False


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="reads /proc")
@pytest.mark.parametrize(
    ("number", "workers"), [(signal.SIGTERM, 1), (signal.SIGTERM, 2), (signal.SIGHUP, 1)]
)
def test_a_signal_ends_a_run_like_an_interrupt(tmp_path: Path, number: int, workers: int) -> None:
    running = Running(tmp_path, workers)
    assert any(path.name == "train.jsonl" for path in running.out.rglob("*"))
    assert not any(path.name == "train.jsonl" for path in running.temporary.rglob("*"))
    running.process.send_signal(number)
    _, said = running.process.communicate(timeout=60)
    assert running.process.returncode == 128 + number
    assert said.splitlines()[-1].startswith("synthleak: stopped; finished work is kept")
    assert "Traceback" not in said
    assert running.private_files() == []
    time.sleep(0.2)
    assert running.programs() == []


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="reads /proc")
def test_the_next_start_sweeps_what_a_killed_run_left(tmp_path: Path) -> None:
    running = Running(tmp_path, 1)
    second = synthleak(*running.words, cwd=tmp_path)
    assert_one_line_mistake(
        second, f"another run works in this folder (process {running.process.pid}", "add --wait"
    )
    running.process.kill()
    running.process.communicate()
    (running.out / "store" / ".half.part").write_bytes(b"half")
    (running.out / ".private/left").mkdir()
    (running.out / ".private/left/train.jsonl").write_bytes(b"{}")
    (tmp_path / "slow.py").write_text("raise SystemExit(4)", encoding="utf-8")
    done = synthleak(*running.words, "--extend", "--workers", 1, cwd=tmp_path)
    assert "exit code 4" in done.stderr
    assert running.private_files() == [] and not list(running.out.rglob("*.part"))


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="reads /proc")
@pytest.mark.parametrize("workers", [1, 2])
def test_workers_and_programs_do_not_outlive_a_killed_run(tmp_path: Path, workers: int) -> None:
    running = Running(tmp_path, workers)
    assert len(running.programs()) == workers
    running.process.kill()
    running.process.communicate()
    deadline = time.monotonic() + 20
    while running.programs() or any(p.is_file() for p in running.private_files()):
        assert time.monotonic() < deadline, (running.programs(), running.private_files())
        time.sleep(0.1)


def test_a_run_folder_is_for_its_owner_alone(tmp_path: Path) -> None:
    running = Running(tmp_path, 1)
    running.process.send_signal(signal.SIGTERM)
    running.process.communicate(timeout=60)
    assert running.out.stat().st_mode & 0o777 == 0o700


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="reads /proc")
def test_repeated_interrupts_end_a_run_once(tmp_path: Path) -> None:
    running = Running(tmp_path, workers=2)
    while running.process.poll() is None:
        running.process.send_signal(signal.SIGINT)
        time.sleep(0.05)
    said = running.process.communicate(timeout=60)[1]
    assert running.process.returncode == 130
    assert said.count("synthleak: stopped; finished work is kept") == 1
    assert "Traceback" not in said and "resource_tracker" not in said
    assert running.private_files() == []
