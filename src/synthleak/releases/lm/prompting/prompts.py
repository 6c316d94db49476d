"""Prompts, from public inputs only: the corpus's description, labels, styles and lengths.

Templates come from the spec. A placeholder such as ``{style}`` is filled in; all other braces stay.
`check_placeholders` rejects a template with an unknown placeholder, or without a required one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import numpy as np

from synthleak.corpus.corpus import Labels
from synthleak.releases.release import Public

RANDOM = (
    "Imagine you are one of the people who write {description}. Write one yourself, {style}, in"
    " about {words} words.{labelled} Only your own words."
)
VARIATION = (
    "Rephrase this text {style}, in about {words} words.{labelled} Answer with the new text alone."
    "\n\n{text}"
)
LABELLED = " It should fit: {labels}."
STYLES = (
    "casually",
    "plainly",
    "with a personal detail",
    "with strong feeling",
    "as a question",
    "in a calm tone",
    "with some irony",
    "in a short and direct way",
    "as part of a longer story",
    "formally",
    "with a concrete fact",
    "hesitantly",
)
ANY_TEXT = "short texts"
"""The description of a corpus that has none."""

_PLACEHOLDER = re.compile(r"\{(\w+)\}")
_WORDS = (20,)
_QUANTILES = (0.1, 0.3, 0.5, 0.7, 0.9)


def check_placeholders(template: str, known: Sequence[str], needed: Sequence[str] = ()) -> str:
    """Return the template if it can be filled in.

    >>> check_placeholders("Write about {topic}", ["style"])
    Traceback (most recent call last):
    ...
    ValueError: unknown placeholder {topic}; allowed: {style}
    """
    found = _PLACEHOLDER.findall(template)
    for name in found:
        if name not in known:
            listed = ", ".join(f"{{{blank}}}" for blank in known)
            raise ValueError(f"unknown placeholder {{{name}}}; allowed: {listed}")
    for name in needed:
        if name not in found:
            raise ValueError(f"the placeholder {{{name}}} is missing")
    return template


def fill(template: str, blanks: Mapping[str, str]) -> str:
    """Fill in the placeholders of a template, all at once: braces in a value stay as they are.

    >>> fill("{a} and {b}", {"a": "{b}", "b": "c"})
    '{b} and c'
    """
    return _PLACEHOLDER.sub(lambda blank: blanks.get(blank[1], blank[0]), template)


def described(public: Public) -> str:
    """Return what kind of texts a corpus holds, as the object of a sentence."""
    return public.description.strip().rstrip(".") or ANY_TEXT


def labelled(labels: Labels, template: str = LABELLED) -> str:
    """Return the sentence that names the labels; nothing where there are none."""
    return fill(template, {"labels": ", ".join(map(readable_label, labels))}) if labels else ""


def readable_label(label: str) -> str:
    """Return a label as ordinary words.

    >>> readable_label("side_effect")
    'side effect'
    """
    return label.replace("_", " ").strip()


def usual_lengths(public: Public) -> tuple[int, ...]:
    """Return typical numbers of words of texts in R, from short to long; R is public."""

    def make() -> tuple[int, ...]:
        counts = [len(record.text.split()) for record in public.auxiliary]
        if not counts:
            return _WORDS
        return tuple(max(1, round(q)) for q in np.quantile(counts, _QUANTILES).tolist())

    return public.remember("usual lengths", make)


def on_one_line(public: Public) -> bool:
    """Say whether at least 19 in 20 texts of R have one line."""

    def make() -> bool:
        broken = sum("\n" in record.text.strip() for record in public.auxiliary)
        return broken <= len(public.auxiliary) // 20

    return public.remember("on one line", make)


def few_shot(description: str, labels: Labels, shown: Sequence[str]) -> str:
    """Return a plain prompt: the kind of texts, some of the class, and the beginning of another.

    >>> print(few_shot("notes", ("joy",), ["It works!"]))
    Some notes.
    <BLANKLINE>
    Labels: joy
    Text: It works!
    <BLANKLINE>
    Labels: joy
    Text:
    """
    opening = f"Labels: {', '.join(map(readable_label, labels))}\nText:" if labels else "Text:"
    parts = [f"{opening} {text}" for text in shown]
    return "\n\n".join([f"Some {description}.", *parts, opening])
