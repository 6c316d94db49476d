"""A commitment: one hash of an audit's question, to be filed before anything is generated.

It covers settings, seed, corpus, plug-ins, programs, pools, plan with its coins, and the gate. The
hash can be published: a random nonce, kept in the commitment's file, hides what went into it. What
it shows, and what it does not: docs/sign-off.md.
"""

from __future__ import annotations

import gzip
import json
import re
import secrets
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError

import synthleak
from synthleak.analyses.cells import CellRow
from synthleak.audit.folder import COMMITMENT, RunFolder
from synthleak.audit.gate import failing, missing, parse_gate
from synthleak.audit.setup import Setup, identity_of
from synthleak.audit.stages import set_up
from synthleak.core.errors import StoreError, UserError
from synthleak.core.locations import Location, write_file
from synthleak.core.reading import RECORD, check_file
from synthleak.core.seeds import sha256_of
from synthleak.core.spec import LoadedSpec, Spec, as_loaded
from synthleak.core.store import MemoryStore
from synthleak.report.results import Committed

_HASH = "^[0-9a-f]{64}$"
_Hash = Annotated[str, Field(pattern=_HASH)]


class Commitment(BaseModel):
    """The parts of an audit's question, each as a salted hash, and one hash over all of them.

    Keep the file to itself: with the nonce, guesses about coins and records can be tried. The hash
    alone says nothing about them.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    hash: _Hash
    """What is filed: the SHA-256 of all the rest."""
    synthleak: str
    committed: AwareDatetime
    """When it was made, by the clock of the machine; trusted time comes from the filing."""
    gate: str | None
    nonce: _Hash
    parts: dict[str, _Hash]

    @property
    def at(self) -> str:
        return f"{self.committed.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"

    def to_bytes(self) -> bytes:
        return (self.model_dump_json(indent=1) + "\n").encode()

    def differences(self, setup: Setup, manifest: Mapping[str, Any] | None = None) -> list[str]:
        """Name the parts in which an audit is not the committed one.

        Args:
            setup: The audit, set up from its spec.
            manifest: The manifest of its run folder, if there is one: the results must be of the
                same version of synthleak, and not older than the commitment.
        """
        now = _hashes(setup, self.nonce)
        differing = [
            name for name in {**self.parts, **now} if self.parts.get(name) != now.get(name)
        ]
        by = synthleak.__version__ if manifest is None else manifest["synthleak"]
        if by != self.synthleak:
            differing.append(f"version of synthleak (committed {self.synthleak}, made by {by})")
        finished_at = (manifest or {}).get("made")
        if finished_at and datetime.fromisoformat(finished_at) < self.committed:
            differing.append("time (the audit was finished before)")
        return differing

    def on(self, rows: Sequence[CellRow]) -> Committed:
        """Return hash, time and gate, with how the gate ends on these rows of `cells.csv`."""
        if self.gate is None:
            return Committed(self.hash, self.at, None, 0, len(rows))
        gate = parse_gate(self.gate)
        failed = len(failing(gate, rows))
        return Committed(self.hash, self.at, self.gate, failed, len(rows), missing(gate, rows))

    def check(self, setup: Setup, folder: RunFolder) -> None:
        """Refuse an audit that is not the committed one, and a folder with another commitment."""
        manifest = folder.manifest()
        finished = manifest if manifest and manifest["findings"] is not None else None
        if differing := self.differences(setup, finished):
            raise UserError(
                f"the audit is not the committed one: these differ: {', '.join(differing)}",
                str(folder.root),
                "restore what was committed, or commit again and say so",
            )
        kept = kept_commitment(folder)
        if kept is not None and kept.hash != self.hash:
            raise StoreError(
                f"the folder keeps another commitment ({kept.hash[:16]}…)",
                str(folder.root),
                "choose another folder",
            )


def commit(
    spec: Spec | LoadedSpec | Path | str, out: Path | str | None = None, *, gate: str | None = None
) -> Commitment:
    """Commit to an audit before anything is generated: read the corpus, draw pools and plan.

    Args:
        spec: The spec of the audit, or its file.
        out: A file to write the commitment to. The hash can be checked later only with this file,
            so one that exists is not replaced.
        gate: A condition on rows of `cells.csv`, as `--fail-if` takes it.

    Returns:
        The commitment; file its `hash`.

    Raises:
        UserError: If the spec cannot be run, the gate is not a condition, or `out` exists.

    >>> from synthleak import commit
    >>> commit("audit.toml", "audit.commitment.json", gate="leak_found").hash  # doctest: +SKIP
    """
    if out is not None and Path(out).exists():
        raise UserError(
            "the file exists, and a hash that was filed cannot be checked without its file",
            str(out),
            "choose another name",
        )
    condition = None if gate is None else parse_gate(gate).text
    nonce = secrets.token_hex(32)
    content = {
        "synthleak": synthleak.__version__,
        "committed": datetime.now(UTC).replace(microsecond=0),
        "gate": condition,
        "nonce": nonce,
        "parts": _hashes(set_up(as_loaded(spec), MemoryStore()), nonce),
    }
    commitment = Commitment.model_validate({**content, "hash": _hash_of(content)})
    if out is not None:
        write_file(Path(out), commitment.to_bytes())
    return commitment


def is_commitment_hash(text: str) -> bool:
    return re.fullmatch(_HASH, text) is not None


def read_commitment(path: Location) -> Commitment:
    """Read the file of a commitment; one that was altered is refused."""
    if isinstance(path, Path):
        check_file(path, RECORD, UserError, "name a file that `synthleak plan commit` wrote")
    try:
        commitment = Commitment.model_validate_json(path.read_bytes())
    except (OSError, ValidationError):
        raise UserError(
            "not a commitment", str(path), "name a file that `synthleak plan commit` wrote"
        ) from None
    if _hash_of(commitment.model_dump(exclude={"hash"})) != commitment.hash:
        raise UserError("the commitment was altered: its hash is another", str(path))
    return commitment


def kept_commitment(folder: RunFolder) -> Commitment | None:
    path = folder.root / COMMITMENT
    return read_commitment(path) if path.is_file() else None


def _hash_of(content: Mapping[str, Any]) -> str:
    return sha256_of("commitment", {**content, "committed": content["committed"].isoformat()})


def _hashes(setup: Setup, nonce: str) -> dict[str, str]:
    return {name: sha256_of(nonce, name, part) for name, part in _parts(setup).items()}


def _parts(setup: Setup) -> dict[str, Any]:
    """Return what is committed to, by the name under which a difference is reported."""
    return {
        **identity_of(setup),
        "analyses": setup.spec.analyses.model_dump(),
        "public side": [setup.corpus.description, {n: p.key for n, p in setup.publics.items()}],
        "plug-in files": [file.code.hex() for file in setup.files],
        "pool members": {name: pool.to_bytes().decode() for name, pool in setup.pools.items()},
        "plan": {
            name: json.loads(gzip.decompress(plan.to_bytes())) for name, plan in setup.plans.items()
        },
    }
