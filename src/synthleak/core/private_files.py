"""Private temporary files: where they lie, and that none outlives its run.

Training files and what workers are given hold records. What workers are given stays in memory where
the system can share it; the rest lies in the run folder, which is as private as the corpus, and
goes with the run. What a killed run left is removed by the next one.

One run at a time holds a folder (`leases.py`). Private files of a run at a URL lie in the temporary
folder of each machine that works for it.
"""

from __future__ import annotations

import os
import shutil
import signal
import stat
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from contextvars import ContextVar
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Self

from synthleak.core.leases import LEASE, LEASE_NOW, PRIVATE, held, leased, lock, own_name
from synthleak.core.places import Place, Url
from synthleak.core.whole_files import cannot_write

HOME = "synthleak-of-"
"""How the private folder of a process begins, where it lies among temporary files."""
PROGRAM = "program"
"""A private file with the process group of a program, to end it if its worker cannot any more."""

_home: ContextVar[Path | None] = ContextVar("home", default=None)


class Stopped(KeyboardInterrupt):
    """The process was asked to end by a signal: it ends as by Ctrl-C."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def end_on_signals() -> None:
    """Let SIGTERM (docker stop, SLURM) and SIGHUP (a closed terminal) end like Ctrl-C, once."""
    usual = (signal.SIG_DFL, signal.default_int_handler)
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) in usual:
            signal.signal(number, _stop)


def _stop(number: int, frame: FrameType | None) -> None:
    signal.signal(number, signal.SIG_IGN)  # cleaning up is not interrupted by a second one
    raise Stopped(number)


@contextmanager
def working_in(folder: Place, *, wait: bool = False) -> Iterator[None]:
    """Hold a run folder: one run at a time, and private files inside until it ends."""
    if isinstance(folder, Url):
        sweep_homes()
        with leased(folder, wait), private_home() as home, working_in(home):
            yield
        return
    with held(folder, wait):
        sweep(folder)
        home = (folder / PRIVATE / own_name()).absolute()  # programs work in another folder
        token = _home.set(home)
        try:
            home.parent.mkdir(mode=0o700)
            home.mkdir(mode=0o700)
            yield
        finally:
            _home.reset(token)
            _end_programs(home)
            shutil.rmtree(folder / PRIVATE, ignore_errors=True)


@contextmanager
def private_home() -> Iterator[Path]:
    """Make a private folder of this process among temporary files.

    The name holds the process: whoever comes next on this machine knows whether it still runs.
    """
    own = os.getpid()
    home = Path(tempfile.mkdtemp(prefix=f"{HOME}{own}-{start_of(own)}-"))
    try:
        yield home
    finally:
        shutil.rmtree(home, ignore_errors=True)


def sweep_homes() -> None:
    """Remove the private folders that killed processes left among temporary files."""
    for path in Path(tempfile.gettempdir()).glob(f"{HOME}*"):
        number, _, rest = path.name.removeprefix(HOME).partition("-")
        with suppress(OSError):
            if not _is_own(path, stat.S_ISDIR) or not number.isdecimal():
                continue
            if not _runs(int(number), rest.rpartition("-")[0]):
                _end_programs(path)
                shutil.rmtree(path, ignore_errors=True)


def _is_own(path: Path, kind: Callable[[int], bool]) -> bool:
    """Say whether something is of a kind, no link to it, and belongs to this account."""
    about = path.lstat()
    return kind(about.st_mode) and about.st_uid == os.getuid()


def start_of(process: int) -> str:
    """Return when a process started, in ticks since the machine did; "" where nothing says so."""
    try:
        said = Path(f"/proc/{process}/stat").read_text(encoding="utf-8", errors="replace")
        return said.rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return ""


def _runs(process: int, start: str) -> bool:
    """Say whether a process still runs; another one may have got its number since."""
    if start and start_of(process) not in ("", start):
        return False
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def _end_programs(home: Path) -> None:
    """End programs whose worker was killed, if their supervisors did not.

    Only the process is ended that was started then: the file may be a stranger's, or its number
    another process's by now.
    """
    for place, _, names in os.walk(home):
        with suppress(OSError, ValueError):  # it may go meanwhile
            note = Path(place, PROGRAM)
            if PROGRAM in names and _is_own(note, stat.S_ISREG):
                number, _, start = note.read_text(encoding="ascii").partition(" ")
                if int(number) > 1 and start_of(int(number)) == start:
                    os.killpg(int(number), signal.SIGKILL)


def note_program(folder: Path, process: int) -> None:
    """Write down the process group of a program, to end it if its worker cannot any more."""
    write_private(folder / PROGRAM, f"{process} {start_of(process)}".encode())


class Hold:
    """Holds a run folder from when it is known to be one, until the run ends."""

    def __init__(self, folder: Place, mark: str, *, wait: bool = False) -> None:
        self._folder, self._mark, self._stack = folder, mark, ExitStack()
        self._wait, self._taken = wait, False

    def take(self) -> None:
        """Make the folder, for the owner alone, and hold it; nothing happens if it is held."""
        if self._taken:
            return
        try:
            if isinstance(self._folder, Path):
                self._folder.parent.mkdir(parents=True, exist_ok=True)
                self._folder.mkdir(mode=0o700, exist_ok=True)
            self._stack.enter_context(working_in(self._folder, wait=self._wait))
        except OSError as error:
            raise cannot_write(self._folder, error) from None
        self._taken = True

    def __enter__(self) -> Self:
        if (self._folder / self._mark).is_file():
            self.take()
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()


def private_folder() -> tempfile.TemporaryDirectory[str]:
    """Return a folder for private files, removed on leaving: in the run folder, where one is."""
    home = _home.get()
    try:
        return tempfile.TemporaryDirectory(
            prefix="synthleak-", dir=home, ignore_cleanup_errors=True
        )
    except OSError as error:
        raise cannot_write(home or Path(tempfile.gettempdir()), error) from None


def write_private(path: Path, data: bytes) -> None:
    """Write a file of a private folder."""
    try:
        path.write_bytes(data)
    except OSError as error:
        raise cannot_write(path.parent, error) from None


@contextmanager
def shared_bytes(folder: Path, data: bytes) -> Iterator[str]:
    """Yield a path under which processes of this account can read `data` while the block lasts.

    It names memory of this process, which a killed run takes with it, or where the system cannot
    do that a file of `folder`.
    """
    if not _memory_has_a_path():
        write_private(folder / "context", data)
        yield str(folder / "context")
        return
    with os.fdopen(os.memfd_create("synthleak"), "wb") as memory:
        memory.write(data)
        memory.flush()
        yield _path_of(memory.fileno())


@cache
def _memory_has_a_path() -> bool:
    """Try whether another process can open memory of this one: some sandboxes forbid it."""
    if not hasattr(os, "memfd_create"):
        return False
    with suppress(OSError), os.fdopen(os.memfd_create("synthleak"), "wb") as memory:
        words = ["sh", "-c", ': < "$0"', _path_of(memory.fileno())]
        return subprocess.run(words, stderr=subprocess.DEVNULL, check=False).returncode == 0
    return False


def _path_of(handle: int) -> str:
    return f"/proc/{os.getpid()}/fd/{handle}"


TEMPORARY = "synthleak-run-"
_NEW = 60.0
"""Seconds for which a temporary folder without a lock may be about to get one."""


class TemporaryHome:
    """A temporary run folder, for a run without one; what killed runs left is removed first."""

    def __init__(self) -> None:
        for path in Path(tempfile.gettempdir()).glob(f"{TEMPORARY}*"):
            with suppress(OSError):
                _remove_if_left(path)
        try:
            self._around = tempfile.mkdtemp(prefix=TEMPORARY)
            self._handle = os.open(self._around, os.O_RDONLY)
            lock(self._handle)  # of the folder around: the run locks its own
            self.path = Path(self._around) / "run"
            self.path.mkdir(mode=0o700)
        except OSError as error:
            raise cannot_write(Path(tempfile.gettempdir()), error) from None

    def close(self) -> None:
        """Remove the folder."""
        shutil.rmtree(self._around, ignore_errors=True)
        os.close(self._handle)

    def __enter__(self) -> Path:
        return self.path

    def __exit__(self, *error: object) -> None:
        self.close()


def _remove_if_left(path: Path) -> None:
    """Remove a temporary folder of this account whose process has ended."""
    if not _is_own(path, stat.S_ISDIR) or time.time() - path.lstat().st_mtime < _NEW:
        return
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    try:
        if lock(handle):
            shutil.rmtree(path, ignore_errors=True)
    finally:
        os.close(handle)


def is_transient(path: Place) -> bool:
    """Say whether a file of a run folder is there only while a run holds it, or half-written."""
    ours = path.name in (PRIVATE, LEASE, LEASE_NOW)
    return ours or (path.name[:1] == "." and path.suffix == ".part")


def sweep(folder: Path) -> None:
    """Remove what runs that were killed left in a folder: private and half-written files."""
    shutil.rmtree(folder / PRIVATE, ignore_errors=True)
    for path in folder.rglob(".*.part"):
        path.unlink(missing_ok=True)
