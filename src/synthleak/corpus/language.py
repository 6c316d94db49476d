"""Is this English? Crudely, by script and by the little words that every English text has.

The default encoder was trained on English. On other languages it still gives vectors, and the
embedding view then sees less than it could; an audit should say so.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

from synthleak.core.text import tokens

LITTLE_WORDS = frozenset(
    tokens(
        "the and of to for from with is are was were be been it its this that these those i you"
        " she we they my your his her our their him us them not does did have has had will would"
        " can could there what which who when if than then but or an"
    )
)
FEWEST = 0.1
"""Share of little words below which a text hardly is English; news has 0.27, chats have 0.34."""
MOST_FOREIGN = 0.2
SAMPLE = 2000


def looks_foreign(texts: Sequence[str]) -> str | None:
    """Say in what way texts do not look English, or None; the first 2,000 are looked at.

    >>> looks_foreign(["Der Patient nahm die Tabletten am Morgen und schlief danach."])
    '0% of words are common English ones'
    >>> looks_foreign(["The patient took it in the morning and slept."]) is None
    True
    """
    some = texts[:SAMPLE]
    letters = [mark for text in some for mark in text if mark.isalpha()]
    if not letters:
        return None
    foreign = sum(not _latin(mark) for mark in letters) / len(letters)
    if foreign > MOST_FOREIGN:
        return f"{foreign:.0%} of letters are not Latin"
    words = [word for text in some for word in tokens(text) if word.isalpha()]
    share = sum(word in LITTLE_WORDS for word in words) / max(len(words), 1)
    return f"{share:.0%} of words are common English ones" if share < FEWEST else None


def _latin(mark: str) -> bool:
    return mark < "\u0250" or unicodedata.name(mark, "").startswith("LATIN")
