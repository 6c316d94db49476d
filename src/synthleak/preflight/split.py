"""`synthleak split`: members, holdout and reference, drawn before anything is generated.

    DIR/members.jsonl    make the release from these
    DIR/holdout.jsonl    keep these back: they are the non-members of the check
    DIR/reference.jsonl  if asked for: records that an attacker may know
    DIR/split.json       seed, sizes and what was left out

The null distribution of a check permutes who was in, so the split must be uniform, and all records
of a person must be on one side (docs/method.md §11).
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from synthleak.core.errors import UserError
from synthleak.core.seeds import stream
from synthleak.core.text import fold
from synthleak.corpus.corpus import Record
from synthleak.preflight.files import json_lines, read_source, write_folder

FEWEST = 20
"""Records on a side; fewer could not show a leak."""


@dataclass(frozen=True)
class SplitWritten:
    """How many records are on which side, and what the split was drawn by."""

    members: int
    holdout: int
    reference: int
    groups: int
    repeated: int
    seed: int


def write_split(
    data: Path,
    folder: Path,
    *,
    holdout: float = 0.5,
    reference: float = 0.0,
    fields: Mapping[str, str] | None = None,
    seed: int | None = None,
) -> SplitWritten:
    """Draw who is in and who is held back, whole groups at a time, and write each to a file.

    Of texts that are equal after folding case and white space the first stays: a copy on each side
    would make a non-member a member. Without a seed one is drawn, and recorded.
    """
    if holdout + reference >= 1:
        raise UserError(
            f"{holdout:g} and {reference:g} of the records leave no members",
            "--holdout and --reference",
            "use shares that add up to less than 1",
        )
    seed = secrets.randbits(63) if seed is None else seed
    source = read_source(data, fields or {}, "DATA")
    apart = _different(source.records)
    groups: dict[str, list[int]] = {}
    for place in apart:
        groups.setdefault(source.records[place].group or f"\0{place}", []).append(place)
    drawn = [list(groups.values())[n] for n in stream(seed, "split").permutation(len(groups))]
    held, rest = _first(drawn, round(holdout * len(apart)))
    known, inside = _first(rest, round(reference * len(apart)))
    sides = {"members": inside, "holdout": held, "reference": known}
    places = {name: sorted(n for group in side for n in group) for name, side in sides.items()}
    for name in ("members", "holdout"):
        if len(places[name]) < FEWEST:
            raise UserError(
                f"too few records as {name}: {len(places[name]):,}",
                str(data),
                f"at least {FEWEST} on each side; some hundred are good",
            )
    named = any(source.records[place].group for place in apart)
    sizes = {name: len(side) for name, side in places.items()}
    made = SplitWritten(
        **sizes,
        groups=len(groups) if named else 0,
        repeated=len(source.records) - len(apart),
        seed=seed,
    )
    files = {
        f"{name}.jsonl": json_lines([source.rows[n] for n in side])
        for name, side in places.items()
        if side
    }
    files["split.json"] = (json.dumps(asdict(made), indent=1) + "\n").encode()
    write_folder(folder, files, "a split that a release was made from must not be overwritten")
    return made


def _different(records: Sequence[Record]) -> list[int]:
    """Return the places of the first record of every text."""
    first: dict[str, int] = {}
    for place, record in enumerate(records):
        first.setdefault(fold(record.text), place)
    return list(first.values())


def _first(groups: Sequence[list[int]], size: int) -> tuple[list[list[int]], list[list[int]]]:
    """Part groups into the first ones that hold `size` records, and the rest.

    >>> _first([[1, 2], [3], [4, 5]], 3)
    ([[1, 2], [3]], [[4, 5]])
    """
    count = taken = 0
    while taken < len(groups) and count < size:
        count += len(groups[taken])
        taken += 1
    return list(groups[:taken]), list(groups[taken:])
