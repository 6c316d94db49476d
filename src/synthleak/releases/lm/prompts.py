"""Prompts from public inputs alone, and what is made of answers; no private data is used.

Templates come from the spec. A placeholder such as ``{style}`` is filled in; all other braces stay.
"""

from __future__ import annotations

import re
import tomllib
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path

import numpy as np
from pydantic import AfterValidator

from synthleak.corpus.corpus import Labels
from synthleak.releases.release import Public

_PUBLIC = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
RANDOM: str = _PUBLIC["random"]
VARIATION: str = _PUBLIC["variation"]
LABELLED: str = _PUBLIC["labelled"]
STYLES: tuple[str, ...] = tuple(_PUBLIC["styles"])
ANY_TEXT = "short texts"
"""The description of a corpus that has none."""

_PLACEHOLDER = re.compile(r"\{(\w+)\}")
_WORDS = (20,)
_QUANTILES = (0.1, 0.3, 0.5, 0.7, 0.9)


def with_placeholders(*known: str, needed: Sequence[str] = ()) -> AfterValidator:
    """Refuse a setting that is a template and cannot be filled in."""

    def check(template: str) -> str:
        placeholders = _PLACEHOLDER.findall(template)
        for name in placeholders:
            if name not in known:
                listed = ", ".join(f"{{{blank}}}" for blank in known)
                raise ValueError(f"unknown placeholder {{{name}}}; allowed: {listed}")
        for name in needed:
            if name not in placeholders:
                raise ValueError(f"the placeholder {{{name}}} is missing")
        return template

    return AfterValidator(check)


def fill(template: str, blanks: Mapping[str, str]) -> str:
    """Fill in the placeholders of a template, all at once: braces in a value stay as they are.

    >>> fill("{a} and {b}", {"a": "{b}", "b": "c"})
    '{b} and c'
    """
    return _PLACEHOLDER.sub(lambda blank: blanks.get(blank[1], blank[0]), template)


def filled(
    template: str,
    public: Public,
    classes: Sequence[Labels],
    styles: Iterable[str],
    lengths: Iterable[int],
    *,
    texts: Sequence[str] | None = None,
    phrase: str = LABELLED,
) -> list[str]:
    """Fill in a template for every class, with its style, its number of words and its text."""
    return [
        fill(
            template,
            {
                "description": described(public),
                "labelled": labelled(labels, phrase),
                "style": str(style),
                "words": str(words),
                "text": text,
            },
        )
        for labels, style, words, text in zip(
            classes, styles, lengths, texts or [""] * len(classes), strict=True
        )
    ]


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


FEWEST_LETTERS = FEWEST_WORDS = 3
_QUOTES = {'"': '"', "“": "”", "'": "'", "‘": "’", "«": "»"}
_TASK = r"(?:re|para)phras\w*|reword\w*|rewrit\w+|revised (?:text|sentence|version|comment)"
_ANSWERS = (
    r"answer|comment|example|message|note|one|paragraph|post|reply|response|review|sentence|text"
    r"|version"
)
_LEAD = re.compile(
    rf"^(?:[^\n:]{{0,20}}\bhere(?:'s|’s| is| are)\b[^\n:]{{0,60}}\b(?:{_ANSWERS})s?\b[^\n:]{{0,60}}"
    rf"|[^\n:]{{0,120}}\b(?:{_TASK})\b[^\n:]{{0,80}}):(?:\s+|(?=[\"“‘«])|$)",
    re.IGNORECASE,
)
_MARK = re.compile(r"^(?:text|comment|answer|rewritten text|labels?|[aq])\s*:\s*", re.IGNORECASE)
_LEFTOVER = re.compile(
    r"<\|[a-z_]+\|>|```|\b(?:labels?|text)\s*:|\ban? (?:\w+ )?(?:ai|chatbot)\b|\blanguage model\b"
    r"|\b(?:re|para)phras\w*|\b(?:rewritten|revised) (?:text|sentence|version|comment)\b"
    r"|\[(?:insert|your)\b|:$",
    re.IGNORECASE,
)
_HINTS = (
    "<|",
    "```",
    ":",
    "[",
    " ai",
    "language model",
    "chatbot",
    "phras",
    "rewritten",
    "revised",
)
"""Every leftover contains one of these; checking them first is ten times as fast."""
_NO_LETTERS = bytes(byte for byte in range(128) if not chr(byte).isalpha())
_WORD = re.compile(r"[a-z0-9]+")
_QUOTED = re.compile(r'(?:[^"]+|(?<=[\s(\[:—–])"[^"]*(?:"|$))*')
_SENTENCES = re.compile(r".*(?:[.!?…।؟][\"”’')]*(?=\s+\D|\s*$)|[。！？][」』”’）]*)", re.DOTALL)


def whole_sentences(text: str) -> str:
    """Remove the unfinished last sentence of a text that was cut off, if enough is left.

    >>> whole_sentences("I know that. It was late, and then we")
    'I know that.'
    >>> whole_sentences("Well! It was late, and then we")
    'Well! It was late, and then we'
    """
    sentences = _SENTENCES.match(text)
    if not sentences:
        return text
    # Without spaces there are no words to count.
    enough = len(sentences[0].split()) >= FEWEST_WORDS or any(
        mark in sentences[0] for mark in "。！？"
    )
    return sentences[0] if enough else text


def unquoted(text: str) -> tuple[str, bool]:
    """Return what follows an opening quotation mark up to the closing one, and whether it came.

    A mark after a space, a bracket, a colon or a dash opens a quotation within.

    >>> unquoted('I said "no" to him." This is better.')
    ('I said "no" to him.', True)
    >>> unquoted('I said "no" to')
    ('I said "no" to', False)
    """
    inside = _QUOTED.match(text)
    end = inside.end() if inside else 0
    return text[:end], end < len(text)


def clean_answer(text: str, *, one_line: bool = True) -> str:
    """Return the text that an answer holds: without an opening phrase or quotes around it.

    >>> clean_answer('Sure, here is a comment: "I love it, really." ')
    'I love it, really.'
    >>> clean_answer(' first line\\nsecond line')
    'first line'
    >>> clean_answer('one\\n\\ntwo', one_line=False)
    'one two'
    >>> clean_answer('I could rephrase the text a little: "I am late')
    'I am late'
    """
    text = text.strip()
    if ":" in text:
        text = _LEAD.sub("", text)
        text = _MARK.sub("", text).strip()
    text = text.partition("\n")[0] if one_line else " ".join(text.split())
    text = text.strip()
    closing = _QUOTES.get(text[:1])
    # A quotation around all of it, or one that broke off; an apostrophe is not a quotation mark.
    if closing and closing not in text[1:-1] and (closing == text[-1] or closing not in "'’"):
        text = text[1:].removesuffix(closing).strip()
    return text


def degenerate(text: str, labels: Labels = ()) -> bool:
    """Say whether a text is empty, repetitive, mostly not letters, or about the task itself.

    A text with a blank to fill in is degenerate too, and one that only repeats the labels that it
    should fit.

    >>> [degenerate(t) for t in ("I love it.", "", "no no no no no no no", "Label: joy")]
    [False, True, True, True]
    >>> [degenerate(t) for t in ("Here is the rewritten version:", "I would rephrase this.")]
    [True, True]
    >>> [degenerate("Caring.", ("caring",)), degenerate("Caring for her.", ("caring",))]
    [True, False]
    """
    letters, lower = _letters(text), text.lower()
    if letters < FEWEST_LETTERS:
        return True
    if any(hint in lower for hint in _HINTS) and _LEFTOVER.search(text):
        return True
    words = lower.split()
    if letters < 0.6 * (len(text) - len(words)):
        return True
    if labels and all(word in _words_of(labels) for word in _words(lower)):
        return True
    different = len(set(words)) / len(words)
    if len(words) < 6 or different > 0.7:
        return False
    most = max(Counter(pairwise(words)).values())
    return different < 0.35 or most > max(3, len(words) // 6)


@cache
def _words_of(labels: Labels) -> frozenset[str]:
    return frozenset(_words(" and ".join(labels).lower()))


def _words(lower: str) -> Iterator[str]:
    if lower.isascii():
        return (word[0] for word in _WORD.finditer(lower))
    lower = unicodedata.normalize("NFC", lower)
    return iter("".join(c if c.isalnum() or _is_letter(c) else " " for c in lower).split())


def _letters(text: str) -> int:
    if text.isascii():
        return len(text.encode().translate(None, _NO_LETTERS))
    return sum(map(_is_letter, text))


def _is_letter(c: str) -> bool:
    # Vowel signs, as in Hindi, are marks; so is the emoji variation selector, not a letter.
    return c.isalpha() or (c != "\ufe0f" and unicodedata.category(c) in ("Mc", "Mn"))
