"""A description of a spec's corpus and pools: `synthleak corpus`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from synthleak.audit.inputs import Inputs
from synthleak.audit.setup import read, select
from synthleak.core.spec import load_spec
from synthleak.core.store import MemoryStore, Store
from synthleak.corpus.near_duplicates import THRESHOLD, near_duplicates
from synthleak.corpus.statistics import (
    TOKENIZER,
    Band,
    Combination,
    Statistics,
    frequency_bands,
    ranked_combinations,
    statistics_of,
)
from synthleak.pools.overlaps import Overlap, overlaps_of
from synthleak.pools.pool import Pool, describe

MOST_COMPARED = 150_000
"""Number of records above which near-duplicates are not counted: every pair is compared."""


@dataclass(frozen=True)
class NearDuplicates:
    """The number of records that another nearly repeats; None where they were not counted."""

    records: int | None
    cosine: float
    encoder: str


@dataclass(frozen=True)
class Survey:
    """The corpus that was read, and the pools that the spec selects from it."""

    name: str
    description: str
    tokenizer: str
    statistics: Statistics
    near_duplicates: NearDuplicates
    combinations: tuple[Combination, ...]
    frequencies: tuple[Band, ...]
    pools: tuple[dict[str, Any], ...]
    overlaps: tuple[Overlap, ...]


def survey(spec: Path | str) -> Survey:
    """Read the corpus of a spec, select its pools, and describe both; nothing is written."""
    inputs, store = read(load_spec(spec)), MemoryStore()
    corpus, pools = inputs.corpus, select(inputs, store)
    combinations = ranked_combinations(corpus)
    return Survey(
        name=corpus.name,
        description=corpus.description,
        tokenizer=TOKENIZER,
        statistics=statistics_of(corpus),
        near_duplicates=_near(inputs, store),
        combinations=tuple(combinations),
        frequencies=tuple(frequency_bands(combinations)),
        pools=tuple(_pool_rows(inputs, pools)),
        overlaps=tuple(overlaps_of(pools)),
    )


def _near(inputs: Inputs, store: Store) -> NearDuplicates:
    found = None
    if len(inputs.corpus) <= MOST_COMPARED:
        found = int(near_duplicates(inputs.vectors(store)).sum())
    return NearDuplicates(found, THRESHOLD, inputs.plugins.pool_encoder.kind)


def _pool_rows(inputs: Inputs, pools: Mapping[str, Pool]) -> list[dict[str, Any]]:
    """Return a row per pool; one that was left out is empty."""
    empty = {"candidates": None, "auxiliary": None}
    return [
        {"pool": name, "rule": order.rule.kind}
        | (describe(pools[name]) if name in pools else {"targets": 0, **empty})
        for order in inputs.plugins.orders
        for name in order.names()
    ]
