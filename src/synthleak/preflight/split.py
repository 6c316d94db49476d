"""Records drawn before a release is generated: `synthleak split` and `synthleak canaries`.

`split` draws members, holdout and reference:

    DIR/members.jsonl    make the release from these
    DIR/holdout.jsonl    keep these back: they are the non-members of the check
    DIR/reference.jsonl  if asked for: records that an attacker may know
    DIR/split.json       seed, sizes and what was left out

The null distribution of a check permutes who was in, so the split must be uniform, and all records
of a person must be on one side (docs/method.md §11).

`canaries` writes canaries with recorded coins, for a data owner who trains once:

    DIR/train.jsonl      the data, with the canaries whose coin fell heads: train on this
    DIR/members.jsonl    those canaries
    DIR/holdout.jsonl    the canaries whose coin fell tails: nobody trains on them
    DIR/reference.jsonl  the records that the canaries were written from
    DIR/coins.json       seed, settings and every coin

One training run and one release then give a bound on ε: `synthleak check --coins` counts the coins
(docs/method.md §11, §13).
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import Any

from synthleak.core.errors import CorpusError, StoreError, UserError
from synthleak.core.reading import within_limits
from synthleak.core.seeds import stream
from synthleak.core.text import fold
from synthleak.core.whole_files import whole_folder, write_whole, writing
from synthleak.corpus.corpus import Corpus, Record
from synthleak.corpus.rows import Numbered
from synthleak.corpus.sources import Fields, numbered_rows, part_of, source_of
from synthleak.pools.rules.canary import Canary
from synthleak.pools.selection import Material


@dataclass(frozen=True)
class Source:
    """A file of the data owner: its rows as they are, and as records."""

    rows: Sequence[Mapping[str, Any]]
    records: Sequence[Record]

    def part(self, positions: Sequence[int]) -> Source:
        return Source([self.rows[n] for n in positions], [self.records[n] for n in positions])


def read_source(data: Any, named: Mapping[str, str], option: str) -> Source:
    """Read the rows of a file, or of what is in memory; texts that stand there twice stay."""
    path = source_of(data, option)
    for field in named.values():
        if [*named.values()].count(field) > 1:
            *most, last = named
            raise UserError(f"two of {', '.join(most)} and {last} are the field {field!r}", option)
    fields = Fields.from_settings({**named, "path": path if isinstance(path, Path) else "."})
    rows: list[dict[str, Any]] = []

    def noted() -> Iterator[Numbered]:
        for number, where, row in numbered_rows(path, text=fields.text, key=option):
            rows.append(dict(row))
            yield number, where, row

    try:
        return Source(rows, list(within_limits(fields.records(noted()), option, str(path))))
    except CorpusError as error:
        remedy = error.remedy and error.remedy.replace("set corpus.", "set --")
        raise CorpusError(error.what, error.where, remedy) from None


def json_lines(rows: Sequence[Mapping[str, Any]]) -> bytes:
    return "".join(json.dumps(row, ensure_ascii=False, default=str) + "\n" for row in rows).encode(
        errors="backslashreplace"
    )


def write_folder(folder: Path, files: Mapping[str, bytes], why: str) -> None:
    """Write a folder that does not exist yet: whole, for the owner's eyes only, or not at all.

    `why` says why files that are there must not be overwritten.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise StoreError("the folder is not empty", str(folder), f"choose another: {why}")
    with writing(folder), whole_folder(folder) as aside:
        for name, content in files.items():
            write_whole(aside / name, content)


FEWEST = 20
"""Records on a side; fewer could not show a leak."""


@dataclass(frozen=True)
class Split:
    """Records that were split at random, each part of the kind that the data were.

    Attributes:
        members: make the release from these alone.
        holdout: keep these back: they are the non-members of the check.
        reference: records that an attacker may know; as many as were asked for.
        groups: how many groups of records were kept together; 0 if none were named.
        repeated: how many records were left out because their text stood there before.
        seed: by which the split was drawn.
    """

    members: Any
    holdout: Any
    reference: Any
    groups: int
    repeated: int
    seed: int

    @property
    def counts(self) -> dict[str, int]:
        sides = {name: len(getattr(self, name)) for name in ("members", "holdout", "reference")}
        return sides | {"groups": self.groups, "repeated": self.repeated, "seed": self.seed}


def split(
    data: Any,
    out: Path | str | None = None,
    *,
    holdout: float = 0.5,
    reference: float = 0.0,
    text: str = "text",
    id: str = "id",
    group: str = "group",
    seed: int | None = None,
) -> Split:
    """Split records at random, before a release is made from some of them.

    Of texts that are equal after folding case and white space the first stays: a copy on each side
    would make a non-member a member. All records of a person stay on one side.

    Args:
        data: A path, a list of texts or of dicts, a pandas or polars frame or column, an Arrow
            table or a `datasets` dataset.
        out: A new folder for `members.jsonl`, `holdout.jsonl` and `split.json`, if it is to be
            kept.
        holdout: Share of the records that is held back.
        reference: Share that an attacker may know.
        text: The field of the text.
        id: The field of the records' names.
        group: The field of what keeps records together, such as a person.
        seed: Seed of the draw; drawn and recorded by default.

    Returns:
        The parts, each of the kind that the data are; of a file, dicts.

    Raises:
        UserError: If the data cannot be read, or a side would have too few records.

    >>> import synthleak
    >>> parts = synthleak.split([f"text number {n}" for n in range(60)], seed=1)
    >>> len(parts.members), len(parts.holdout), parts.reference
    (30, 30, [])
    """
    if not (0 < holdout < 1 and 0 <= reference < 1 and holdout + reference < 1):
        raise UserError(
            f"{holdout:g} and {reference:g} of the records leave no members",
            "--holdout and --reference",
            "use shares that add up to less than 1",
        )
    seed = secrets.randbits(63) if seed is None else seed
    in_file = isinstance(data, str | Path)
    data = list(data) if isinstance(data, Iterator) else data  # which can be read once only
    source = read_source(data, {"id": id, "text": text, "group": group}, "DATA")
    groups = _groups(source.records)
    distinct = sum(map(len, groups))
    drawn = [groups[n] for n in stream(seed, "split").permutation(len(groups))]
    held_back, rest = _first(drawn, round(holdout * distinct))
    referenced, inside = _first(rest, round(reference * distinct))
    sides = {"members": inside, "holdout": held_back, "reference": referenced}
    positions = {name: sorted(n for group in side for n in group) for name, side in sides.items()}
    for name in ("members", "holdout"):
        if len(positions[name]) < FEWEST:
            raise UserError(
                f"too few records as {name}: {len(positions[name]):,}",
                str(data) if in_file else "DATA",
                f"at least {FEWEST} on each side; some hundred are good",
            )
    parts = Split(
        **{n: part_of(source.rows if in_file else data, side) for n, side in positions.items()},
        groups=len(groups) if any(source.records[n].group for n, *_ in groups) else 0,
        repeated=len(source.records) - distinct,
        seed=seed,
    )
    if out is not None:
        files = {
            f"{name}.jsonl": json_lines([source.rows[n] for n in side])
            for name, side in positions.items()
            if side
        }
        files["split.json"] = (json.dumps(parts.counts, indent=1) + "\n").encode()
        why = "a split that a release was made from must not be overwritten"
        write_folder(Path(out), files, why)
    return parts


def _groups(records: Sequence[Record]) -> list[list[int]]:
    """Return the positions of different texts, those of a group together."""
    first: dict[str, int] = {}
    for position, record in enumerate(records):
        first.setdefault(fold(record.text), position)
    groups: dict[str, list[int]] = {}
    for position in first.values():
        groups.setdefault(records[position].group or f"\0{position}", []).append(position)
    return list(groups.values())


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


HELD_BACK = 0.1
"""Of the data, how much gives the canaries their words and is not trained on."""
SURE = 0.9
"""Of the canaries that there are words for, how many are advised: other draws have fewer words."""
LARGEST_SHARE = 0.1
"""Of the training data, how much the canaries that join may be (docs/method.md §4.3)."""


@dataclass(frozen=True)
class CanariesWritten:
    """What was written, and how the coins fell."""

    folder: Path
    trained: int
    members: int
    holdout: int
    held_back: int
    seed: int


def canaries(
    data: Any,
    folder: Path | str,
    *,
    auxiliary: Any = None,
    size: int = 60,
    kinds: Sequence[str] = ("text",),
    prefix: float = 0.6,
    words: int | None = None,
    fields: Mapping[str, str] | None = None,
    seed: int | None = None,
) -> CanariesWritten:
    """Write canaries from the auxiliary records, toss a coin for each, and put the winners in.

    Texts and places come first and the coins last, each from a random stream of its own, so that
    nothing but membership depends on a coin. Without `auxiliary` a tenth of the data is held back
    for it.

    Args:
        data: The records that will be trained on: a path, or what `split` takes.
        folder: A new folder: train on its `train.jsonl`, once, and make one release.
        auxiliary: Records of the same kind, not trained on, to write canaries from.
        size: How many canaries.
        kinds: What makes a canary one, by turns: `text`, `character`, `word`, `long` or `label`.
        prefix: Share of ordinary words in a canary.
        words: Words per canary; the median of the records by default.
        fields: The fields of `id`, `text` and `labels`, where they have other names.
        seed: Seed of all draws; drawn and recorded by default. Who knows it knows the coins.

    Returns:
        What was written, and how the coins fell.

    Raises:
        UserError: If the data cannot be read, or so many canaries cannot be written.

    >>> import synthleak
    >>> synthleak.canaries("records.jsonl", "canaries", size=200)  # doctest: +SKIP
    """
    seed = secrets.randbits(63) if seed is None else seed
    named = {"id": "id", "text": "text", "labels": "labels", **(fields or {})}
    train = read_source(data, named, "--data")
    if auxiliary is not None:
        source, held = read_source(auxiliary, named, "--auxiliary"), 0
        asked = {fold(record.text) for record in train.records}
        apart = [n for n, r in enumerate(source.records) if fold(r.text) not in asked]
        source = source.part(apart)
    else:
        order = stream(seed, "held back").permutation(len(train.rows)).tolist()
        held = round(HELD_BACK * len(order))
        source, train = train.part(sorted(order[:held])), train.part(sorted(order[held:]))
    if len(source.records) < 2 or not train.records:
        raise UserError(
            f"too few records: {len(train.records):,} to train on, {len(source.records):,} to write"
            " canaries from",
            "--data" if auxiliary is None else "--auxiliary",
            "give some hundred records of each",
        )
    corpus = Corpus("data", tuple(train.records))
    rule = Canary.from_settings({"size": size, "kind": kinds, "prefix": prefix, "words": words})
    for_words, at_most = rule.most(source.records), int(2 * LARGEST_SHARE * len(train.rows))
    if size > min(for_words, at_most):
        why = (
            f"(half of them join) are too many for {len(train.rows):,} records"
            if at_most < for_words
            else f"are too many for the rare words of {len(source.records):,} records"
        )
        fits = int(min(SURE * for_words, at_most))
        remedy = f"use at most {fits:,}" if fits >= 2 else "give some hundred records"
        raise UserError(f"{size:,} canaries {why}", "--size", remedy)
    texts = rule.write(
        Material(corpus, source.records, train.records, stream(seed, "written", "canaries"))
    )
    rows = _rows(texts, named, {record.id for record in (*train.records, *source.records)})
    places = stream(seed, "places").integers(len(train.rows) + 1, size=size).tolist()
    coins = [bool(coin) for coin in stream(seed, "coins", "canaries").integers(0, 2, size=size)]
    # A canary stands before the row whose number it drew.
    ranked = [((n, 1, 0), row) for n, row in enumerate(train.rows)]
    ranked += [((places[n], 0, n), rows[n]) for n in range(size) if coins[n]]
    heads = [rows[n] for n in range(size) if coins[n]]
    tails = [rows[n] for n in range(size) if not coins[n]]
    recorded = {
        "seed": seed,
        "size": size,
        "kinds": list(kinds),
        "prefix": prefix,
        "words": words,
        "held_back": held,
        "coins": {row[named["id"]]: coin for row, coin in zip(rows, coins, strict=True)},
    }
    files = {
        "train.jsonl": json_lines([row for _, row in sorted(ranked, key=itemgetter(0))]),
        "members.jsonl": json_lines(heads),
        "holdout.jsonl": json_lines(tails),
        "reference.jsonl": json_lines(source.rows),
        "coins.json": (json.dumps(recorded, indent=1, ensure_ascii=False) + "\n").encode(),
    }
    folder = Path(folder)
    write_folder(folder, files, "coins that a model was trained with must not be overwritten")
    return CanariesWritten(folder, len(train.rows) + len(heads), len(heads), len(tails), held, seed)


def _rows(
    texts: Sequence[tuple[str, Sequence[str]]], named: Mapping[str, str], taken: set[str]
) -> list[dict[str, Any]]:
    """Return the canaries as rows of the data, with ids that the data do not have."""
    width, title = len(str(len(texts))), "canary"
    while any(f"{title}-{n:0{width}d}" in taken for n in range(1, len(texts) + 1)):
        title += "-x"
    return [
        {
            named["id"]: f"{title}-{n:0{width}d}",
            named["text"]: text,
            named["labels"]: list(labels),
        }
        for n, (text, labels) in enumerate(texts, start=1)
    ]
