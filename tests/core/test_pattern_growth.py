"""No regular expression takes more than linear time, whatever a stranger's text holds.

Every pattern of the package is found in its source, so that a new one is tried too.
"""

from __future__ import annotations

import ast
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest

import synthleak
from synthleak.core.predicate import parse_predicate
from synthleak.core.text import _opens_sentence, entities, fold, tokens
from synthleak.corpus import Record
from synthleak.releases.exchange import redact

SOURCE = Path(synthleak.__file__).parent
CALLS = {"compile", "match", "search", "fullmatch", "sub", "findall", "finditer", "split"}
PIECES = (
    *("a", "A", "Ab ", "a-", "a/", "a.", "a@", "a@a-", "1", "1,", "1-", "1--a", "a1-", " ", "\t"),
    *("\n", "(", '"', '"a', "[", "[[", "{", "{a", "http://", "www.", "<code>", "text:", ": ", "_"),
    *(
        "-",
        "+",
        "\\",
        "\x1b[",
        "\x1b[1;",
        "。",
        "」",
        "日",
        "0.",
        ", ",
        "A A",
        "ABa",
        "!",
        '."',
        "( ",
    ),
)
SIZE = 4_000
NOTICEABLE = 0.02
"""Seconds: less than that is not told from noise."""


def patterns() -> Iterator[tuple[str, str, str | bytes, int]]:
    """Yield where every pattern stands, how it is used, itself and its flags."""
    for path in sorted(SOURCE.rglob("*.py")):
        source = path.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(source)):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
                continue
            if ast.unparse(node.func.value) != "re" or node.func.attr not in CALLS:
                continue
            try:
                text = ast.literal_eval(node.args[0])
            except ValueError:
                continue  # made from other words, which are escaped
            flags = re.findall(r"re\.([A-Z]+)", " ".join(map(ast.unparse, node.args[1:])))
            where = f"{path.relative_to(SOURCE)}:{node.lineno}"
            known = [getattr(re, flag) for flag in flags if hasattr(re, flag)]
            name = source.splitlines()[node.lineno - 1].partition(" =")[0].strip()
            used = set(re.findall(rf"\b{re.escape(name)}\.({'|'.join(CALLS)})\b", source))
            how = used.pop() if len(used) == 1 else node.func.attr
            yield where, how, text, sum({int(flag) for flag in known})


def seconds(work: Callable[[], object]) -> float:
    """Return how long something takes, the shortest of up to three times."""
    best = float("inf")
    for _ in range(3):
        before = time.thread_time()
        work()
        best = min(best, time.thread_time() - before)
        if best < NOTICEABLE:
            break
    return best


def grows(work: Callable[[str], object], piece: str, end: str) -> bool:
    """Say whether a text of four times the size takes far more than four times as long.

    Where the larger takes no noticeable time nothing is quadratic: that would be 10^8 steps.
    """

    def measured(size: int) -> float:
        text = piece * (size // len(piece)) + end
        return seconds(lambda: work(text))

    large = measured(4 * SIZE)
    return large > NOTICEABLE and large > 10 * measured(SIZE)


USED: dict[str, Callable[[re.Pattern[str]], Callable[[str], object]]] = {
    "match": lambda pattern: pattern.match,
    "fullmatch": lambda pattern: pattern.fullmatch,
    "search": lambda pattern: pattern.search,
}


@pytest.mark.parametrize(("where", "how", "pattern", "flags"), list(patterns()))
def test_a_pattern_takes_linear_time(
    where: str, how: str, pattern: str | bytes, flags: int
) -> None:
    text = pattern.decode() if isinstance(pattern, bytes) else pattern
    compiled = re.compile(text, flags)
    work = USED[how](compiled) if how in USED else lambda text: list(compiled.finditer(text))
    assert not [(p, end) for p in PIECES for end in ("", "!") if grows(work, p, end)]


FUNCTIONS: dict[str, Callable[[str], object]] = {
    "entities": entities,
    "tokens": tokens,
    "fold": fold,
    "redact": lambda text: redact(text, [Record("r", "a text of a record that is private")]),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_of_texts_take_linear_time(name: str) -> None:
    rng = Random(name)
    pieces = [*PIECES, *("".join(rng.choices(PIECES, k=rng.randint(2, 4))) for _ in range(40))]
    assert not [(p, end) for p in pieces for end in ("", "1") if grows(FUNCTIONS[name], p, end)]


@pytest.mark.parametrize(
    "text", ["a-" * 60_000, "a--" * 40_000 + "1", "a@" * 60_000, "1--a" * 9_000]
)
def test_one_long_row_does_not_stall(text: str) -> None:
    assert seconds(lambda: entities(text)) < 2


def test_the_growth_of_a_quadratic_pattern_is_seen() -> None:
    pattern = re.compile(r"\b(?=[\w/-]*\d)\w+")
    assert grows(lambda text: list(pattern.finditer(text)), "a-", "")


OLD = re.compile(
    r"(?<!\S)(?:[a-z]++[.,;:!?]?+(?:\s++|$))++"
    r"|(?P<url>https?://[^\s<>\"']*[^\s<>\"'.,;:!?)\]]|www\.[^\s<>\"']*[^\s<>\"'.,;:!?)\]])"
    r"|(?P<email>(?<![\w.+-])[\w.+-]+@[\w-]+(?:\.[\w-]+)+)"
    r"|(?P<identifier>\b(?=[\w/-]*\d)(?=[\w/-]*[^\W\d_])\w+(?:[-/]\w+)*\b)"
    r"|(?P<number>\d+(?:[.,:/-]\d+)*)"
    r"|(?P<capitals>\b[^\W\d_a-zà-öø-ÿ]{2,}\b)"
    r"|(?P<name>\b[A-ZÀ-ÖØ-Þ][^\W\d_]+(?:\s+[A-ZÀ-ÖØ-Þ][^\W\d_]+)*)"
)
"""Entities as one pattern, which is their definition, and quadratic."""


def by_definition(text: str) -> Iterator[str]:
    for match in OLD.finditer(text):
        span = match.group() if match.lastgroup else ""
        if match.lastgroup == "name" and _opens_sentence(text, match.start()):
            span = span.partition(" ")[2].strip()
        if span:
            yield fold(span)


def test_entities_are_those_of_the_pattern_that_defines_them() -> None:
    rng = Random(7)
    pieces = ["a", "A", "Ab", "1", "22", "-", "/", "--", "_", " ", ".", "@", ":", "http://", "www."]
    pieces += ["é", "É", "日", "+", ",", "\n", "(", '"', "x1", "AB", "!", " a "]
    for _ in range(20_000):
        text = "".join(rng.choices(pieces, k=rng.randint(1, 14)))
        assert entities(text) == list(by_definition(text)), text


def test_a_predicate_of_many_words_is_read_in_linear_time() -> None:
    def read(text: str) -> None:
        try:
            parse_predicate(text)
        except ValueError:
            return

    assert not [piece for piece in PIECES if grows(read, piece, "")]
