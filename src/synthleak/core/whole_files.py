"""Files and folders that are written whole or not at all, and why one cannot be written."""

from __future__ import annotations

import errno
import os
import secrets
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from synthleak.core.errors import StoreError


def write_whole(path: Path, data: bytes, *, durable: bool = True) -> None:
    """Write a file so that it is never seen half-written; only its owner may read it.

    If `durable`, it is on the disk before it gets its name: a machine that stops leaves all of it
    or nothing.
    """
    _check_replaceable(path)
    part = path.with_name(f".{secrets.token_hex(8)}.part")
    try:
        try:
            _write_nameless(part, data, durable=durable)
        except (AttributeError, OSError):  # not every system and file system can do that
            handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(handle, "wb") as file:
                _fill(file, data, durable=durable)
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    if durable:
        _sync_folder(path.parent)


@contextmanager
def whole_folder(folder: Path) -> Iterator[Path]:
    """Give a folder to fill, only its owner's, that gets its name when it is whole."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    aside = folder.parent / f".{folder.name}.part"
    shutil.rmtree(aside, ignore_errors=True)  # what one that was killed left
    aside.mkdir(mode=0o700)
    try:
        yield aside
        aside.replace(folder)
    except BaseException:
        shutil.rmtree(aside, ignore_errors=True)
        raise


def refuse_links(path: Path, below: Path) -> None:
    """Refuse to write or delete where a link `below` a folder leads elsewhere.

    Args:
        path: the file or folder that is about to be written or deleted.
        below: the folder that it belongs to, which may itself be a link.

    Raises:
        StoreError: if `path`, or a folder between the two, is a link.
    """
    while path not in (below, path.parent):
        if path.is_symlink():
            raise StoreError(
                "a link, and what it leads to is not part of the run folder",
                str(path),
                "put the files themselves in its place: move the run folder as a whole",
            )
        path = path.parent


def _check_replaceable(path: Path) -> None:
    """Refuse a device, a pipe or a folder: a file that takes its name would replace it."""
    with suppress(FileNotFoundError):
        linked = path.is_symlink() and str(path.readlink()).startswith("/proc/")  # as /dev/stdout
        if linked or not stat.S_ISREG(path.stat().st_mode):
            raise OSError(errno.EEXIST, "not a regular file")


def _write_nameless(part: Path, data: bytes, *, durable: bool) -> None:
    """Write a file that has no name until it is whole: a killed process leaves nothing of it."""
    with os.fdopen(os.open(part.parent, os.O_TMPFILE | os.O_WRONLY, 0o600), "wb") as file:
        _fill(file, data, durable=durable)
        number = file.fileno()
        # Given any open file beside it, the system follows this link to the nameless file.
        os.link(f"/proc/self/fd/{number}", part, src_dir_fd=number)


def _fill(file: IO[bytes], data: bytes, *, durable: bool) -> None:
    file.write(data)
    file.flush()
    if durable:
        os.fsync(file.fileno())


def _sync_folder(folder: Path) -> None:
    """Let the names in a folder reach the disk too, where the system can do that."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


@contextmanager
def writing(root: object) -> Iterator[None]:
    """Say why nothing can be written where the block tries to."""
    try:
        yield
    except OSError as error:
        raise cannot_write(root, error) from None


def cannot_write(root: object, error: OSError) -> StoreError:
    """Return an error that says why nothing can be written, and what to do."""
    if error.errno == errno.ENOSPC:
        return StoreError(
            "the disk is full",
            where=str(root),
            remedy="free some space and run again; finished work is kept",
        )
    return StoreError(
        f"cannot write ({error.strerror})",
        where=str(root),
        remedy="choose a folder that you may write to",
    )
