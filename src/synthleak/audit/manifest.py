"""The shape of a run folder's manifest, and whether one is as it was written."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel

from synthleak.core.errors import StoreError
from synthleak.core.identity import digest


class ManifestError(StoreError):
    """The manifest of a run folder is damaged; it can be rebuilt."""


def _inside(name: str) -> str:
    """Refuse a name that leads out of the folder: whoever wrote the manifest may be a stranger."""
    if Path(name).is_absolute() or ".." in Path(name).parts or "\0" in name:
        raise ValueError
    return name


_Name = Annotated[str, AfterValidator(_inside)]


class _Purged(BaseModel):
    at: str
    removed: dict[str, int]


class Look(BaseModel):
    """A look at results: after how many instances, when, and at which cells.

    `without_p` are cells that were measured and have no p-value.
    """

    instances: int
    at: str
    cells: list[str]
    without_p: list[str] = []


class _Shape(BaseModel):
    """What a manifest holds; those of earlier versions have no hashes and no digest."""

    synthleak: str
    key: str
    findings: str | None
    files: list[_Name]
    identity: dict[str, Any]
    hashes: dict[_Name, str | None] = {}
    purged: _Purged | None = None
    looks: list[Look] = []
    text_pages: list[_Name] = []
    made: str = ""
    sealed: bool = False
    digest: str | None = None


def is_whole(content: dict[str, Any]) -> bool:
    """Say whether a manifest is as it was written; another shape raises a ValueError."""
    return _Shape.model_validate(content).digest in (None, own_digest(content))


def own_digest(content: Mapping[str, Any]) -> str:
    """Return the digest that a manifest holds of the rest of it."""
    return digest("manifest", {k: v for k, v in content.items() if k != "digest"})


def release_of(version: str) -> tuple[int, ...]:
    """Return the numbers of a version, to compare.

    >>> release_of("0.10.2.dev0") > release_of("0.9")
    True
    """
    leading = re.match(r"[\d.]*", version)
    return tuple(int(part) for part in (leading[0] if leading else "").split(".") if part)
