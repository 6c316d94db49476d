"""Locations: where a run folder lies, a path of this machine or a URL of an object store.

A URL (`s3://bucket/audit`) offers what every object store has: put whole, get, exists, list. It
looks like a `Path` as far as a run folder needs. Nothing is renamed, appended to or deleted. Who
may read it, and whether it is encrypted at rest, is up to the bucket.
"""

from __future__ import annotations

import io
import os
import re
from collections.abc import Iterator
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import urlsplit

from synthleak.core.errors import StoreError, UserError, import_extra
from synthleak.core.whole_files import cannot_write, write_whole

_URL = re.compile(r"([a-z][a-z0-9+.-]*)://(.*)", re.IGNORECASE | re.DOTALL)
_ENDPOINTS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
_REGIONS = ("AWS_REGION", "AWS_DEFAULT_REGION")
_ATTEMPTS, _CONNECT_SECONDS, _REQUEST_SECONDS = 4, 5, 60
"""How often a request to a bucket is made, and how long one may take."""


class Url:
    """A location in an object store, used like a path."""

    def __init__(self, text: str) -> None:
        match = _URL.fullmatch(text)
        if match is None:
            raise UserError(f"not a URL: {text!r}", remedy="write e.g. s3://bucket/audit")
        self.protocol, inside = match[1].lower(), match[2].strip("/")
        if "@" in inside.partition("/")[0]:
            raise UserError(
                "a URL with a password would end up in logs",
                f"{self.protocol}://...",
                "set the credentials in the environment",
            )
        if not inside or any(part in ("", ".", "..") for part in inside.split("/")):
            raise UserError(f"not a place: {text!r}", remedy="write e.g. s3://bucket/audit")
        self.inside = inside

    def __str__(self) -> str:
        return f"{self.protocol}://{self.inside}"

    def __repr__(self) -> str:
        return f"Url({str(self)!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Url) and str(self) == str(other)

    def __hash__(self) -> int:
        return hash(str(self))

    def __truediv__(self, name: str | Path) -> Url:
        return Url(f"{self}/{name}")

    @property
    def name(self) -> str:
        return self.inside.rpartition("/")[2]

    @property
    def suffix(self) -> str:
        return Path(self.name).suffix

    @property
    def parent(self) -> Url:
        return Url(str(self).rpartition("/")[0])

    def resolve(self) -> Url:
        """Return the place itself: a URL is absolute."""
        return self

    def _ask(self, request: str, *args: Any, **options: Any) -> Any:
        """Call a method of the file system; say in one line why the store did not do it."""
        try:
            return getattr(_file_system(self.protocol), request)(self.inside, *args, **options)
        except (FileNotFoundError, UserError, MemoryError):
            raise
        except Exception as error:
            raise StoreError(
                f"the object store refused a request ({str(error).strip()[:300]})",
                str(self),
                "check the bucket, the endpoint and the credentials; finished work is kept",
            ) from None

    def read_bytes(self) -> bytes:
        """Return what was put here; raise FileNotFoundError if nothing was."""
        return bytes(self._ask("cat_file"))

    def read_text(self, encoding: str = "utf-8") -> str:
        return self.read_bytes().decode(encoding)

    def write_bytes(self, data: bytes) -> None:
        """Put data here: a reader sees the whole of it or what was there before."""
        self._ask("pipe_file", data)

    def is_file(self) -> bool:
        return bool(self._ask("isfile"))

    def is_dir(self) -> bool:
        return next(self.iterdir(), None) is not None

    def iterdir(self) -> Iterator[Url]:
        try:
            names = [name.strip("/") for name in self._ask("ls", detail=False)]
        except FileNotFoundError:
            return
        yield from (Url(f"{self.protocol}://{name}") for name in names if name != self.inside)

    def names_below(self) -> list[str]:
        """Return all that was put below, by its name from here on."""
        return [name.strip("/").removeprefix(f"{self.inside}/") for name in self._ask("find")]

    def modified(self) -> datetime:
        """Return when it was put here, by the clock of the object store."""
        when: datetime = self._ask("modified")
        return when

    def written(self) -> tuple[object, ...] | None:
        """Tell one writing from the next; None if nothing was put here."""
        try:
            about = self._ask("info")
        except FileNotFoundError:
            return None
        if about.get("type") != "file":
            return None
        return (about.get("size"), *(str(about.get(k)) for k in ("ETag", "mtime", "created")))


Location = Path | Url


def locate(where: Location | str) -> Location:
    """Return where a run folder lies: a path, or a URL; `file:///...` is a path.

    >>> locate("runs/audit"), locate("s3://bucket/audit"), locate("file:///tmp/audit")
    (PosixPath('runs/audit'), Url('s3://bucket/audit'), PosixPath('/tmp/audit'))
    """
    if not isinstance(where, str):
        return where
    if where.lower().startswith("file://"):
        return Path(urlsplit(where).path)
    return Url(where) if _URL.fullmatch(where) else Path(where)


def opened(path: Location) -> Path | BinaryIO:
    """Return what a reader of files takes: a path, or what a URL holds."""
    return io.BytesIO(path.read_bytes()) if isinstance(path, Url) else path


def write_file(path: Location, data: bytes) -> None:
    """Write a file whole, in a folder that is made if it is missing, or put it at a URL."""
    if isinstance(path, Url):
        path.write_bytes(data)
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, data)
    except OSError as error:
        raise cannot_write(path, error) from None


def local(where: Location | str, command: str, instead: str) -> Path:
    """Return a folder of this machine; a URL is refused, with what to do `instead`."""
    folder = locate(where)
    if isinstance(folder, Url):
        raise UserError(f"`{command}` works on folders of this machine only", str(folder), instead)
    return folder


@lru_cache
def _file_system(protocol: str) -> Any:
    fsspec = import_extra("fsspec", extra="s3", by="a store at a URL")
    if protocol in ("s3", "s3a"):
        return _s3()
    try:
        return fsspec.filesystem(protocol)
    except (ValueError, ImportError) as error:
        raise UserError(
            f"no file system for {protocol}://: {error}", "fsspec", "install the package for it"
        ) from None


def _s3() -> Any:
    """Return S3 by way of pyarrow, which needs no further package; settings as of the AWS tools."""
    from pyarrow import fs

    wrapper = import_extra("fsspec.implementations.arrow", extra="s3", by="a store at a URL")
    endpoint = next((os.environ[name] for name in _ENDPOINTS if os.environ.get(name)), None)
    region = next((os.environ[name] for name in _REGIONS if os.environ.get(name)), None)
    where: dict[str, Any] = {"region": region} if region else {}
    if endpoint:
        parts = urlsplit(endpoint if "://" in endpoint else f"https://{endpoint}")
        where |= {"endpoint_override": parts.netloc, "scheme": parts.scheme}
        where.setdefault("region", "us-east-1")
    return wrapper.ArrowFSWrapper(
        fs.S3FileSystem(
            **where,
            connect_timeout=_CONNECT_SECONDS,
            request_timeout=_REQUEST_SECONDS,
            retry_strategy=fs.AwsStandardS3RetryStrategy(max_attempts=_ATTEMPTS),
        )
    )
