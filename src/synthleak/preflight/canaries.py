"""`synthleak canaries`: canaries with recorded coins, for a data owner who trains once.

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
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from synthleak.core.errors import CorpusError, StoreError, UserError
from synthleak.core.limits import counted
from synthleak.core.registry import Plugin
from synthleak.core.seeds import stream
from synthleak.core.store import cannot_write, write_whole
from synthleak.core.text import fold
from synthleak.core.validation import spec_error
from synthleak.corpus.corpus import Corpus, Record
from synthleak.corpus.sources import Fields, numbered_rows
from synthleak.pools.rule import Material
from synthleak.pools.rules.canary import Canary

P = TypeVar("P", bound=Plugin)

HELD_BACK = 0.1
"""Of the data, how much gives the canaries their words and is not trained on."""
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


@dataclass(frozen=True)
class Source:
    """A file of the data owner: its rows as they are, and as records."""

    rows: Sequence[Mapping[str, Any]]
    records: Sequence[Record]

    def part(self, places: Sequence[int]) -> Source:
        """Return some of the rows."""
        return Source([self.rows[n] for n in places], [self.records[n] for n in places])


def write_canaries(
    data: Path,
    folder: Path,
    *,
    auxiliary: Path | None = None,
    size: int = 60,
    prefix: float = 0.6,
    words: int | None = None,
    fields: Mapping[str, str] | None = None,
    seed: int | None = None,
) -> CanariesWritten:
    """Write canaries from the auxiliary records, toss a coin for each, and put the winners in.

    Texts and places come first and the coins last, each from a random stream of its own, so that
    nothing but membership depends on a coin. Without `auxiliary` a tenth of the data is held back
    for it. Without a seed one is drawn, and recorded: who knows it knows the coins.
    """
    seed = secrets.randbits(63) if seed is None else seed
    named = {"id": "id", "text": "text", "labels": "labels", **(fields or {})}
    train = _read(data, named, "--data")
    if auxiliary is not None:
        source, held = _read(auxiliary, named, "--auxiliary"), 0
        asked = {fold(record.text) for record in train.records}
        apart = [n for n, r in enumerate(source.records) if fold(r.text) not in asked]
        source = source.part(apart)
    else:
        order = stream(seed, "held back").permutation(len(train.rows)).tolist()
        held = round(HELD_BACK * len(order))
        source, train = train.part(sorted(order[:held])), train.part(sorted(order[held:]))
    if len(source.records) < 2 or not train.records:
        raise UserError(
            f"{len(train.records):,} records to train on and {len(source.records):,} to write"
            " canaries from are too few",
            str(auxiliary or data),
            "give some hundred records of each",
        )
    if size / 2 > LARGEST_SHARE * len(train.rows):
        raise UserError(
            f"{size:,} canaries, half of which join, are too many for {len(train.rows):,} records",
            "--size",
            f"use at most {len(train.rows) // 5:,}",
        )
    corpus = Corpus("data", tuple(train.records))
    rule = _built(Canary, {"size": size, "prefix": prefix, "words": words})
    texts = rule.write(
        Material(corpus, source.records, train.records, stream(seed, "written", "canaries"))
    )
    rows = _rows(texts, named, {record.id for record in (*train.records, *source.records)})
    places = stream(seed, "places").integers(len(train.rows) + 1, size=size).tolist()
    coins = [bool(coin) for coin in stream(seed, "coins", "canaries").integers(0, 2, size=size)]
    joined = sorted((n for n, coin in enumerate(coins) if coin), key=lambda n: (places[n], n))
    heads = [rows[n] for n in range(size) if coins[n]]
    tails = [rows[n] for n in range(size) if not coins[n]]
    recorded = {
        "seed": seed,
        "size": size,
        "prefix": prefix,
        "words": words,
        "held_back": held,
        "coins": {row[named["id"]]: coin for row, coin in zip(rows, coins, strict=True)},
    }
    files = {
        "train.jsonl": _lines(_inserted(train.rows, [(places[n], rows[n]) for n in joined])),
        "members.jsonl": _lines(heads),
        "holdout.jsonl": _lines(tails),
        "reference.jsonl": _lines(source.rows),
        "coins.json": (json.dumps(recorded, indent=1, ensure_ascii=False) + "\n").encode(),
    }
    _write(folder, files)
    return CanariesWritten(folder, len(train.rows) + len(heads), len(heads), len(tails), held, seed)


def _read(path: Path, named: Mapping[str, str], option: str) -> Source:
    """Read the rows of a file; texts that stand there twice stay, since they are trained on."""
    for field in named.values():
        if [*named.values()].count(field) > 1:
            raise UserError(f"two of id, text and labels are the field {field!r}", "canaries")
    fields = _built(Fields, named)
    rows: list[dict[str, Any]] = []

    def records() -> Iterator[Record]:
        for number, where, row in numbered_rows(path, text=named["text"], key=option):
            record = fields.record(row, number, where)
            rows.append(dict(row))
            yield record

    try:
        return Source(rows, list(counted(records(), option, str(path))))
    except CorpusError as error:
        remedy = error.remedy and error.remedy.replace("set corpus.", "set --")
        raise CorpusError(error.what, error.where, remedy) from None


def _built(kind: type[P], settings: Mapping[str, Any]) -> P:
    """Return a plug-in with its settings, or say in one line what is wrong with them."""
    try:
        return kind.model_validate(settings)
    except ValidationError as error:
        raise spec_error(error, (), kind.model_fields) from None


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


def _inserted(
    rows: Sequence[Mapping[str, Any]], joining: Sequence[tuple[int, Mapping[str, Any]]]
) -> list[Mapping[str, Any]]:
    """Put rows between others, each before the place that it was given.

    >>> _inserted([{"a": 0}, {"a": 1}], [(0, {"b": 0}), (2, {"b": 1})])
    [{'b': 0}, {'a': 0}, {'a': 1}, {'b': 1}]
    """
    made: list[Mapping[str, Any]] = []
    start = 0
    for place, row in joining:
        made += [*rows[start:place], row]
        start = place
    return [*made, *rows[start:]]


def _lines(rows: Sequence[Mapping[str, Any]]) -> bytes:
    return "".join(json.dumps(row, ensure_ascii=False, default=str) + "\n" for row in rows).encode(
        errors="backslashreplace"
    )


def _write(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write a folder that does not exist yet: whole, for the owner's eyes only, or not at all."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise StoreError(
            "the folder is not empty",
            str(folder),
            "choose another: coins that a model was trained with must not be overwritten",
        )
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        # Made aside and moved into place; what was left by one that was killed goes first.
        aside = folder.parent / f".{folder.name}.part"
        shutil.rmtree(aside, ignore_errors=True)
        aside.mkdir(mode=0o700)
        try:
            for name, content in files.items():
                write_whole(aside / name, content)
            aside.replace(folder)
        except BaseException:
            shutil.rmtree(aside, ignore_errors=True)
            raise
    except OSError as error:
        raise cannot_write(folder, error) from None
