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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from synthleak.core.errors import UserError
from synthleak.core.seeds import stream
from synthleak.core.text import fold
from synthleak.corpus.corpus import Corpus
from synthleak.pools.rule import Material
from synthleak.pools.rules.canary import Canary
from synthleak.preflight.files import built, json_lines, read_source, write_folder

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
    rule = built(Canary, {"size": size, "prefix": prefix, "words": words})
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
        "train.jsonl": json_lines(_inserted(train.rows, [(places[n], rows[n]) for n in joined])),
        "members.jsonl": json_lines(heads),
        "holdout.jsonl": json_lines(tails),
        "reference.jsonl": json_lines(source.rows),
        "coins.json": (json.dumps(recorded, indent=1, ensure_ascii=False) + "\n").encode(),
    }
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
