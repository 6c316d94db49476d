"""From what a model wrote to a text, and what is no text at all. Nothing private is looked at."""

from __future__ import annotations

import re
from collections import Counter
from itertools import pairwise

FEWEST_LETTERS = 3
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
    """Say whether a text is empty, a stammer, mostly not letters, or part of a prompt.

    >>> [degenerate(t) for t in ("I love it.", "", "no no no no no no no", "Label: joy")]
    [False, True, True, True]
    """
    letters = sum(map(str.isalpha, text))
    if letters < FEWEST_LETTERS or _LEFTOVER.search(text):
        return True
    words = text.lower().split()
    if letters < 0.6 * (len(text) - len(words)):
        return True
    different = len(set(words)) / len(words)
    if len(words) < 6 or different > 0.7:
        return False
    most = max(Counter(pairwise(words)).values())
    return different < 0.35 or most > max(3, len(words) // 6)
