"""`folder`: releases that are made elsewhere and put beside their training files (docs/method.md
§5.1).

`synthleak plan export SPEC DIR` writes the training files. Releases are put beside them, on any
machine and in any order; a run reads the releases it finds and lists the missing ones
(docs/generators.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from pydantic import Field

from synthleak.core.errors import GeneratorError
from synthleak.core.validation import DataPath
from synthleak.releases.exchange import (
    MANIFEST,
    Slot,
    check_release,
    file_hash,
    read_manifest,
    read_release,
    ticket_of,
)
from synthleak.releases.generator import StatedGenerator, generators
from synthleak.releases.release import Request, Synthetic

SEED_NAME = "folder"
"""Seed name that enters every ticket. The external program's seeds are in the manifest."""


@generators.register("folder", version=1)
class Folder(StatedGenerator):
    """Releases made elsewhere: put beside the training files that `plan export` wrote."""

    path: DataPath = Field(description="the folder that `synthleak plan export` wrote")
    private: bool = Field(default=False, description="the maker states that epsilon holds")
    allow_identical: bool = Field(default=False, description="accept identical releases")

    def identity(self) -> dict[str, Any]:
        """Return kind, version and `private`; `path` and `allow_identical` change no release."""
        return {"kind": self.kind, "version": self.version, **self.stated}

    def seed_name(self, section: str) -> str:
        """Return a fixed name, so that the section may be renamed after the export."""
        return SEED_NAME

    def check(self) -> None:
        """Refuse swapped set folders, releases of other sets and identical ones."""
        slots = self._slots().values()
        for train, expected in {slot.train: slot.train_hash for slot in slots}.items():
            content = self._hash(train)
            if content not in ("", expected):
                raise GeneratorError(
                    "the training file is not the one that was exported",
                    str(self.path / train),
                    "put every set folder back where it was, or export the plan again",
                )
        for slot in slots:
            self._check_made_from(slot)
        if not self.allow_identical:
            self._refuse_copies([slot.file for slot in slots])

    def _check_made_from(self, slot: Slot) -> None:
        """Compare the hash that came with a release with that of its training file."""
        note = self.path / slot.made_from
        if not (self.path / slot.file).is_file() or not (slot.tied or note.is_file()):
            return
        remedy = f"write it with: sha256sum {slot.train} > {slot.made_from}"
        if not note.is_file():
            raise GeneratorError(
                "nothing says from which training file this release was made",
                str(self.path / slot.file),
                remedy,
            )
        check_release(note)
        try:
            with note.open("rb") as file:
                stated_hash = file.read(200).split()
        except OSError as error:
            raise GeneratorError(f"cannot be read ({error.strerror})", str(note)) from None
        if not stated_hash or stated_hash[0].lower() != slot.train_hash.encode():
            raise GeneratorError(
                "the release was made from another training file",
                str(self.path / slot.file),
                f"make it from {slot.train}, then {remedy}",
            )

    def _refuse_copies(self, files: Sequence[str]) -> None:
        first: dict[str, str] = {}
        for file in files:
            content = self._hash(file)
            if content and content in first:
                raise GeneratorError(
                    f"{first[content]} and {file} are identical",
                    str(self.path),
                    "put the release of each set beside its own training file, or set"
                    " allow_identical = true if the generator really repeats itself",
                )
            first[content] = file

    def awaited(self, request: Request) -> str | None:
        """Return the file that is still missing; None if it exists."""
        file = self._slot(request).file
        return None if (self.path / file).is_file() else file

    def fingerprint(self, request: Request) -> str:
        """Return the content hash of the release, so that a replaced one is noticed."""
        return self._hash(self._slot(request).file)

    def generate(self, request: Request) -> Sequence[Synthetic]:
        slot = self._slot(request)
        where = str(self.path / slot.file)
        return read_release(self.path / slot.file, request.size, where, of_set=slot.set)

    def _slot(self, request: Request) -> Slot:
        slots = self._slots()
        if (slot := slots.get(ticket_of(request))) is not None:
            return slot
        # The ticket says that the kit is tied, whatever the manifest says that came back with it.
        if (slot := slots.get(ticket_of(request, tied=True))) is not None:
            self._check_made_from(replace(slot, tied=True))
            return slot
        raise GeneratorError(
            "the folder was exported for another plan: another corpus, pool, game, seed,"
            " epsilon or delta",
            str(self.path),
            "export the plan of this spec into a new folder",
        )

    def _slots(self) -> dict[str, Slot]:
        return _index(self.path, self._hash(MANIFEST))

    def _hash(self, name: str) -> str:
        """Return the hash of a file of the folder; one beyond the limit is not read at all."""
        check_release(self.path / name)
        return file_hash(self.path / name)


@lru_cache(maxsize=8)
def _index(folder: Path, manifest: str) -> dict[str, Slot]:
    return {slot.ticket: slot for slot in read_manifest(folder)}
