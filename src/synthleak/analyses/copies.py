"""Copies: which records the release repeats word for word, or nearly (docs/method.md §11).

A verbatim copy is worrying without any statistics, so copies come first. The holdout is the
control: texts that repeat by coincidence or by habit (a form letter, a greeting) are copied from
members and holdout alike; only a surplus among members shows that the release copies them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from synthleak.core.cell import CellColumns
from synthleak.core.text import fold
from synthleak.evidence.fast.grams import distinct_grams, shared_grams
from synthleak.evidence.fast.retrieval import retrieve
from synthleak.evidence.observation import BLOCK, Floats, Observation, Targets
from synthleak.evidence.table import starts_of
from synthleak.metrics.null import p_value
from synthleak.plan.given import permuted

NEAR = 0.8
"""Two texts that share this part of their character 5-grams (Jaccard) differ in a word or two."""
PERMUTATIONS = 1999
PRINTED_LEVEL = 0.01
"""The level of copies, and of disclosures, over all cells: a headline is wrong in 7% at most."""
COPIES_VERSION = 1


@dataclass(frozen=True)
class CopyRow(CellColumns):
    """A row of `copies.csv`: a record that the release repeats, and the row that repeats it.

    `side` is members or holdout; `row` counts the records of the release from 1, and is the most
    similar of them; `similarity` is the Jaccard similarity of character 5-grams.
    """

    side: str
    record: str
    row: int
    kind: str
    similarity: float
    person: str = ""


@dataclass(frozen=True)
class NearestRow(CellColumns):
    """A row of `nearest.csv`: one of the synthetic records that are most like a named record.

    `release` is the set of the plan that it was made from; of several with the record, that in
    which the deciding signal scores the record highest. `row` counts its records from 1, `rank`
    the most similar ones; `similarity` is the Jaccard similarity of character 5-grams.
    """

    record: str
    release: str
    rank: int
    row: int
    similarity: float


@dataclass(frozen=True)
class Copy:
    """One record that the release repeats: where, and how nearly.

    `target` is its place among all records of the targets, target by target.
    """

    target: int
    row: int
    verbatim: bool
    similarity: float


@dataclass(frozen=True)
class Copies:
    """The copies in one release; `found` are records, all counts are of targets on both sides.

    `p_…` is the probability of at least this surplus of copied members under a random split, for
    verbatim copies and for all (which an audit adjusts for its cells); `looked` says whether
    near-verbatim copies were searched for.
    `rows` is the share of the rows that are private records word for word.

    In a game `members` are targets that were in some release and `holdout` those that were out of
    some: a target counts on either side if one release copies it. Nothing is `found` then.
    """

    found: tuple[Copy, ...]
    members: int
    holdout: int
    verbatim: tuple[int, int]
    near: tuple[int, int]
    p_verbatim: float
    p_all: float
    looked: bool
    rows: float | None = None

    @property
    def copied(self) -> tuple[int, int]:
        """How many members and how many holdout records are copied, verbatim or nearly."""
        return self.verbatim[0] + self.near[0], self.verbatim[1] + self.near[1]

    @property
    def exceed(self) -> bool:
        return exceeds_chance(self.p_all)


def exceeds_chance(p: float | None) -> bool:
    """Say whether the adjusted p of a surplus of copies or disclosures is small enough to tell."""
    return p is not None and p <= PRINTED_LEVEL


def find_copies(
    texts: Sequence[str],
    release: Sequence[str],
    overlap: Floats | None,
    member: NDArray[np.bool_],
    readings: Sequence[NDArray[np.integer]],
    rng: np.random.Generator,
    sizes: Sequence[int] | None = None,
) -> Copies:
    """Return the copies of targets in a release, in the targets' order.

    `overlap` is the proxy jaccard_max of each text; near copies are searched for among texts with a
    high value. Without it only verbatim copies are found. `readings` number the block of each
    target, which a split keeps whole: the larger p counts. Where targets are persons, `sizes` says
    how many of the texts are whose; a person is copied if one of them is.
    """
    first: dict[str, int] = {}
    for number, text in enumerate(release, start=1):
        first.setdefault(fold(text), number)
    rows = [first.get(fold(text)) for text in texts]
    exact = np.array([row is not None for row in rows])
    copies = [Copy(at, row, True, 1.0) for at, row in enumerate(rows) if row is not None]
    if overlap is not None:
        places = np.flatnonzero((overlap >= NEAR) & ~exact).tolist()
        nearest = nearest_rows([texts[at] for at in places], release)
        copies += [
            Copy(at, row, False, similarity)
            for at, ((row, similarity),) in zip(places, nearest, strict=True)
        ]
    every = np.zeros(len(texts), dtype=np.bool_)
    every[[copy.target for copy in copies]] = True
    if sizes is not None:
        starts = starts_of(sizes)
        exact, every = (np.logical_or.reduceat(copied, starts) for copied in (exact, every))
    return Copies(
        found=tuple(sorted(copies, key=lambda copy: copy.target)),
        members=int(member.sum()),
        holdout=int((~member).sum()),
        verbatim=(int((exact & member).sum()), int((exact & ~member).sum())),
        near=(int((every & ~exact & member).sum()), int((every & ~exact & ~member).sum())),
        p_verbatim=max(surplus_p(exact, member, block, rng) for block in readings),
        p_all=max(surplus_p(every, member, block, rng) for block in readings),
        looked=overlap is not None,
    )


def nearest_rows(
    texts: Sequence[str], release: Sequence[str], count: int = 1
) -> list[list[tuple[int, float]]]:
    """Return the `count` rows of a release, from 1, most similar to each text, and how similar.

    Rows are retrieved by BM25 and compared by the Jaccard similarity of character 5-grams.

    >>> release = ["well again", "a cold since March", "no cold"]
    >>> [row for row, _ in nearest_rows(["a cold since May"], release, 2)[0]]
    [2, 3]
    """
    order = sorted(range(len(release)), key=lambda row: (fold(release[row]), release[row]))
    observation = Observation(release, _no_vectors)
    nearest: list[list[tuple[int, float]]] = []
    for start in range(0, len(texts), BLOCK):
        targets = Targets(texts[start : start + BLOCK], _no_vectors)
        retrieved = retrieve(targets, observation)
        rows, theirs = retrieved.rows, distinct_grams(retrieved.texts)[retrieved.places]
        shared = shared_grams(targets, observation)
        either = distinct_grams(targets)[:, None] + theirs - shared
        similarity = shared / np.maximum(either, 1)
        best = np.argsort(-similarity, axis=1, kind="stable")[:, :count]
        nearest += [
            [(order[rows[line, at]] + 1, float(similarity[line, at])) for at in columns]
            for line, columns in enumerate(best)
        ]
    return nearest


def _no_vectors(texts: Sequence[str]) -> NDArray[np.float32]:
    raise AssertionError("copies are found by letters alone")


def surplus_p(
    copied: NDArray[np.bool_],
    member: NDArray[np.bool_],
    block: NDArray[np.integer],
    rng: np.random.Generator,
) -> float:
    """Return the chance of at least as many copied members under a random split: one-sided.

    Fisher's exact test; where groups stay together, permutations of them.

    >>> four = np.array([True, True, False, False])
    >>> round(surplus_p(four, four, np.arange(4), np.random.default_rng(1)), 3)  # 1 of 6 splits
    0.167
    """
    from scipy.stats import hypergeom

    both = int((copied & member).sum())
    if len(np.unique(block)) == len(block):
        return float(hypergeom.sf(both - 1, len(member), int(copied.sum()), int(member.sum())))
    permuted_members = [permuted(member, block, rng) for _ in range(PERMUTATIONS)]
    null = np.array([(copied & drawn).sum() / max(drawn.sum(), 1) for drawn in permuted_members])
    return p_value(both / max(int(member.sum()), 1), null)
