"""Tiny corpora, pools and requests for those who test a plug-in."""

from __future__ import annotations

import math
from dataclasses import fields, replace
from functools import lru_cache
from typing import Any

from synthleak.analyses.analysis import Study
from synthleak.analyses.cells import CellRow
from synthleak.core.seeds import stream
from synthleak.corpus.corpus import Corpus, assemble
from synthleak.corpus.readers.demo import Demo
from synthleak.encoders.builtin.hashing import Hashing
from synthleak.pools.pool import Given, Pool, split
from synthleak.pools.selection import Ground
from synthleak.releases.release import Request, public_side

ODD_TEXTS = (
    "",
    "!!!",
    "naïve ÉTÉ 你好 🙂",
    "a",
    "word " * 300,
    "Twice the same.",
    "Twice the same.",
)


@lru_cache(maxsize=8)
def tiny_corpus(size: int = 120, seed: int = 1) -> Corpus:
    """Return a small corpus of invented patient messages.

    Args:
        size: how many records.
        seed: of the demo corpus.
    """
    return assemble(Demo(size=size, seed=seed), name="tiny")


def tiny_pool(corpus: Corpus | None = None) -> Pool:
    """Return ten targets with candidates and auxiliary records.

    Args:
        corpus: where they are from; `tiny_corpus()` if none is given.
    """
    corpus = corpus or tiny_corpus()
    return split(corpus, "tiny", range(0, len(corpus), len(corpus) // 10), auxiliary=0.5, seed=1)


def tiny_ground(seed: int = 1) -> Ground:
    """Return what a pool rule may look at; the pool `earlier` is taken.

    Args:
        seed: of the randomness that the rule is given.
    """
    corpus = tiny_corpus()
    vectors = Hashing().encode([record.text for record in corpus.records])
    return Ground(corpus, vectors.copy, {"earlier": (3, 14, 15)}, stream(seed, "tiny"))


def tiny_request(
    *, epsilon: float = float("inf"), seed: int = 1, size: int = 12, nominal: int = 24
) -> Request:
    """Return a set of private records to make a release from.

    Args:
        epsilon: the budget.
        seed: of the release.
        size: texts that are asked for.
        nominal: how many private records there are.
    """
    corpus = tiny_corpus()
    pool = tiny_pool(corpus)
    records = [corpus.records[position] for position in pool.candidates[:nominal]]
    public = public_side([corpus.records[p] for p in pool.auxiliary], corpus.combinations)
    return Request(
        records=tuple(records),
        nominal=nominal,
        size=size,
        epsilon=epsilon,
        delta=1 / nominal**2,
        public=public,
        seed=seed,
    )


def tiny_study() -> Study:
    """Return the tables of a small audit, made by hand."""
    samples: dict[str, Any] = {"str": "x", "int": 3, "float": 0.5}
    plain = {
        column.name: samples[str(column.type).removesuffix(" | None")] for column in fields(CellRow)
    }
    cells = [
        CellRow(**(plain | {"epsilon": epsilon, "scenario": scenario, "view": view}))
        for epsilon in (math.inf, 1.0)
        for scenario, view in (("S1", "lexical"), ("S2", "embedding"))
    ]
    return Study(tuple(cells), ())


def given_pool(pool: Pool) -> Pool:
    """Return the pool with every other target as a member."""
    member = tuple(place % 2 == 0 for place in range(len(pool.targets)))
    inside = [target for target, was in zip(pool.targets, member, strict=True) if was]
    return replace(
        pool,
        candidates=tuple(sorted({*pool.candidates, *inside})),
        given=Given(member, tuple(range(len(member))), coins=False),
    )
