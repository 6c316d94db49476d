"""From what a model wrote to a text, and what is no text at all. Nothing private is looked at."""

from __future__ import annotations

import re
from collections import Counter
from itertools import pairwise

FEWEST_WORDS = 2
_QUOTES = {'"': '"', "“": "”", "'": "'", "‘": "’", "«": "»"}
_LEAD = re.compile(
    r"^(?:sure|certainly|of course|okay|ok|here(?:'s| is| are)|rewritten|paraphrased?)\b"
    r"[^\n]{0,80}:\s*",
    re.IGNORECASE,
)
_MARK = re.compile(r"^(?:text|comment|answer|rewritten text|labels?)\s*:\s*", re.IGNORECASE)
_LEFTOVER = re.compile(
    r"<\|[a-z_]+\|>|```|\b(?:labels?|text)\s*:|\ban? (?:\w+ )?ai\b|\blanguage model\b",
    re.IGNORECASE,
)


def tidy(text: str, *, one_line: bool = True) -> str:
    """Return the text that an answer holds: without an opening phrase or quotes around it.

    >>> tidy('Sure, here is a comment: "I love it, really." ')
    'I love it, really.'
    >>> tidy(' first line\\nsecond line')
    'first line'
    >>> tidy('one\\n\\ntwo', one_line=False)
    'one two'
    """
    text = _LEAD.sub("", text.strip())
    text = _MARK.sub("", text).strip()
    text = text.partition("\n")[0] if one_line else " ".join(text.split())
    text = text.strip()
    if len(text) > 1 and _QUOTES.get(text[0]) == text[-1] and text[0] not in text[1:-1]:
        text = text[1:-1].strip()
    return text


def degenerate(text: str) -> bool:
    """Say whether a text is empty, a stammer, mostly not words, or part of a prompt.

    >>> [degenerate(t) for t in ("I love it.", "", "no no no no no no no", "Label: joy")]
    [False, True, True, True]
    """
    words = re.findall(r"\w+", text.lower())
    if len(words) < FEWEST_WORDS or _LEFTOVER.search(text):
        return True
    letters = sum(character.isalpha() or character.isspace() for character in text)
    if letters < 0.6 * len(text):
        return True
    pairs = Counter(pairwise(words))
    stammer = len(words) >= 6 and len(set(words)) < 0.35 * len(words)
    return stammer or (len(pairs) > 0 and max(pairs.values()) > max(3, len(words) // 6))
