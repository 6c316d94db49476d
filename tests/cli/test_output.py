"""What is printed cannot command a terminal."""

from __future__ import annotations

import json

import pytest

from synthleak.cli.output import print_json, print_table
from synthleak.core.errors import UserError

ID = "r1\x1b]0;owned\x07\x9b2J"


def test_escape_sequences_do_not_reach_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    print_table([{"record": ID, "auc": 0.5}])
    print_json([{"record": ID}])
    said = capsys.readouterr().out
    assert not set(said) & {"\x1b", "\x07", "\x9b"} and "owned" in said


def test_json_keeps_what_it_escapes(capsys: pytest.CaptureFixture[str]) -> None:
    print_json([{"record": ID}])
    assert json.loads(capsys.readouterr().out) == [{"record": ID}]


def test_an_error_is_one_line_without_control_characters() -> None:
    said = str(UserError(f"no record {ID}\r\n", "a\nb"))
    assert said == "a b: no record r1 ]0;owned  2J  "
