"""Who holds a run folder: one run at a time.

By a lock, which ends with its process, or by a lease where the file system has no locks, and at a
URL.
"""

from __future__ import annotations

import logging
import os
import socket
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from synthleak.core.errors import StoreError
from synthleak.core.places import Place, Url
from synthleak.core.whole_files import write_whole

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


@contextmanager
def held(folder: Path, wait: bool) -> Iterator[None]:
    """Lock a folder itself, without a file that could stay behind; the system ends the lock."""
    handle, wait_for = os.open(folder, os.O_RDONLY), _Turn(folder, wait)
    try:
        while (locked := lock(handle)) is False or (locked is None and not _lease(folder)):
            wait_for.another_run()
        if locked:
            yield
        else:
            with _renewed(folder):
                yield
    finally:
        os.close(handle)


@contextmanager
def leased(folder: Url, wait: bool) -> Iterator[None]:
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


def lock(handle: int) -> bool | None:
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
    path, own = folder / LEASE, own_name()
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
        now.write_bytes(own_name().encode())
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
        elif _is_own(path):
            path.write_bytes(b"")


def _is_own(path: Place) -> bool:
    """Say whether the lease is still this process's: one that stood still may have lost it."""
    with suppress(OSError, StoreError):
        return path.read_text(encoding="utf-8") == own_name()
    return False


def own_name() -> str:
    """Return how this process is called in locks and leases: machine and process."""
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
