"""What is printed cannot command a terminal, and fits it."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from synthleak.cli.output import check_command, print_json, print_prose, print_table
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


def test_a_command_to_copy_is_quoted() -> None:
    fields = {"text": "note text", "id": "id"}
    said = check_command("--coins", Path("my data"), ["members"], fields)
    words = ["--members", "my data/members.jsonl", "--text", "note text"]
    assert shlex.split(said) == ["synthleak", "check", "--coins", *words]


def test_an_error_is_one_line_without_control_characters() -> None:
    said = str(UserError(f"no record {ID}\r\n", "a\nb"))
    assert said == "a b: no record r1 ]0;owned  2J  "


WIDE_ROWS = [
    {
        "pool": pool,
        "generator": "language-model",
        "epsilon": epsilon,
        **{f"figure_number_{n}": 0.125 + n for n in range(9)},
        "why": "several words that may be wrapped, but never broken",
    }
    for pool in ("outlier", "random")
    for epsilon in (float("inf"), 4.0)
]


def test_a_wide_table_is_cut_between_columns(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    print_table(WIDE_ROWS, title="all figures")
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    words = " ".join(lines).split()
    for n in range(9):
        assert words.count(f"{0.125 + n:.3f}") == 4
    for word in WIDE_ROWS[0]["why"].split():  # type: ignore[attr-defined]
        assert words.count(word) == 4
    rows = [line.split()[:3] for line in lines if line.startswith("outlier ")]
    assert rows[:2] == [["outlier", "language-model", "inf"], ["outlier", "language-model", "4"]]
    assert len(rows) == 4  # each row twice: the table is in two parts


def test_a_table_in_a_pipe_is_in_one_part(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    print_table(WIDE_ROWS[:1])
    print_prose("a sentence of " + "words " * 40)
    lines = capsys.readouterr().out.splitlines()
    assert sum(line.startswith("outlier ") for line in lines) == 1
    assert lines[-1].count("words") == 40


def test_prose_is_wrapped_between_words(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    print_prose("a sentence of " + "words " * 20)
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 40 and set(" ".join(lines).split()[3:]) == {"words"}
