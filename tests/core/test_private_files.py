"""One run at a time holds a folder: by a lock, or by a lease where there are no locks."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from synthleak.core import private_files
from synthleak.core.errors import StoreError
from synthleak.core.private_files import (
    LEASE,
    PRIVATE,
    TemporaryHome,
    private_home,
    running_in,
    sweep_homes,
    working_in,
)

HOLD = """
import sys, time
from pathlib import Path
from synthleak.core.private_files import working_in
with working_in(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(float(sys.argv[2]))
"""


NOTE = """
import sys, time
from pathlib import Path
from synthleak.core.engine.progress import Noted, Silent
from synthleak.core.private_files import note_progress, working_in
with working_in(Path(sys.argv[1])):
    with Noted(Silent(), note_progress).stage("releases", 40) as stage:
        print("held", flush=True)
        time.sleep(float(sys.argv[2]))
"""


def hold(folder: Path, seconds: float, script: str = HOLD) -> subprocess.Popen[str]:
    """Hold a folder in another process."""
    words = [sys.executable, "-c", script, str(folder), str(seconds)]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stdout.readline() == "held\n"
    return process


def test_a_held_folder_is_refused_with_its_holder(tmp_path: Path) -> None:
    other = hold(tmp_path, 60)
    with pytest.raises(StoreError) as caught, working_in(tmp_path):
        pass
    assert f"another run works in this folder (process {other.pid} on" in str(caught.value)
    other.kill()  # the lock of a killed run is free, and what it left is removed
    other.communicate()
    assert (tmp_path / PRIVATE).is_dir()
    with working_in(tmp_path):
        assert [path.name.rpartition("-")[2] for path in (tmp_path / PRIVATE).iterdir()] == [
            str(os.getpid())
        ]
    assert list(tmp_path.iterdir()) == []


def test_a_run_can_wait_for_its_turn(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    other = hold(tmp_path, 1.5)
    with working_in(tmp_path, wait=True):
        assert other.wait(10) == 0
    assert len(caplog.messages) == 1
    assert f"waiting until another run has ended (process {other.pid}" in caplog.messages[0]
    other.communicate()


@pytest.fixture
def no_locks(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(handle: int, how: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr("synthleak.core.private_files.fcntl.flock", none)
    monkeypatch.setattr(private_files, "SETTLED_AFTER", 0.1)
    monkeypatch.setattr(private_files, "RENEWED_EVERY", 0.1)


def of_another(folder: Path, age: float) -> None:
    lease = folder / LEASE
    lease.write_text("elsewhere-17", encoding="utf-8")
    then = time.time() - age
    os.utime(lease, (then, then))


@pytest.mark.usefixtures("no_locks")
def test_a_lease_holds_a_folder_without_locks(tmp_path: Path) -> None:
    of_another(tmp_path, age=5)
    with pytest.raises(StoreError, match="another run works in this folder"), working_in(tmp_path):
        pass
    assert (tmp_path / LEASE).read_text(encoding="utf-8") == "elsewhere-17"
    of_another(tmp_path, age=100)  # nobody renewed it
    with working_in(tmp_path):
        held = tmp_path / LEASE
        assert held.read_text(encoding="utf-8").endswith(f"-{os.getpid()}")
        os.utime(held, (0, 0))
        time.sleep(0.5)
        assert held.stat().st_mtime > 0  # renewed
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("no_locks")
def test_of_two_that_take_a_lease_at_once_one_gets_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(private_files, "SETTLED_AFTER", 0.5)
    names, got = threading.local(), []
    monkeypatch.setattr(private_files, "own_name", lambda: str(names.own))
    both = threading.Barrier(2)

    def take(name: str) -> None:
        names.own = name
        both.wait()
        got.append(private_files._lease(tmp_path))

    threads = [threading.Thread(target=take, args=(name,)) for name in ("a-1", "b-2")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(got) == [False, True]


TEMPORARY = """
import time
from synthleak.core.private_files import TemporaryHome
home = TemporaryHome()
print(home.path, flush=True)
time.sleep(60)
"""


def test_the_temporary_folder_of_a_killed_run_is_removed_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    other = subprocess.Popen(
        [sys.executable, "-c", TEMPORARY],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    assert other.stdout is not None
    left = Path(other.stdout.readline().strip())
    strange = tmp_path / "synthleak-run-link"
    strange.symlink_to(tmp_path)
    with TemporaryHome() as home:
        assert left.is_dir() and home.is_dir()  # of two that are alive each keeps its own
    other.kill()
    other.communicate()
    with TemporaryHome() as home:
        assert not left.parent.exists()
        assert home.parent.stat().st_mode & 0o777 == 0o700
    assert list(tmp_path.iterdir()) == [strange]


def test_a_linked_or_foreign_home_is_not_swept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    elsewhere = tmp_path / "elsewhere"
    for folder in (tmp_path / "tmp", elsewhere):
        folder.mkdir()
    victim = subprocess.Popen(["sleep", "60"], start_new_session=True)
    try:
        (elsewhere / "program").write_text(str(victim.pid), encoding="ascii")
        (tmp_path / "tmp/synthleak-run-x").symlink_to(elsewhere)
        own = tmp_path / "tmp/synthleak-run-y"
        own.mkdir()
        (own / "program").write_text(f"{victim.pid} 1", encoding="ascii")  # another start time
        sweep_homes()
        assert victim.poll() is None and (elsewhere / "program").is_file()
        assert not own.exists()
    finally:
        victim.kill()
        victim.wait()


@pytest.mark.parametrize("said", ["0", "1", "-1", "1 ", "0 0", "x", ""])
def test_no_process_of_the_system_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str
) -> None:
    ended: list[int] = []
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(os, "killpg", lambda group, number: ended.append(group))
    home = tmp_path / "synthleak-run-x"
    home.mkdir()
    (home / "program").write_text(said, encoding="ascii")
    sweep_homes()
    assert ended == [] and not home.exists()


def test_a_home_that_nobody_holds_is_swept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    (tmp_path / "synthleak-run-x").mkdir()
    with private_home() as home:
        sweep_homes()
        assert list(tmp_path.iterdir()) == [home]


def test_another_process_reads_how_far_a_run_is(tmp_path: Path) -> None:
    assert running_in(tmp_path) is None
    other = hold(tmp_path, 60, NOTE)
    try:
        run = running_in(tmp_path)
        assert run is not None and run.process == f"process {other.pid}"
        assert (run.progress["stage"], run.progress["of"]) == ("releases", 40)
    finally:
        other.kill()
        other.communicate()
    assert (tmp_path / PRIVATE).exists() and running_in(tmp_path) is None  # what it left


@pytest.mark.parametrize("start", ["1", ""])
def test_a_process_that_took_the_number_of_a_killed_run_is_not_it(
    tmp_path: Path, start: str
) -> None:
    home = tmp_path / PRIVATE / private_files.own_name()
    home.mkdir(parents=True)
    (home / private_files.PROGRESS).write_text(f'{{"start": "{start}"}}', encoding="utf-8")
    run = running_in(tmp_path)
    assert (run is None) == bool(start)  # where the system does not say when it started, it counts


def test_a_run_on_another_machine_counts_while_it_holds_the_lock(tmp_path: Path) -> None:
    other = hold(tmp_path, 60)
    try:
        (here,) = (tmp_path / PRIVATE).iterdir()
        here.rename(here.with_name("elsewhere-7"))
        run = running_in(tmp_path)
        assert run is not None and run.process == "process 7 on elsewhere"
    finally:
        other.kill()
        other.communicate()
    assert running_in(tmp_path) is None
