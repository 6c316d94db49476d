"""The local engine: every unit once, errors as they are, a killed worker survived."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import pytest

from synthleak.core import private_files
from synthleak.core.engine.local import run_units
from synthleak.core.engine.progress import (
    Lines,
    Silent,
    default_progress,
    duration,
    span,
    tell,
)
from synthleak.core.errors import GeneratorError, UserError
from synthleak.core.runtime import Runtime


def touch(folder: Path, unit: int) -> int:
    with (folder / str(unit)).open("a", encoding="utf-8") as file:
        file.write("x")
    return 2


def fail(folder: Path, unit: int) -> int:
    raise GeneratorError(f"unit {unit} cannot be done", "generator[0]")


def die_once(folder: Path, unit: int) -> int:
    mark = folder / "died"
    if unit == 3 and not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return touch(folder, unit)


def die_always(folder: Path, unit: int) -> int:
    os.kill(os.getpid(), signal.SIGKILL)
    return 1


def go(task: object, folder: Path, workers: int, units: int = 6) -> None:
    run_units(
        task,  # type: ignore[arg-type]
        folder,
        list(range(units)),
        runtime=Runtime(workers=workers),
        progress=Silent(),
        title="units",
        steps=2 * units,
    )


@pytest.mark.parametrize("workers", [1, 2])
def test_every_unit_is_done_once(tmp_path: Path, workers: int) -> None:
    go(touch, tmp_path, workers)
    assert {p.name: p.read_text() for p in tmp_path.iterdir()} == {str(i): "x" for i in range(6)}


def test_workers_follow_to_another_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("first", "second"):  # the workers of the first run serve the second too
        (tmp_path / name / "out").mkdir(parents=True)
        monkeypatch.chdir(tmp_path / name)
        go(touch, Path("out"), workers=2)
        assert len(list((tmp_path / name / "out").iterdir())) == 6


@pytest.mark.parametrize("workers", [1, 2])
def test_user_errors_survive_workers(tmp_path: Path, workers: int) -> None:
    with pytest.raises(GeneratorError, match=r"generator\[0\]: unit \d cannot be done"):
        go(fail, tmp_path, workers)


def list_private(folder: Path, unit: int) -> int:
    names = [path.name for path in Path(tempfile.gettempdir()).rglob("*") if path.is_file()]
    (folder / str(unit)).write_text(" ".join(names), encoding="utf-8")
    return 1


@pytest.mark.parametrize("in_memory", [True, False])
def test_what_workers_are_given_stays_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, in_memory: bool
) -> None:
    if in_memory and not private_files._memory_has_a_path():
        pytest.skip("this system shares no memory by a path")
    monkeypatch.setattr(private_files, "_memory_has_a_path", lambda: in_memory)
    go(list_private, tmp_path, 2)
    seen = {path.read_text(encoding="utf-8") for path in tmp_path.iterdir()}
    assert seen == {"" if in_memory else "context"}


def test_the_caller_keeps_its_signal_handlers(tmp_path: Path) -> None:
    before = signal.getsignal(signal.SIGTERM)
    go(touch, tmp_path, 2, units=1)
    assert signal.getsignal(signal.SIGTERM) == before


def test_a_killed_worker_costs_its_unit_only(tmp_path: Path) -> None:
    go(die_once, tmp_path, 2)
    assert {p.name for p in tmp_path.iterdir()} == {"died", *map(str, range(6))}


def test_workers_that_keep_dying_stop_the_run(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"killed twice.*fewer --workers"):
        go(die_always, tmp_path, 2)


class Screen:
    """Collects what is printed."""

    def __init__(self, terminal: bool) -> None:
        self.text = ""
        self._terminal = terminal

    def isatty(self) -> bool:
        return self._terminal

    def write(self, text: str) -> int:
        self.text += text
        return len(text)

    def flush(self) -> None:
        """Nothing is held back."""


def timed(terminal: bool, step: float) -> str:
    screen, now = Screen(terminal), [0.0]
    lines = Lines(screen, clock=lambda: now[0])  # type: ignore[arg-type]
    with lines.stage("releases", 4) as stage:
        for _ in range(4):
            now[0] += step
            stage.advance()
    return screen.text


def test_progress_waits_then_estimates_the_time_left() -> None:
    assert timed(terminal=False, step=0.1) == ""
    told = timed(terminal=False, step=3.0).splitlines()
    assert told[0] == "releases: 1 of 4 (25%), about 9 s left"
    assert told[-1] == "releases: 4 in 12 s"


def test_terminal_gets_a_bar_that_is_erased() -> None:
    told = timed(terminal=True, step=30.0)
    assert "━" in told and "about 1 min 30 s left" in told
    bars, erase, last = told.rpartition("\x1b[2K")
    assert erase and bars.count("\n") == 1
    assert last == "releases: 4 in 2 min 0 s\n"


def test_a_terminal_shows_brackets_as_they_are() -> None:
    screen, now = Screen(terminal=True), [0.0]
    with Lines(screen, clock=lambda: now[0]).stage("pool [red]", 2) as stage:  # type: ignore[arg-type]
        now[0] += 5.0
        stage.advance()
    assert "pool [red]: 1 of 2" in screen.text


def test_a_long_step_says_what_it_does() -> None:
    screen, now = Screen(terminal=False), [0.0]
    lines = Lines(screen, clock=lambda: now[0])  # type: ignore[arg-type]

    def task(context: None, unit: int) -> int:
        now[0] += 11.0
        tell(f"training, step {unit} of 9")
        return 1

    tell("nobody listens")
    run_units(
        task, None, [1, 2], runtime=Runtime(workers=1), progress=lines, title="releases", steps=2
    )
    assert screen.text.splitlines()[:2] == [
        "releases: 0 of 2 (0%); training, step 1 of 9",
        "releases: 1 of 2 (50%), about 22 s left; training, step 2 of 9",
    ]


def test_inner_steps_of_a_fleet_count_in_the_estimate() -> None:
    screen, now = Screen(terminal=False), [0.0]
    lines = Lines(screen, clock=lambda: now[0])  # type: ignore[arg-type]

    def fleet(context: None, unit: int) -> int:
        with span(0, 20):  # a fleet of 20 releases: 80 s of training, 20 s of sampling
            for start, end in ((0.0, 0.8), (0.8, 1.0)):
                with span(start, end):
                    for step in range(1, 5):
                        now[0] += 100 * (end - start) / 4
                        tell("a phase", step / 4)
        return 20

    run_units(
        fleet, None, [1, 2], runtime=Runtime(workers=1), progress=lines, title="releases", steps=40
    )
    told = [line for line in screen.text.splitlines() if "left" in line]
    assert told[0] == "releases: 0 of 40 (10%), about 3 min 0 s left; a phase"
    left = [_seconds(line) for line in told]
    assert len(left) > 8 and left == sorted(left, reverse=True) and left[-1] == 0


def _seconds(line: str) -> int:
    """Return the seconds that a line says are left."""
    words = line.partition("about ")[2].partition(" left")[0].split()
    units = {"s": 1, "min": 60}
    return sum(int(n) * units[unit] for n, unit in zip(words[::2], words[1::2], strict=True))


def test_estimate_covers_the_stages_to_come() -> None:
    screen, now = Screen(terminal=False), [0.0]
    lines = Lines(screen, clock=lambda: now[0])  # type: ignore[arg-type]
    lines.expect({"releases": 0, "observations": 40, "measurements": 100})
    for title, each in (("releases", 10.0), ("observations", 90.0), ("measurements", 50.0)):
        with lines.stage(title, 2) as stage:
            for _ in range(2):
                now[0] += each
                stage.advance()
    assert screen.text.splitlines() == [
        "1. releases: 1 of 2 (50%), about 10 s left in this step",  # nothing else was timed yet
        "1. releases: 2 of 2 (100%), about 0 s left in this step",
        "1. releases: 2 in 20 s",
        "2. observations: 1 of 2 (50%), about 7 min 50 s left in all",  # 90, and 3.8 times 100
        "2. observations: 2 of 2 (100%), about 6 min 20 s left in all",
        "2. observations: 2 in 3 min 0 s",
        "3. measurements: 1 of 2 (50%), about 50 s left in all",
        "3. measurements: 2 of 2 (100%), about 0 s left in all",
        "3. measurements: 2 in 1 min 40 s",
    ]


def test_stages_that_are_shown_are_numbered_without_gaps() -> None:
    screen, now = Screen(terminal=False), [0.0]
    lines = Lines(screen, clock=lambda: now[0])  # type: ignore[arg-type]
    lines.expect({"releases": 0, "observations": 1, "measurements": 1})
    for title, each in (("releases", 5.0), ("observations", 0.1), ("measurements", 5.0)):
        with lines.stage(title, 1) as stage:
            now[0] += each
            stage.advance()
    numbers = [line.partition(". ")[::2] for line in screen.text.splitlines()]
    assert {(n, text.partition(":")[0]) for n, text in numbers} == {
        ("1", "releases"),
        ("2", "measurements"),
    }


def test_no_time_left_is_told_before_the_pace_is_steady() -> None:
    screen, now = Screen(terminal=False), [0.0]
    lines = Lines(screen, clock=lambda: now[0])  # type: ignore[arg-type]
    with lines.stage("releases", 1000) as stage:
        now[0] += 60.0  # what the first step waits for: a model is read
        stage.advance()
        for _ in range(300):
            now[0] += 0.5
            stage.advance()
    told = [line for line in screen.text.splitlines() if "left" in line]
    assert "left" not in screen.text.splitlines()[0]
    assert told and all(4 * 60 < _seconds(line) < 20 * 60 for line in told)


def test_a_steady_pace_is_told_before_a_tenth_is_done() -> None:
    screen, now = Screen(terminal=False), [0.0]
    lines = Lines(screen, clock=lambda: now[0])  # type: ignore[arg-type]
    with lines.stage("releases", 1000) as stage:
        for _ in range(40):
            now[0] += 1.0
            stage.advance()
    assert "about 16 min" in screen.text.splitlines()[-2]


def test_a_slow_stage_raises_what_is_expected_of_later_ones() -> None:
    screen, now = Screen(terminal=False), [0.0]
    lines = Lines(screen, clock=lambda: now[0])  # type: ignore[arg-type]
    lines.expect({"observations": 40, "measurements": 100, "report": 10})
    with lines.stage("observations", 1) as stage:
        now[0] += 190.0  # (190 + 10) / (40 + 10): four times as long as expected
        stage.advance()
    with lines.stage("measurements", 2) as stage:
        now[0] += 100.0
        stage.note("cell 1")
    assert "about 5 min 40 s left in all" in screen.text  # 4 · 100 - 100 and 4 · 10


def test_python_shows_progress_on_a_terminal_and_in_a_notebook(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for terminal, kind in ((False, Silent), (True, Lines)):
        monkeypatch.setattr("sys.stderr", Screen(terminal))
        assert type(default_progress()) is kind
    monkeypatch.setattr("sys.stderr", Screen(terminal=False))
    monkeypatch.setitem(sys.modules, "ipykernel", sys)
    assert type(default_progress()) is Lines


def test_a_bar_fits_80_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    screen, now = Screen(terminal=True), [0.0]
    lines = Lines(screen, clock=lambda: now[0])  # type: ignore[arg-type]
    lines.expect({"releases": 0})
    with lines.stage("releases", 1000) as stage:
        now[0] += 5000.0
        stage.note("training 100 instances, step 12 of 200", 100.0)
    first = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", screen.text).splitlines()[0]
    assert "1. releases: 0 of 1,000 (10%), about 12 h 30 min left in this step" in first
    assert len(first) <= 80


def test_duration_in_words() -> None:
    assert [duration(s) for s in (3, 61, 3601)] == ["3 s", "1 min 1 s", "1 h 0 min"]


def test_a_run_that_ends_early_leaves_no_warning(tmp_path: Path) -> None:
    (tmp_path / "ends.py").write_text(
        """
import operator, os
from synthleak.core.engine.local import run_units
from synthleak.core.engine.progress import Silent
from synthleak.core.runtime import Runtime
try:
    how = {"runtime": Runtime(workers=2), "progress": Silent(), "title": "a"}
    run_units(operator.floordiv, 1, [0] * 3, **how, steps=3)
finally:
    os._exit(0)
""",
        encoding="utf-8",
    )
    words = [sys.executable, str(tmp_path / "ends.py")]
    done = subprocess.run(words, capture_output=True, check=True, timeout=60)
    assert done.stderr == b""


INTERRUPTED = """
import threading, time
from synthleak.core.engine.local import run_units
from synthleak.core.engine.progress import Silent
from synthleak.core.runtime import Runtime
from synthleak.core.private_files import Stopped, end_on_signals

def wait(_, seconds):
    time.sleep(seconds)
    return 1

end_on_signals()
# A thread that takes signals while the main thread holds them back, as those of numpy do.
threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
try:
    how = {"runtime": Runtime(workers=2), "progress": Silent(), "title": "a"}
    run_units(wait, 0, [1] * 9, **how, steps=9)
except Stopped:
    print("stopped")
"""


def first_worker_of(process: subprocess.Popen[bytes]) -> None:
    """Return as soon as a process has started one worker of joblib; fail if it ends before."""
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    while process.poll() is None:
        for child in children.read_text(encoding="ascii").split():
            with suppress(OSError):  # it has ended meanwhile
                if b"popen_loky" in Path(f"/proc/{child}/cmdline").read_bytes():
                    return
        time.sleep(0.001)
    pytest.fail("no worker was started")


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="reads /proc")
@pytest.mark.parametrize("after", [0.0, 0.01, 0.05])
def test_ctrl_c_while_workers_start_leaves_no_traceback(tmp_path: Path, after: float) -> None:
    (tmp_path / "interrupted.py").write_text(INTERRUPTED, encoding="utf-8")
    process = subprocess.Popen(
        [sys.executable, str(tmp_path / "interrupted.py")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    first_worker_of(process)
    time.sleep(after)
    os.killpg(process.pid, signal.SIGINT)
    said, complained = process.communicate(timeout=60)
    assert complained == b""
    assert said == b"stopped\n"
