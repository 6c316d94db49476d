"""Private temporary files: where they lie, and that none outlives its run.

Training files and what workers are given hold records. They lie in the run folder, which is as
private as the corpus, and go with the run; what a killed run left is removed by the next one.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from types import FrameType
from typing import Self

from synthleak.core.errors import StoreError
from synthleak.core.store import cannot_write

try:
    import fcntl
except ImportError:  # a system without locks on folders
    fcntl = None  # type: ignore[assignment]

PRIVATE = ".private"
PROGRAM = "program"
"""A private file with the process group of a program, to end it if its worker cannot any more."""

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
def working_in(folder: Path) -> Iterator[None]:
    """Hold a run folder: one run at a time, and private files inside until it ends."""
    with _locked(folder):
        sweep(folder)
        home = folder / PRIVATE / f"{socket.gethostname()}-{os.getpid()}"
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
    """End programs whose worker was killed: nobody else can."""
    for path in home.rglob(PROGRAM):
        with suppress(OSError, ValueError):
            os.killpg(int(path.read_text(encoding="ascii")), signal.SIGKILL)


class Hold:
    """Holds a run folder from when it is known to be one, until the run ends."""

    def __init__(self, folder: Path, mark: str) -> None:
        self._folder, self._mark, self._stack = folder, mark, ExitStack()
        self._taken = False

    def take(self) -> None:
        """Make the folder, for the owner alone, and hold it; nothing happens if it is held."""
        if self._taken:
            return
        try:
            self._folder.parent.mkdir(parents=True, exist_ok=True)
            self._folder.mkdir(mode=0o700, exist_ok=True)
            self._stack.enter_context(working_in(self._folder))
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
    return tempfile.TemporaryDirectory(
        prefix="synthleak-", dir=_home.get(), ignore_cleanup_errors=True
    )


def sweep(folder: Path) -> None:
    """Remove what runs that were killed left in a folder: private and half-written files."""
    shutil.rmtree(folder / PRIVATE, ignore_errors=True)
    for path in folder.rglob(".*.part"):
        path.unlink(missing_ok=True)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Lock a folder itself, without a file that could stay behind; the system ends the lock."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        if fcntl is not None:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise StoreError(
                    f"another run works in this folder{_holder(folder)}",
                    str(folder),
                    "wait until it has ended, or choose another folder",
                ) from None
            except OSError:  # a file system without locks: as before, nobody is kept out
                pass
        yield
    finally:
        os.close(handle)


def _holder(folder: Path) -> str:
    with suppress(OSError, StopIteration):
        host, _, process = next((folder / PRIVATE).iterdir()).name.rpartition("-")
        return f" (process {process} on {host})"
    return ""
