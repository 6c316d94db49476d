"""The boundary between parsers and our own code, and the limits on what is read."""

from __future__ import annotations

import itertools
import json
import os
from pathlib import Path

import pytest

from synthleak.core.errors import CorpusError, SpecError, UserError
from synthleak.core.reading import (
    FILE,
    RECORD,
    RECORDS,
    Boundary,
    check_file,
    is_deep,
    within_limits,
)
from synthleak.core.spec import parse_spec
from synthleak.corpus import Record
from synthleak.corpus.rows import labels_of

EXPLAINED = Boundary(lambda error: CorpusError("not valid", "line 1"))


@pytest.mark.parametrize("text", ["{", "9" * 5000, "[" * 100_000])
def test_what_a_parser_raises_becomes_one_error(text: str) -> None:
    with pytest.raises(CorpusError, match="line 1: not valid"), EXPLAINED:
        json.loads(text)


def test_a_bug_of_ours_passes_the_boundary() -> None:
    with pytest.raises(TypeError), EXPLAINED:
        labels_of("a", "labels", 5, "line 1")  # type: ignore[arg-type]


def test_our_own_errors_pass_the_boundary() -> None:
    with pytest.raises(SpecError), EXPLAINED:
        parse_spec({})


def test_only_the_parser_runs_inside_the_boundary() -> None:
    def parsed() -> object:
        yield 1
        raise ValueError

    found = []
    with pytest.raises(CorpusError):
        for item in EXPLAINED.each(parsed()):  # type: ignore[arg-type]
            found.append(item)
    assert found == [1]
    with pytest.raises(ZeroDivisionError):
        for _ in EXPLAINED.each([1]):
            1 / 0  # noqa: B018 - whoever uses the rows may have bugs


def test_a_limit_is_set_by_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(CorpusError, match="limit of 4 MB; set SYNTHLEAK_MAX_RECORD_MB"):
        RECORD.check(4_000_001, "the line", "f, line 1")
    monkeypatch.setenv(RECORD.variable, "5")
    RECORD.check(4_000_001, "the line", "f, line 1")
    for written in ("x", "-1", "0", "1e3", "9" * 5000):
        monkeypatch.setenv(RECORD.variable, written)
        with pytest.raises(SpecError, match="SYNTHLEAK_MAX_RECORD_MB"):
            RECORD.check(4_000_001, "the line", "f, line 1")


def test_records_are_counted_as_they_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(RECORDS.variable, "3")
    record = Record("1", "x" * 400_000)
    assert list(within_limits([record] * 3, "the corpus", "c")) == [record] * 3
    with pytest.raises(CorpusError, match="c: the corpus is larger than the limit of 3 records"):
        list(within_limits(itertools.repeat(record), "the corpus", "c"))
    monkeypatch.setenv(FILE.variable, "1")
    with pytest.raises(CorpusError, match="c: the corpus is larger than the limit of 1 MB"):
        list(within_limits(itertools.repeat(record), "the corpus", "c"))


def test_pipes_devices_and_huge_files_are_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with (tmp_path / "sparse").open("wb") as file:
        file.truncate(3_000_000_000)
    for path, said in (
        (tmp_path / "pipe", "not a regular file"),
        (Path("/dev/zero"), "not a regular file"),
        (tmp_path / "sparse", "limit of 512 MB"),
        (tmp_path / ("x" * 300), "too long"),
        (tmp_path / "a\0b", "null"),
    ):
        with pytest.raises(UserError, match=said):
            check_file(path, FILE, UserError, "check it")
    check_file(tmp_path / "missing", FILE, UserError, "check it")
    check_file(tmp_path, FILE, UserError, "check it")


def test_nesting_is_measured_without_recursion() -> None:
    deep: list[object] = []
    for _ in range(100_000):
        deep = [deep]
    assert is_deep(deep) and not is_deep([[{"a": [1]}]])
