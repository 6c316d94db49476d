"""What is odd about the files of a check, found before anything else: one line each.

None of these stops a check. Each says what was found, how often, and what it means for the figures.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from synthleak.core.text import fold
from synthleak.corpus.corpus import Corpus, Record, Split
from synthleak.corpus.language import looks_foreign
from synthleak.pools.groups import groups_of

FEW = 200
"""Records on a side below which only strong leaks can be found."""
FEW_RELEASED = 50
SAME = "no holdout"
"""The kind of the finding that members and holdout do not differ."""
TORN = "torn groups"
"""The kind of the finding that neither whole groups nor single records were drawn."""
ENGLISH = ("static", "minilm")
"""Encoders that were trained on English."""


@dataclass(frozen=True)
class Finding:
    """One oddity: its kind, how many records it concerns, and a line for people."""

    kind: str
    count: int
    line: str


def file_findings(corpus: Corpus, split: Split, encoder: str) -> list[Finding]:
    """Look at members, holdout and reference."""
    sides = {
        "members": [corpus.records[place] for place in split.positions("members")],
        "holdout": [corpus.records[place] for place in split.positions("holdout")],
    }
    found = [_overlap(sides["members"], sides["holdout"]), _groups(corpus), _reference(split)]
    found += [_twice(side, [r.text for r in records]) for side, records in sides.items()]
    found += [_few(side, len(records)) for side, records in sides.items()]
    texts = [record.text for records in sides.values() for record in records[:1000]]
    found.append(_foreign("members and holdout", texts, encoder))
    return [item for item in found if item is not None]


def release_findings(
    name: str, texts: Sequence[str], corpus: Corpus, encoder: str
) -> list[Finding]:
    """Look at a release, beside the records that it is held against."""
    split = corpus.split
    assert split is not None
    blank = sum(not text.strip() for text in texts)
    inside = Counter(fold(text) for text in texts)
    found: list[Finding | None] = [
        _twice(name, texts),
        Finding("blank", blank, f"{name}: {_of(blank, len(texts))} records hold no text")
        if blank
        else None,
        Finding(
            "few in the release",
            len(texts),
            f"{name}: {_records(len(texts))} few; a larger release of the same generator would"
            " tell more",
        )
        if len(texts) < FEW_RELEASED
        else None,
        _foreign(name, [text for text in texts if text.strip()], encoder),
    ]
    kept = [item for item in found if item is not None]
    held = [corpus.records[place].text for place in split.positions("holdout")]
    copied = sum(fold(text) in inside for text in held)
    if copied:
        kept.append(
            Finding(
                "holdout in the release",
                copied,
                f"{name} contains {_of(copied, len(held))} of the holdout word for word: common"
                " phrases, or the generator saw the holdout",
            )
        )
    return kept


def _overlap(members: Sequence[Record], holdout: Sequence[Record]) -> Finding | None:
    inside = {fold(record.text) for record in members}
    count = sum(fold(record.text) in inside for record in holdout)
    if not count:
        return None
    return Finding(
        SAME if count == len(holdout) else "overlap",
        count,
        f"{_of(count, len(holdout))} records of the holdout are among the members word for word:"
        " they stay on both sides, where they can only hide a leak",
    )


def _groups(corpus: Corpus) -> Finding | None:
    groups = groups_of(corpus)
    if not groups.torn:
        return None
    torn = f"{_of(groups.torn, groups.several)} groups have records on both sides"
    if groups.unit == "group":
        return Finding(
            "groups on both sides",
            groups.torn,
            f"{torn}: their {len(groups.left_out):,} records are left out",
        )
    if groups.unit == "either":
        return Finding(
            "groups on both sides",
            groups.torn,
            f"{torn}: a few mistakes, or a split of single records, which would tear as few; both"
            " are permuted, and the larger p counts",
        )
    if groups.unit == "record":
        return Finding(
            "groups on both sides",
            groups.torn,
            f"{torn}, as many as a split of single records would tear: single records are permuted",
        )
    return Finding(
        TORN,
        groups.torn,
        f"{torn}: more than a few, and not as many as a split of single records would tear, so"
        " the unit of the split cannot be determined",
    )


def _reference(split: Split) -> Finding | None:
    if not split.dropped:
        return None
    return Finding(
        "reference overlap",
        split.dropped,
        f"{split.dropped} records of the reference repeat others or stand among members or holdout:"
        " left out",
    )


def _twice(name: str, texts: Sequence[str]) -> Finding | None:
    count = len(texts) - len({fold(text) for text in texts})
    if not count:
        return None
    return Finding(
        "duplicates", count, f"{name}: {_of(count, len(texts))} records repeat an earlier one"
    )


def _few(side: str, count: int) -> Finding | None:
    if count >= FEW:
        return None
    return Finding(
        "few records", count, f"{side}: {_records(count)} few; only a strong leak can be found"
    )


def _foreign(name: str, texts: Sequence[str], encoder: str) -> Finding | None:
    reason = looks_foreign(texts) if encoder in ENGLISH else None
    if reason is None:
        return None
    return Finding(
        "another language",
        len(texts),
        f"{name}: this does not look English ({reason}), and the encoder {encoder} is: the"
        " embedding view sees less; use a multilingual one",
    )


def _records(count: int) -> str:
    return "1 record is" if count == 1 else f"{count} records are"


def _of(count: int, whole: int) -> str:
    return f"{count:,} of {whole:,}"
