"""Private temporary files: where they lie, and that none outlives its run.

Training files and what workers are given hold records. What workers are given stays in memory where
the system can share it; the rest lies in the run folder, which is as private as the corpus, and
goes with the run. What a killed run left is removed by the next one.

One run at a time holds a folder: by a lock, which ends with its process, or by a lease where the
file system has no locks.
"""

from __future__ import annotations

import logging
import os
import shutil
import signal
import socket
import stat
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from contextvars import ContextVar
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Self

from synthleak.core.errors import StoreError
from synthleak.core.store import cannot_write, write_whole

try:
    import fcntl
except ImportError:  # a system without locks on folders
    fcntl = None  # type: ignore[assignment]

PRIVATE = ".private"
PROGRAM = "program"
"""A private file with the process group of a program, to end it if its worker cannot any more."""

LEASE = ".lease"
LEASE_SECONDS, RENEWED_EVERY, SETTLED_AFTER = 60.0, 15.0, 1.0
"""A lease that nobody renewed for so long has ended; how often it is renewed; when it is sure."""
_ASK_AGAIN = 0.5
log = logging.getLogger("synthleak.store")

_home: ContextVar[Path | None] = ContextVar("home", default=None)


class Stopped(KeyboardInterrupt):
    """The process was asked to end by a signal: it ends as by Ctrl-C."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def end_on_signals() -> None:
    """Let SIGTERM (docker stop, SLURM) and SIGHUP (a closed terminal) end like Ctrl-C."""
    for name in ("SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) == signal.SIG_DFL:
            signal.signal(number, _stop)


def _stop(number: int, frame: FrameType | None) -> None:
    signal.signal(number, signal.SIG_IGN)  # cleaning up is not interrupted by a second one
    raise Stopped(number)


@contextmanager
def working_in(folder: Path, *, wait: bool = False) -> Iterator[None]:
    """Hold a run folder: one run at a time, and private files inside until it ends."""
    with _held(folder, wait):
        sweep(folder)
        home = folder / PRIVATE / _own_name()
        token = _home.set(home)
        try:
            home.parent.mkdir(mode=0o700)
            home.mkdir(mode=0o700)
            yield
        finally:
            _home.reset(token)
            _end_programs(home)
            shutil.rmtree(folder / PRIVATE, ignore_errors=True)


def _end_programs(home: Path) -> None:
    """End programs whose worker was killed, if their supervisors did not."""
    for place, _, names in os.walk(home):
        with suppress(OSError, ValueError):  # it may go meanwhile
            if PROGRAM in names:
                os.killpg(int(Path(place, PROGRAM).read_text(encoding="ascii")), signal.SIGKILL)


class Hold:
    """Holds a run folder from when it is known to be one, until the run ends."""

    def __init__(self, folder: Path, mark: str, *, wait: bool = False) -> None:
        self._folder, self._mark, self._stack = folder, mark, ExitStack()
        self._wait, self._taken = wait, False

    def take(self) -> None:
        """Make the folder, for the owner alone, and hold it; nothing happens if it is held."""
        if self._taken:
            return
        try:
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


def run_private_folder() -> Path | None:
    """Return the private folder of the run, which its workers on this machine can read."""
    return _home.get()


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
            _lock(self._handle)  # of the folder around: the run locks its own
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
    about = path.lstat()
    own = stat.S_ISDIR(about.st_mode) and about.st_uid == os.getuid()
    if not own or time.time() - about.st_mtime < _NEW:
        return
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    try:
        if _lock(handle):
            shutil.rmtree(path, ignore_errors=True)
    finally:
        os.close(handle)


def passes_away(path: Path) -> bool:
    """Say whether a file of a run folder is there only while a run holds it, or half-written."""
    return path.name in (PRIVATE, LEASE) or (path.name[:1] == "." and path.suffix == ".part")


def sweep(folder: Path) -> None:
    """Remove what runs that were killed left in a folder: private and half-written files."""
    shutil.rmtree(folder / PRIVATE, ignore_errors=True)
    for path in folder.rglob(".*.part"):
        path.unlink(missing_ok=True)


@contextmanager
def _held(folder: Path, wait: bool) -> Iterator[None]:
    """Lock a folder itself, without a file that could stay behind; the system ends the lock."""
    handle, said = os.open(folder, os.O_RDONLY), False
    try:
        while (lock := _lock(handle)) is False or (lock is None and not _lease(folder)):
            if not wait:
                raise StoreError(
                    f"another run works in this folder{_holder(folder)}",
                    str(folder),
                    "add --wait, or choose another folder",
                )
            if not said:
                log.warning("%s: waiting until another run has ended%s", folder, _holder(folder))
                said = True
            time.sleep(_ASK_AGAIN)
        if lock:
            yield
        else:
            with _renewed(folder):
                yield
    finally:
        os.close(handle)


def _lock(handle: int) -> bool | None:
    """Lock an open folder; return whether that succeeded, or None where there are no locks."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except (OSError, AttributeError):
        return None
    return True


def _lease(folder: Path) -> bool:
    """Write this process into the folder, unless another one is there and alive.

    Two that write at once both read afterwards, and the later one finds itself.
    """
    path, own = folder / LEASE, _own_name()
    with suppress(FileNotFoundError):
        if path.read_text(encoding="utf-8") != own and not _is_stale(path):
            return False
    write_whole(path, own.encode())
    time.sleep(SETTLED_AFTER)
    return path.read_text(encoding="utf-8") == own


def _is_stale(path: Path) -> bool:
    """Compare times of the file system itself: clocks of two machines differ."""
    with tempfile.NamedTemporaryFile(prefix=".", suffix=".part", dir=path.parent) as now:
        return os.fstat(now.fileno()).st_mtime - path.stat().st_mtime > LEASE_SECONDS


@contextmanager
def _renewed(folder: Path) -> Iterator[None]:
    """Renew a lease until the run ends, then give it back."""
    path, ended = folder / LEASE, threading.Event()

    def renew() -> None:
        while not ended.wait(RENEWED_EVERY):
            with suppress(OSError):
                path.touch()

    thread = threading.Thread(target=renew, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        path.unlink(missing_ok=True)


def _own_name() -> str:
    return f"{socket.gethostname()}-{os.getpid()}"


def _holder(folder: Path) -> str:
    with suppress(OSError, StopIteration):
        host, _, process = next((folder / PRIVATE).iterdir()).name.rpartition("-")
        return f" (process {process} on {host})"
    return ""
