"""Growth of functions that use patterns: four times the text takes about four times as long.

A text is one short piece over and over, which is what makes a careless pattern quadratic.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from contextlib import suppress
from random import Random
from typing import Any

from synthleak.core.errors import one_line
from synthleak.core.predicate import parse_predicate
from synthleak.core.text import entities, fold, tokens
from synthleak.corpus.corpus import Record
from synthleak.releases.exchange import redact
from synthleak.report.tables import guarded
from synthleak.report.writing import plain

COUNT, SIZE, TIMES = 300, 20_000, 4
NOTICEABLE, STEEPEST = 0.05, 10.0
"""Seconds that are told from noise, and how much longer four times the text may take."""
ALPHABET = "aAzZ0159.,-_@/:;!?()[]{}<>\"'\\ \t\n=+&#%日。」é\u0301\u202e\x1b"


def _predicate(text: str) -> None:
    with suppress(ValueError):
        parse_predicate(text)


FUNCTIONS: dict[str, Callable[[str], object]] = {
    "entities": entities,
    "tokens": tokens,
    "fold": fold,
    "one_line": one_line,
    "redact": lambda text: redact(text, [Record("r", "a text of a record that is private")]),
    "predicate": _predicate,
    "markdown": plain,
    "guarded": guarded,
}


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    """Time every function on random pieces at two sizes; return what grows too fast."""
    rng, findings, slowest = Random(arguments.seed), [], (0.0, "")
    count = arguments.count or COUNT
    for number in range(count):
        name = list(FUNCTIONS)[number % len(FUNCTIONS)]
        piece = "".join(rng.choices(ALPHABET, k=rng.randint(1, 6)))
        short, long = (_seconds(FUNCTIONS[name], piece, size) for size in (SIZE, TIMES * SIZE))
        slowest = max(slowest, (round(long, 3), f"{name} of {piece!r}"))
        if long > NOTICEABLE and long > STEEPEST * max(short, NOTICEABLE / STEEPEST):
            findings.append(f"{name} of {piece!r}: {short:.3f} s, then {long:.3f} s")
    return {"cases": count, "characters": TIMES * SIZE, "slowest": slowest, "findings": findings}


def _seconds(function: Callable[[str], object], piece: str, size: int) -> float:
    text = (piece * size)[:size]
    best = float("inf")
    for _ in range(2):
        began = time.thread_time()
        function(text)
        best = min(best, time.thread_time() - began)
    return best
