"""Who holds a run folder, and private temporary files, of which none outlives its run.

One run at a time holds a folder: by a lock, which ends with its process, or by a lease where the
file system has no locks, and at a URL.

Training files and what workers are given hold records. What workers are given stays in memory where
the system can share it; the rest lies in the run folder, which is as private as the corpus, and
goes with the run. What a killed run left is removed by the next one. Private files of a run at a
URL lie in the temporary folder of each machine that works for it.
"""

from __future__ import annotations

import json
import logging
import math
import os
import shutil
import signal
import socket
import stat
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any, Self

from synthleak.core.errors import StoreError
from synthleak.core.locations import Location, Url
from synthleak.core.whole_files import write_whole, writing

try:
    import fcntl
except ImportError:  # a system without locks on folders
    fcntl = None  # type: ignore[assignment]

PRIVATE = ".private"
"""The folder of private files; the one inside it names the process that holds the run folder."""
LEASE, LEASE_NOW = ".lease", ".lease-now"
LEASE_SECONDS, RENEWED_EVERY, SETTLED_AFTER = 60.0, 15.0, 1.0
"""A lease that nobody renewed for so long has ended; how often it is renewed; when it is sure."""
_ASK_AGAIN = 0.5
log = logging.getLogger("synthleak.store")
HOME = "synthleak-run-"
"""How the private folder of a process begins, where it lies among temporary files."""
PROGRESS = "progress"
"""A private file that says how far the run is."""
PROGRAM = "program"
"""A private file with the process group of a program, to end it if its worker cannot any more."""

_home: ContextVar[Path | None] = ContextVar("home", default=None)


class Stopped(KeyboardInterrupt):
    """The process was asked to end by a signal: it ends as by Ctrl-C."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


ENDING_SIGNALS = [
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
]
CLEANING_SECONDS = 10.0
"""For so long after a signal further ones are ignored."""
_stops = [-math.inf]


def end_on_signals() -> None:
    """Let SIGTERM (docker stop, SLURM) and SIGHUP (a closed terminal) end like Ctrl-C, once."""
    for number in ENDING_SIGNALS:
        if signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler):
            signal.signal(number, _stop)


def ignore_signals() -> None:
    """Let nothing interrupt the end of the process: Python takes its handlers away before."""
    for number in ENDING_SIGNALS:
        signal.signal(number, signal.SIG_IGN)


def _stop(number: int, frame: FrameType | None) -> None:
    """End the run, once: cleaning up is not interrupted by a second signal.

    A library may lose the exception, in a callback; then a signal that comes later counts.
    """
    now = time.monotonic()
    if now - _stops[-1] >= CLEANING_SECONDS:
        _stops.append(now)
        raise Stopped(number)


@contextmanager
def working_in(folder: Location, *, wait: bool = False) -> Iterator[None]:
    """Hold a run folder: one run at a time, and private files inside until it ends."""
    if isinstance(folder, Url):
        with _held(folder, wait), TemporaryHome() as home, working_in(home):
            yield
        return
    with _held(folder, wait):
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

    It is locked: whoever comes next, on any machine, knows whether its process still runs.
    """
    bare = Path(tempfile.mkdtemp(prefix=f".{HOME}"))
    with _opened(bare) as handle:
        lock(handle)
        home = bare.rename(bare.with_name(bare.name[1:]))  # only now can a sweep find it
        try:
            yield home
        finally:
            shutil.rmtree(home, ignore_errors=True)


def sweep_homes() -> None:
    """Remove the private folders that killed processes left among temporary files."""
    for path in Path(tempfile.gettempdir()).glob(f"{HOME}*"):
        with suppress(OSError):
            if not _is_own(path, stat.S_ISDIR):
                continue
            with _opened(path, os.O_RDONLY | os.O_NOFOLLOW) as handle:
                if lock(handle):
                    _end_programs(path)
                    shutil.rmtree(path, ignore_errors=True)


def _is_own(path: Path, kind: Callable[[int], bool]) -> bool:
    """Say whether something is of a kind, no link to it, and belongs to this account."""
    about = path.lstat()
    return kind(about.st_mode) and about.st_uid == os.getuid()


def start_of(process: int) -> str:
    """Return when a process started, in ticks since the machine did; "" where nothing says so."""
    try:
        status = Path(f"/proc/{process}/stat").read_text(encoding="utf-8", errors="replace")
        return status.rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return ""


def _end_programs(home: Path) -> None:
    """End programs whose worker was killed, if their supervisors did not.

    Only the process is ended that was started then: the file may be a stranger's, or its number
    another process's by now.
    """
    for folder, _, names in os.walk(home):
        with suppress(OSError, ValueError):  # it may go meanwhile
            note = Path(folder, PROGRAM)
            if PROGRAM in names and _is_own(note, stat.S_ISREG):
                number, _, start = note.read_text(encoding="ascii").partition(" ")
                if int(number) > 1 and start_of(int(number)) == start:
                    os.killpg(int(number), signal.SIGKILL)


def note_progress(content: Mapping[str, Any]) -> None:
    """Write down how far the run of this process is, for `running_in`; it goes with the run."""
    home = _home.get()
    if home is not None:
        about = {**content, "at": time.time(), "start": start_of(os.getpid())}
        with suppress(OSError):
            write_whole(home / PROGRESS, json.dumps(about).encode())


@dataclass(frozen=True)
class Running:
    """A run that holds a folder: its process, and what it last noted of its progress."""

    process: str
    progress: Mapping[str, Any]


def running_in(folder: Location) -> Running | None:
    """Return the run that holds a folder; what a killed one left there does not count."""
    with suppress(OSError, StoreError, StopIteration, ValueError, TypeError):
        name = _holder(folder)
        if isinstance(folder, Url):
            age = datetime.now(UTC) - (folder / LEASE).modified()
            recent = age.total_seconds() < LEASE_SECONDS
            return Running(_process(name), {}) if name and recent else None
        host, _, process = name.rpartition("-")
        noted = folder / PRIVATE / name / PROGRESS
        content = json.loads(noted.read_text(encoding="utf-8")) if noted.is_file() else {}
        if host == socket.gethostname():
            alive = _is_alive(int(process), content.get("start"))
        else:
            with _opened(folder) as handle:
                alive = lock(handle, shared=True) is False
        return Running(_process(name), content) if alive else None
    return None


def _is_alive(process: int, start: str | None) -> bool:
    """Say whether a process runs that started then."""
    now = start_of(process)
    if start and now:
        return start == now
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # it is somebody else's
        pass
    return True


@contextmanager
def _opened(folder: Path, flags: int = os.O_RDONLY) -> Iterator[int]:
    handle = os.open(folder, flags)
    try:
        yield handle
    finally:
        os.close(handle)


def _holder(folder: Location) -> str:
    """Return the `own_name` of the process that holds a folder; raise if none does."""
    if isinstance(folder, Url):
        return (folder / LEASE).read_text(encoding="utf-8")
    return next((folder / PRIVATE).iterdir()).name


def _process(name: str) -> str:
    """Say which process a name of `own_name` is, and on which machine if it is another.

    >>> _process("elsewhere-12")
    'process 12 on elsewhere'
    """
    host, _, process = name.rpartition("-")
    return f"process {process}" + f" on {host}" * (host != socket.gethostname())


def note_program(folder: Path, process: int) -> None:
    """Write down the process group of a program, to end it if its worker cannot any more."""
    write_private(folder / PROGRAM, f"{process} {start_of(process)}".encode())


class Hold:
    """Holds a run folder from when it is known to be one, until the run ends."""

    def __init__(self, folder: Location, mark: str, *, wait: bool = False) -> None:
        self._folder, self._mark, self._stack = folder, mark, ExitStack()
        self._wait, self._taken = wait, False

    def take(self) -> None:
        """Make the folder, for the owner alone, and hold it; nothing happens if it is held."""
        if self._taken:
            return
        with writing(self._folder):
            if isinstance(self._folder, Path):
                self._folder.parent.mkdir(parents=True, exist_ok=True)
                self._folder.mkdir(mode=0o700, exist_ok=True)
            self._stack.enter_context(working_in(self._folder, wait=self._wait))
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
    with writing(home or Path(tempfile.gettempdir())):
        return tempfile.TemporaryDirectory(
            prefix="synthleak-", dir=home, ignore_cleanup_errors=True
        )


def write_private(path: Path, data: bytes) -> None:
    with writing(path.parent):
        path.write_bytes(data)


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


class TemporaryHome:
    """A temporary run folder, for a run without one; what killed runs left is removed first."""

    def __init__(self) -> None:
        sweep_homes()
        self._stack = ExitStack()
        with writing(Path(tempfile.gettempdir())):
            self.path = self._stack.enter_context(private_home()) / "run"  # it locks its own
            self.path.mkdir(mode=0o700)

    def close(self) -> None:
        self._stack.close()

    def __enter__(self) -> Path:
        return self.path

    def __exit__(self, *error: object) -> None:
        self.close()


def is_transient(path: Location) -> bool:
    """Say whether a file of a run folder is there only while a run holds it, or half-written."""
    ours = path.name in (PRIVATE, LEASE, LEASE_NOW)
    return ours or (path.name[:1] == "." and path.suffix == ".part")


def sweep(folder: Path) -> None:
    """Remove what runs that were killed left in a folder: private and half-written files."""
    shutil.rmtree(folder / PRIVATE, ignore_errors=True)
    for path in folder.rglob(".*.part"):
        path.unlink(missing_ok=True)


@contextmanager
def _held(folder: Location, wait: bool) -> Iterator[None]:
    """Hold a folder by a lock on itself, without a file that could stay behind, or by a lease."""
    told = False
    with _opened(folder) if isinstance(folder, Path) else nullcontext() as handle:
        while True:
            locked = None if handle is None else lock(handle)
            if locked or (locked is None and _lease(folder)):
                break
            holder = ""
            with suppress(OSError, StopIteration, StoreError):
                host, _, process = _holder(folder).rpartition("-")
                holder = f" (process {process} on {host})"
            if not wait:
                raise StoreError(
                    f"another run works in this folder{holder}",
                    str(folder),
                    "add --wait, or choose another folder",
                )
            if not told:
                log.warning("%s: waiting until another run has ended%s", folder, holder)
                told = True
            time.sleep(_ASK_AGAIN)
        with nullcontext() if locked else _renewed(folder):
            yield


def lock(handle: int, *, shared: bool = False) -> bool | None:
    """Lock an open folder; return whether that succeeded, or None where there are no locks."""
    try:
        fcntl.flock(handle, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except (OSError, AttributeError):
        return None
    return True


def _lease(folder: Location) -> bool:
    """Write this process into the folder, unless another one is there and alive.

    Two that write at once both read afterwards, and the later one finds itself.
    """
    path, name = folder / LEASE, own_name()
    with suppress(FileNotFoundError):
        if path.read_text(encoding="utf-8") not in ("", name) and not _is_stale(path):
            return False
    if isinstance(path, Url):
        path.write_bytes(name.encode())
    else:
        write_whole(path, name.encode())
    time.sleep(SETTLED_AFTER)
    return path.read_text(encoding="utf-8") == name


def _is_stale(path: Location) -> bool:
    """Compare times of the file system itself: clocks of two machines differ."""
    if isinstance(path, Url):
        now = path.parent / LEASE_NOW
        now.write_bytes(own_name().encode())
        return (now.modified() - path.modified()).total_seconds() > LEASE_SECONDS
    with tempfile.NamedTemporaryFile(prefix=".", suffix=".part", dir=path.parent) as probe:
        return os.fstat(probe.fileno()).st_mtime - path.stat().st_mtime > LEASE_SECONDS


@contextmanager
def _renewed(folder: Location) -> Iterator[None]:
    """Renew a lease until the run ends, then give it back: at a URL as an empty object."""
    path, ended = folder / LEASE, threading.Event()

    def renew() -> None:
        while not ended.wait(RENEWED_EVERY):
            with suppress(OSError, StoreError):
                if isinstance(path, Path):
                    path.touch()
                elif _holds_lease(path):
                    path.write_bytes(own_name().encode())

    thread = threading.Thread(target=renew, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        if isinstance(path, Path):
            path.unlink(missing_ok=True)
        elif _holds_lease(path):
            path.write_bytes(b"")


def _holds_lease(path: Location) -> bool:
    """Say whether the lease is still this process's: one that stood still may have lost it."""
    with suppress(OSError, StoreError):
        return path.read_text(encoding="utf-8") == own_name()
    return False


def own_name() -> str:
    """Return how this process is called in locks and leases: machine and process."""
    return f"{socket.gethostname()}-{os.getpid()}"
