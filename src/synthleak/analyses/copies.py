"""Copies: which records stand in the release word for word, or nearly (docs/method.md §11).

Nobody needs statistics to worry about a verbatim copy, so copies come first. The holdout is the
control: what stands there by coincidence or by habit (a form letter, a greeting) is copied from
members and holdout alike, and only a surplus among members says that the release gives them away.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray

from synthleak.core.text import fold
from synthleak.evidence.fast.grams import distinct_grams
from synthleak.evidence.fast.overlap import shared_grams
from synthleak.evidence.fast.retrieval import retrieve
from synthleak.evidence.observation import BLOCK, Floats, Observation, Targets
from synthleak.metrics.null import p_value
from synthleak.plan.given import permuted

NEAR = 0.8
"""Two texts that share this part of their character 5-grams (Jaccard) differ in a word or two."""
PERMUTATIONS = 1999
COPIES_VERSION = 1


@dataclass(frozen=True)
class CopyRow:
    """A row of `copies.csv`: a record that the release repeats, and the row that repeats it.

    `side` is members or holdout; `row` counts the records of the release from 1, and is the most
    similar of them; `similarity` is the Jaccard similarity of character 5-grams.
    """

    corpus: str
    pool: str
    generator: str
    epsilon: float
    side: str
    record: str
    row: int
    kind: str
    similarity: float


@dataclass(frozen=True)
class Copy:
    """One target that the release repeats: where, and how nearly."""

    target: int
    row: int
    verbatim: bool
    similarity: float


@dataclass(frozen=True)
class Copies:
    """The copies in one release, counted on both sides.

    `p` is the chance of at least this surplus of copied members under a random split, of
    verbatim copies and of all; `looked` says whether near-verbatim ones were looked for.
    """

    found: tuple[Copy, ...]
    members: int
    holdout: int
    verbatim: tuple[int, int]
    near: tuple[int, int]
    p_verbatim: float
    p_all: float
    looked: bool

    @property
    def copied(self) -> tuple[int, int]:
        """Return how many members and how many holdout records are copied, nearly or verbatim."""
        return self.verbatim[0] + self.near[0], self.verbatim[1] + self.near[1]

    def to_bytes(self) -> bytes:
        """Write the copies for the store."""
        return json.dumps(asdict(self)).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> Copies:
        """Read copies from the store."""
        content = json.loads(data)
        return cls(
            **{
                **content,
                "found": tuple(Copy(**item) for item in content["found"]),
                "verbatim": tuple(content["verbatim"]),
                "near": tuple(content["near"]),
            }
        )


def find_copies(
    texts: Sequence[str],
    release: Sequence[str],
    overlap: Floats | None,
    member: NDArray[np.bool_],
    block: NDArray[np.integer],
    rng: np.random.Generator,
) -> Copies:
    """Return the copies of targets in a release, in the targets' order.

    `overlap` is the proxy jaccard_max of each target: only those that it shows to be near are
    searched for. Without it, verbatim copies are all that is found.
    """
    first: dict[str, int] = {}
    for number, text in enumerate(release, start=1):
        first.setdefault(fold(text), number)
    rows = [first.get(fold(text)) for text in texts]
    exact = np.array([row is not None for row in rows])
    found = [Copy(place, row, True, 1.0) for place, row in enumerate(rows) if row is not None]
    if overlap is not None:
        places = np.flatnonzero((overlap >= NEAR) & ~exact).tolist()
        nearest = nearest_rows([texts[place] for place in places], release)
        found += [
            Copy(place, row, False, similarity)
            for place, (row, similarity) in zip(places, nearest, strict=True)
        ]
    every = np.zeros(len(texts), dtype=np.bool_)
    every[[copy.target for copy in found]] = True
    return Copies(
        found=tuple(sorted(found, key=lambda copy: copy.target)),
        members=int(member.sum()),
        holdout=int((~member).sum()),
        verbatim=(int((exact & member).sum()), int((exact & ~member).sum())),
        near=(int((every & ~exact & member).sum()), int((every & ~exact & ~member).sum())),
        p_verbatim=surplus_p(exact, member, block, rng),
        p_all=surplus_p(every, member, block, rng),
        looked=overlap is not None,
    )


def nearest_rows(texts: Sequence[str], release: Sequence[str]) -> list[tuple[int, float]]:
    """Return the row of a release, from 1, that is most similar to each text, and how similar.

    Rows are retrieved by BM25 and compared by the Jaccard similarity of character 5-grams.

    >>> nearest_rows(["a cold since May"], ["well again", "a cold since March", "no cold"])[0][0]
    2
    """
    order = sorted(range(len(release)), key=lambda row: (fold(release[row]), release[row]))
    observation = Observation(release, _no_vectors)
    found: list[tuple[int, float]] = []
    for start in range(0, len(texts), BLOCK):
        targets = Targets(texts[start : start + BLOCK], _no_vectors)
        retrieved = retrieve(targets, observation)
        rows, theirs = retrieved.rows, distinct_grams(retrieved.texts)[retrieved.places]
        shared = shared_grams(targets, observation)
        either = distinct_grams(targets)[:, None] + theirs - shared
        similarity = shared / np.maximum(either, 1)
        best = similarity.argmax(axis=1)
        found += [
            (order[rows[line, column]] + 1, float(similarity[line, column]))
            for line, column in enumerate(best)
        ]
    return found


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
