"""What a failing program may say: never a record, in whatever spelling."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from synthleak.core.text import fold
from synthleak.corpus import Record
from synthleak.releases.exchange import FRAGMENT, redact

TEXT = "My neighbour Tove took forty tablets on Sunday night"


@pytest.mark.parametrize(
    "line",
    [
        TEXT,
        f'{{"text": "{TEXT.upper()}"}}',
        "error near: Tove took forty tablets on",
        "  tove   took\tforty tablets  ",
        "took forty",
        "\x1b[31mMy neighbour Tove\x1b[0m",
    ],
)
def test_lines_that_quote_a_record_are_redacted(line: str) -> None:
    assert redact(f"start\n{line}\nend", [Record("1", TEXT)]) == (["start", "end"], 1)


@pytest.mark.parametrize(
    "line", ["Traceback (most recent call last):", "took the forty", "ValueError: 7"]
)
def test_other_lines_are_shown(line: str) -> None:
    assert redact(line, [Record("1", TEXT)]) == ([line], 0)


def test_other_spellings_are_recognised() -> None:
    text = "Пациент принял сорок таблеток в воскресенье"
    said = "\n".join([json.dumps({"text": text}), repr(text.encode()), text])
    assert redact(said, [Record("1", text)]) == ([], 3)


def test_short_records_are_redacted_as_whole_words_only() -> None:
    said = "no dose given\nnodosegiven\nNo Dose"
    assert redact(said, [Record("1", "no dose")]) == (["nodosegiven"], 2)


@settings(max_examples=60)
@given(st.text(min_size=1, max_size=80), st.lists(st.text(max_size=80), max_size=5))
def test_no_long_fragment_ever_gets_through(text: str, lines: list[str]) -> None:
    folded = fold(text)
    middle = folded[: FRAGMENT + 5]
    kept, _ = redact("\n".join([*lines, f"at {middle} end"]), [Record("1", text)])
    for line in kept:
        shown = fold(line)
        assert not any(
            folded[start : start + FRAGMENT] in shown for start in range(len(folded) - FRAGMENT + 1)
        )
