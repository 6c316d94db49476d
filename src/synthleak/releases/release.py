"""Releases: what a generator is given, and what it gives back (docs/method.md §5)."""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import TypeAdapter

from synthleak.core.seeds import digest
from synthleak.core.store import Store, unpacked
from synthleak.core.text import fold
from synthleak.corpus.corpus import Labels, Record
from synthleak.releases.claim import Claim

T = TypeVar("T")
FLOOR = 0.01
"""The share of the prior that is spread evenly over all declared classes."""


@dataclass(frozen=True, slots=True)
class Synthetic:
    """One synthetic record. Its text may be a private one, so its repr does not show it.

    Attributes:
        text: the text.
        labels: its class, sorted; () if it has none.
    """

    text: str = field(repr=False)
    labels: Labels = ()


@dataclass(frozen=True)
class Public:
    """What a generator may use without paying for it: R, and the declared label schema.

    Attributes:
        auxiliary: the records of R.
        classes: the declared classes, as label combinations.
        prior: the probability of each class: from R with a floor, so that every declared class can
            be prompted; never from the private set (docs/method.md §5).
        description: in a line, what kind of texts these are. Only generators that read it have it
            in their keys.
    """

    auxiliary: tuple[Record, ...] = field(repr=False)
    classes: tuple[Labels, ...]
    prior: tuple[float, ...]
    description: str = ""
    _memory: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)

    @cached_property
    def key(self) -> str:
        return digest(
            "public",
            [[record.text, record.labels] for record in self.auxiliary],
            self.classes,
            self.prior,
        )

    def remember(self, name: str, make: Callable[[], T]) -> T:
        """Return what `make` derived from the public side, made once for all its releases.

        Args:
            name: what it is called; unique among all that is derived.
            make: derives it.
        """
        if name not in self._memory:
            self._memory[name] = make()
        derived: T = self._memory[name]
        return derived

    def expresses(self, records: Sequence[Record]) -> float:
        """Return the share of records whose class can be prompted at all.

        Args:
            records: the records.
        """
        possible = {c for c, p in zip(self.classes, self.prior, strict=True) if p > 0}
        return sum(record.labels in possible for record in records) / len(records)

    def draw_classes(self, size: int, rng: np.random.Generator) -> list[Labels]:
        """Return classes drawn from the prior.

        Args:
            size: how many.
            rng: the randomness to draw from.
        """
        picks: NDArray[np.int64] = rng.choice(len(self.classes), size, p=np.asarray(self.prior))
        return [self.classes[pick] for pick in picks]


@dataclass(frozen=True)
class Request:
    """One set to make a release from. Nothing says whether it is a game or a reference.

    Attributes:
        records: the private set.
        nominal: N of the plan. Rates, steps, noise and normalisers come from it, never from the
            number of records, which would tell the worlds apart.
        size: how many synthetic records to make.
        epsilon: the budget ε; ∞ for no privacy.
        delta: the budget δ.
        public: what may be used without paying for it.
        seed: what all randomness of the release comes from.
        label_prior: where class sizes come from, "public" or "private".
        store: where the audit remembers the vectors of texts, so that none is encoded twice.
        persons: whether the audit asks about persons, so that programs are told the owner of each
            record.
    """

    records: tuple[Record, ...] = field(repr=False)
    nominal: int
    size: int
    epsilon: float
    delta: float
    public: Public = field(repr=False)
    seed: int
    label_prior: str = "public"
    store: Store | None = field(default=None, repr=False, compare=False)
    persons: bool = False

    @property
    def void(self) -> str | None:
        """Why no claim holds for this request, if none does."""
        peeks = self.label_prior == "private"
        return "class sizes were taken from the private set" if peeks else None

    def draw_classes(self, rng: np.random.Generator) -> list[Labels]:
        """Draw a class for each text of the release: from the public prior, unless told not to.

        Args:
            rng: the randomness to draw from.
        """
        side = private_prior(self.public, self.records) if self.void else self.public
        return side.draw_classes(self.size, rng)


@dataclass(frozen=True)
class Header:
    """What is known of a release without opening it: `text` is the content hash of its records.

    `different` is how many texts it has that are neither blank nor equal once folded: 0 is an empty
    release, 1 a degenerate one. It is None in stores that were written before it was counted.
    """

    text: str
    size: int
    claim: Claim
    different: int | None = None

    def to_bytes(self) -> bytes:
        content = {
            "text": self.text,
            "size": self.size,
            "different": self.different,
            "claim": self.claim.to_json(),
        }
        return json.dumps(content, indent=1).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> Header:
        content = json.loads(data)
        _adapter().validate_python(content)  # its types; the numbers of a claim stay as they are
        claim = Claim.from_json(content["claim"])
        if not (content["size"] >= 0 and claim.epsilon >= 0 and 0 <= claim.delta <= 1):
            raise ValueError("a size or a promise that no release has")
        return cls(content["text"], content["size"], claim, content.get("different"))


@cache
def _adapter() -> TypeAdapter[Header]:
    return TypeAdapter(Header)


def different_texts(release: Sequence[Synthetic]) -> int:
    """Count the texts that are neither blank nor equal once folded.

    >>> different_texts([Synthetic("A b"), Synthetic(" a  B"), Synthetic(" ")])
    1
    """
    return len({fold(record.text) for record in release} - {""})


def public_side(
    auxiliary: Sequence[Record],
    classes: Mapping[Labels, int],
    *,
    description: str = "",
) -> Public:
    """Declare the public side: the classes by name, their sizes from R with a floor."""
    names = sorted(classes)
    counts = dict.fromkeys(names, 0)
    for record in auxiliary:
        counts[record.labels] += 1
    # With nothing public every class is as likely as any other.
    total = sum(counts.values()) or 1
    share = np.array([counts[name] / total for name in names])
    prior = (1 - FLOOR) * share + FLOOR / len(names)
    return Public(
        tuple(auxiliary), tuple(names), tuple((prior / prior.sum()).tolist()), description
    )


def private_prior(public: Public, records: Sequence[Record]) -> Public:
    """Take class sizes from the private set, as the paper does. This voids the claim."""
    total = len(records)
    counts = dict.fromkeys(public.classes, 0)
    for record in records:
        counts[record.labels] += 1
    prior = tuple(counts[name] / total for name in public.classes)
    return Public(public.auxiliary, public.classes, prior, public.description)


def dump_texts(records: Sequence[Synthetic]) -> bytes:
    """Write synthetic records as gzipped JSON Lines."""
    lines = [
        json.dumps({"text": r.text, "labels": list(r.labels)}, ensure_ascii=False) for r in records
    ]
    return gzip.compress(("\n".join(lines) + "\n").encode(), compresslevel=6, mtime=0)


def load_texts(data: bytes) -> list[Synthetic]:
    """Read what `dump_texts` wrote, line by line: a million rows of JSON at once fill a memory."""
    rows = (json.loads(line) for line in io.BytesIO(unpacked(data)) if line.strip(b"\n"))
    return [Synthetic(row["text"], tuple(row["labels"])) for row in rows]
