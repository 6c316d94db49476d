"""Private temporary files: where they lie, and that none outlives its run.

Training files and what workers are given hold records. What workers are given stays in memory where
the system can share it; the rest lies in the run folder, which is as private as the corpus, and
goes with the run. What a killed run left is removed by the next one.

One run at a time holds a folder: by a lock, which ends with its process, or by a lease where the
file system has no locks, and at a URL. Private files of a run at a URL lie in the temporary folder
of each machine that works for it.
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
from synthleak.core.places import Place, Url
from synthleak.core.store import cannot_write, write_whole

try:
    import fcntl
except ImportError:  # a system without locks on folders
    fcntl = None  # type: ignore[assignment]

PRIVATE = ".private"
HOME = "synthleak-of-"
"""How the private folder of a process begins, where it lies among temporary files."""
PROGRAM = "program"
"""A private file with the process group of a program, to end it if its worker cannot any more."""

LEASE, LEASE_NOW = ".lease", ".lease-now"
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
def working_in(folder: Place, *, wait: bool = False) -> Iterator[None]:
    """Hold a run folder: one run at a time, and private files inside until it ends."""
    if isinstance(folder, Url):
        sweep_homes()
        with _leased(folder, wait), private_home() as home, working_in(home):
            yield
        return
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


@contextmanager
def private_home() -> Iterator[Path]:
    """Make a private folder of this process among temporary files.

    The name holds the process: whoever comes next on this machine knows whether it still runs.
    """
    home = Path(tempfile.mkdtemp(prefix=f"{HOME}{os.getpid()}-"))
    try:
        yield home
    finally:
        shutil.rmtree(home, ignore_errors=True)


def sweep_homes() -> None:
    """Remove the private folders that killed processes left among temporary files."""
    for path in Path(tempfile.gettempdir()).glob(f"{HOME}*"):
        number = path.name.removeprefix(HOME).partition("-")[0]
        with suppress(OSError):
            if number.isdecimal() and not _runs(int(number)) and path.stat().st_uid == os.getuid():
                _end_programs(path)
                shutil.rmtree(path, ignore_errors=True)


def _runs(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def _end_programs(home: Path) -> None:
    """End programs whose worker was killed, if their supervisors did not."""
    for place, _, names in os.walk(home):
        with suppress(OSError, ValueError):  # it may go meanwhile
            if PROGRAM in names:
                os.killpg(int(Path(place, PROGRAM).read_text(encoding="ascii")), signal.SIGKILL)


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


def passes_away(path: Place) -> bool:
    """Say whether a file of a run folder is there only while a run holds it, or half-written."""
    ours = path.name in (PRIVATE, LEASE, LEASE_NOW)
    return ours or (path.name[:1] == "." and path.suffix == ".part")


def sweep(folder: Path) -> None:
    """Remove what runs that were killed left in a folder: private and half-written files."""
    shutil.rmtree(folder / PRIVATE, ignore_errors=True)
    for path in folder.rglob(".*.part"):
        path.unlink(missing_ok=True)


@contextmanager
def _held(folder: Path, wait: bool) -> Iterator[None]:
    """Lock a folder itself, without a file that could stay behind; the system ends the lock."""
    handle, wait_for = os.open(folder, os.O_RDONLY), _Turn(folder, wait)
    try:
        while (lock := _lock(handle)) is False or (lock is None and not _lease(folder)):
            wait_for.another_run()
        if lock:
            yield
        else:
            with _renewed(folder):
                yield
    finally:
        os.close(handle)


@contextmanager
def _leased(folder: Url, wait: bool) -> Iterator[None]:
    """Hold a URL by a lease."""
    wait_for = _Turn(folder, wait)
    while not _lease(folder):
        wait_for.another_run()
    with _renewed(folder):
        yield


class _Turn:
    """Waits for another run, if that was asked for."""

    def __init__(self, folder: Place, wait: bool) -> None:
        self._folder, self._wait, self._said = folder, wait, False

    def another_run(self) -> None:
        """Wait a moment; say once for whom, or that a user has to choose."""
        holder = _holder(self._folder)
        if not self._wait:
            raise StoreError(
                f"another run works in this folder{holder}",
                str(self._folder),
                "add --wait, or choose another folder",
            )
        if not self._said:
            log.warning("%s: waiting until another run has ended%s", self._folder, holder)
            self._said = True
        time.sleep(_ASK_AGAIN)


def _lock(handle: int) -> bool | None:
    """Lock an open folder; return whether that succeeded, or None where there are no locks."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except (OSError, AttributeError):
        return None
    return True


def _lease(folder: Place) -> bool:
    """Write this process into the folder, unless another one is there and alive.

    Two that write at once both read afterwards, and the later one finds itself.
    """
    path, own = folder / LEASE, _own_name()
    with suppress(FileNotFoundError):
        if path.read_text(encoding="utf-8") not in ("", own) and not _is_stale(path):
            return False
    _write(path, own.encode())
    time.sleep(SETTLED_AFTER)
    return path.read_text(encoding="utf-8") == own


def _write(path: Place, data: bytes) -> None:
    if isinstance(path, Url):
        path.write_bytes(data)
    else:
        write_whole(path, data)


def _is_stale(path: Place) -> bool:
    """Compare times of the file system itself: clocks of two machines differ."""
    if isinstance(path, Url):
        now = path.parent / LEASE_NOW
        now.write_bytes(_own_name().encode())
        return (now.modified() - path.modified()).total_seconds() > LEASE_SECONDS
    with tempfile.NamedTemporaryFile(prefix=".", suffix=".part", dir=path.parent) as here:
        return os.fstat(here.fileno()).st_mtime - path.stat().st_mtime > LEASE_SECONDS


@contextmanager
def _renewed(folder: Place) -> Iterator[None]:
    """Renew a lease until the run ends, then give it back: at a URL as an empty object."""
    path, ended = folder / LEASE, threading.Event()

    def renew() -> None:
        while not ended.wait(RENEWED_EVERY):
            with suppress(OSError, StoreError):
                if isinstance(path, Path):
                    path.touch()
                elif _is_own(path):
                    path.write_bytes(_own_name().encode())

    thread = threading.Thread(target=renew, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        if isinstance(path, Path):
            path.unlink(missing_ok=True)
        elif _is_own(path):
            path.write_bytes(b"")


def _is_own(path: Place) -> bool:
    """Say whether the lease is still this process's: one that stood still may have lost it."""
    with suppress(OSError, StoreError):
        return path.read_text(encoding="utf-8") == _own_name()
    return False


def _own_name() -> str:
    return f"{socket.gethostname()}-{os.getpid()}"


def _holder(folder: Place) -> str:
    with suppress(OSError, StopIteration, StoreError):
        name = (
            (folder / LEASE).read_text(encoding="utf-8")
            if isinstance(folder, Url)
            else next((folder / PRIVATE).iterdir()).name
        )
        host, _, process = name.rpartition("-")
        return f" (process {process} on {host})"
    return ""
