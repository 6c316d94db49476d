"""Texts of files command no terminal, no spreadsheet and no page."""

from __future__ import annotations

import pytest

from synthleak.cli.output import printable
from synthleak.core.errors import UserError
from synthleak.report.tables import guarded
from synthleak.report.writing import plain


@pytest.mark.parametrize("text", ["\n=1", "\r\n=1", " =1", "\x0b@a", "\n", "\t1", "-1", "\u2028+1"])
def test_no_spreadsheet_runs_a_text(text: str) -> None:
    assert guarded(text) == f"'{text}"


def test_plain_texts_are_not_guarded() -> None:
    assert [guarded(text) for text in ("", "p-7", "a = b", " a")] == ["", "p-7", "a = b", " a"]


@pytest.mark.parametrize("mark", ["\x1b", "\x07", "\x9b", "\u202e", "\u2066"])
def test_marks_that_command_a_terminal_go_nowhere(mark: str) -> None:
    text = f"a{mark}b"
    for shown in (plain(text), printable(text), str(UserError(text))):
        assert mark not in shown and shown[0] + shown[-1] == "ab"
