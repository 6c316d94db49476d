"""The manifest of an exported plan: which release belongs to which training file.

A set goes out under a neutral name: nothing in the folder says whether it is a play of the game or
a reference, or who is a member. A release is found again by its ticket, the hash of all that it is
to be made from; so a folder that was exported for another plan is noticed.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, Field

from synthleak.core.errors import GeneratorError
from synthleak.core.identity import digest
from synthleak.core.limits import FILE
from synthleak.core.reading import Boundary, check_file
from synthleak.core.spec_sections import Epsilon, Name
from synthleak.releases.exchange import budget, content_hash, dump_training
from synthleak.releases.release import Request

MANIFEST = "manifest.json"
TRAIN = "train.jsonl"
FORMAT = 1


@dataclass(frozen=True)
class Slot:
    """One release that is asked for: made from `train`, to be put at `file`."""

    pool: str
    set: str
    train_hash: str
    nominal: int
    size: int
    epsilon: float
    delta: float
    seed: int
    ticket: str
    tied: bool = False

    @property
    def train(self) -> str:
        """Where the training file lies, from the folder."""
        return f"{self.pool}/{self.set}/{TRAIN}"

    @property
    def file(self) -> str:
        """Where the release is to be put, from the folder."""
        return f"{self.pool}/{self.set}/release-{budget(self.epsilon)}.jsonl"

    @property
    def made_from(self) -> str:
        """Where the hash of the training file goes that the release was made from."""
        return f"{self.file}.made-from"


def ticket_of(request: Request, *, tied: bool = False) -> str:
    """Return the hash of all that a release is made from.

    The seed is in it, because two sets may hold the same records where N is close to |C|. Whoever
    makes the releases does not know it, and so cannot turn a `tied` ticket into another one.
    """
    return digest(
        "tied ticket" if tied else "ticket",
        content_hash(dump_training(request.records, persons=request.persons)),
        [request.nominal, request.size, request.epsilon, request.delta, request.seed],
    )


def dump_manifest(slots: Sequence[Slot], generator: str, *, tied: bool = False) -> bytes:
    """Write the manifest: sets in the order of their names, each with its releases.

    If `tied`, every release has to come with the hash of the training file it was made from.
    """
    sets: dict[tuple[str, str], dict[str, Any]] = {}
    for slot in sorted(slots, key=lambda slot: (slot.pool, slot.set, -slot.epsilon)):
        entry = sets.setdefault(
            (slot.pool, slot.set),
            {
                "pool": slot.pool,
                "set": slot.set,
                "train": slot.train,
                "train_sha256": slot.train_hash,
                "nominal": slot.nominal,
                "releases": [],
            },
        )
        entry["releases"].append(
            {
                "file": slot.file,
                "n": slot.size,
                "epsilon": budget(slot.epsilon),
                "delta": slot.delta,
                "seed": slot.seed,
                "ticket": slot.ticket,
            }
        )
    content = {"format": FORMAT, "generator": generator, **({"tied": True} if tied else {})}
    content |= {"sets": list(sets.values())}
    return (json.dumps(content, indent=1) + "\n").encode()


def read_manifest(folder: Path) -> list[Slot]:
    """Read the manifest of an exported folder."""
    path = folder / MANIFEST

    def damaged(error: Exception) -> GeneratorError:
        if isinstance(error, FileNotFoundError):
            return GeneratorError(
                "not an exported plan: manifest.json is missing",
                str(folder),
                "write it with `synthleak plan export SPEC DIR`",
            )
        if isinstance(error, OSError):
            return GeneratorError(f"cannot be read ({error.strerror})", str(path))
        return GeneratorError(
            "the manifest is damaged", str(path), "export the plan again into another folder"
        )

    check_file(path, FILE, GeneratorError, "name the folder of an export")
    with Boundary(damaged):
        content = _Manifest.model_validate_json(path.read_bytes())
    return [
        Slot(
            pool=entry.pool,
            set=entry.set,
            train_hash=entry.train_sha256,
            nominal=entry.nominal,
            size=release.n,
            epsilon=release.epsilon,
            delta=release.delta,
            seed=release.seed,
            ticket=release.ticket,
            tied=content.tied,
        )
        for entry in content.sets
        for release in entry.releases
    ]


class _Release(BaseModel):
    n: int = Field(ge=1)
    epsilon: Epsilon
    delta: float = Field(gt=0, lt=1)
    seed: int = Field(ge=0)
    ticket: str


class _Set(BaseModel):
    """Pool and set are names: a path in their place could lead out of the folder."""

    pool: Name
    set: Name
    train_sha256: str
    nominal: int = Field(ge=1)
    releases: list[_Release]


class _Manifest(BaseModel):
    sets: list[_Set]
    tied: bool = False
