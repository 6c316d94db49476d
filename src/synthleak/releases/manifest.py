"""The manifest of an exported plan: which release belongs to which training file.

A set goes out under a neutral name: nothing in the folder says whether it is a play of the game or
a reference, or who is a member. A release is found again by its ticket, the hash of all that it is
to be made from; so a folder that was exported for another plan is noticed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from synthleak.core.errors import GeneratorError
from synthleak.core.identity import digest
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

    @property
    def train(self) -> str:
        """Where the training file lies, from the folder."""
        return f"{self.pool}/{self.set}/{TRAIN}"

    @property
    def file(self) -> str:
        """Where the release is to be put, from the folder."""
        return f"{self.pool}/{self.set}/release-{budget(self.epsilon)}.jsonl"


def ticket_of(request: Request) -> str:
    """Return the hash of all that a release is made from.

    The seed is in it, because two sets may hold the same records where N is close to |C|.
    """
    return digest(
        "ticket",
        content_hash(dump_training(request.records, persons=request.persons)),
        [request.nominal, request.size, request.epsilon, request.delta, request.seed],
    )


def dump_manifest(slots: Sequence[Slot], generator: str) -> bytes:
    """Write the manifest: sets in the order of their names, each with its releases."""
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
    content = {"format": FORMAT, "generator": generator, "sets": list(sets.values())}
    return (json.dumps(content, indent=1) + "\n").encode()


def read_manifest(folder: Path) -> list[Slot]:
    """Read the manifest of an exported folder."""
    path = folder / MANIFEST
    try:
        content = json.loads(path.read_bytes())
        return [_slot(entry, release) for entry in content["sets"] for release in entry["releases"]]
    except FileNotFoundError:
        raise GeneratorError(
            "not an exported plan: manifest.json is missing",
            str(folder),
            "write it with `synthleak plan export SPEC DIR`",
        ) from None
    except OSError as error:
        raise GeneratorError(f"cannot be read ({error.strerror})", str(path)) from None
    except (ValueError, KeyError, TypeError):
        raise GeneratorError(
            "the manifest is damaged", str(path), "export the plan again into another folder"
        ) from None


def _slot(entry: Mapping[str, Any], release: Mapping[str, Any]) -> Slot:
    return Slot(
        pool=entry["pool"],
        set=entry["set"],
        train_hash=entry["train_sha256"],
        nominal=int(entry["nominal"]),
        size=int(release["n"]),
        epsilon=float(release["epsilon"]),
        delta=float(release["delta"]),
        seed=int(release["seed"]),
        ticket=release["ticket"],
    )
