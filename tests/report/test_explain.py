"""Explanations: nearest rows, passages by place, texts only on request."""

from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

from synthleak import Audit
from synthleak.cli.reading import explain as command
from synthleak.core.errors import UserError
from synthleak.core.text import fold
from synthleak.corpus import Record
from synthleak.explanations import explain, folded, longest_passage

SOME = st.text(alphabet="aAß \n\té.1", max_size=40)


@given(SOME)
def test_folding_with_places_folds_as_everywhere_else(text: str) -> None:
    letters, places = folded(text)
    assert letters == fold(text)
    for place, letter in zip(places, letters, strict=True):
        assert letter == " " or letter in text[place].casefold()


@given(SOME, SOME)
def test_a_passage_holds_the_same_words_on_both_sides(one: str, other: str) -> None:
    found, whole = longest_passage(one, other), fold(other)
    longest = 0
    if found is None:
        assert not set(fold(one)) & set(whole)
    else:
        mine = fold(one[found.start : found.end])
        assert mine in whole and mine == fold(other[found.other_start : found.other_end])
        longest = len(mine)
    assert not any(
        fold(one)[k : k + longest + 3] in whole for k in range(len(fold(one)) - longest - 2)
    )


def test_the_longest_passage_is_named_by_place() -> None:
    record = "Dr Maria Olsen raised Zyrolex to 40 mg."
    text = "She said Maria Olsen  raised zyrolex twice, by 40 units."
    found = longest_passage(record, text)
    assert found is not None
    assert record[found.start : found.end] == " Maria Olsen raised Zyrolex t"
    assert text[found.other_start : found.other_end].endswith("zyrolex t")


def some_record(audit: Audit, private: list[Record]) -> tuple[str, str]:
    """A target that joined some release, by id and text."""
    row = next(row for row in audit.records if row.joined and row.pool == "outlier")
    texts = {record.id: record.text for record in audit.setup.corpus.records}
    return row.record, texts[row.record]


def test_figures_are_those_of_the_tables(audit: Audit, private: list[Record]) -> None:
    record, _ = some_record(audit, private)
    made = explain(audit, record, pool="outlier", generator="ngram", epsilon=2.0)
    assert (made.pool, made.epsilon) == ("outlier", 2.0)
    row = next(
        r for r in audit.records if (r.record, r.pool, r.epsilon) == (record, "outlier", 2.0)
    )
    assert (made.releases_with, made.releases_without) == (row.joined, row.absent)
    best = made.signals[0]
    assert (best.scenario, best.proxy) == (row.scenario, row.proxy)
    assert {story.view for story in made.signals} >= {"lexical"}
    held = [release.held for release in best.releases]
    assert held == [True] * min(3, made.releases_with) + [False]


def test_rows_are_those_of_the_table_of_nearest_rows(leaky: Audit) -> None:
    row = next(row for row in leaky._nearest if row.rank == 1)
    listed = [r for r in leaky._nearest if (r.record, r.release) == (row.record, row.release)]
    stories = [story for signal in explain(leaky, row.record).signals for story in signal.releases]
    shown = next(story for story in stories if story.release == row.release)
    assert [(m.row, m.similarity) for m in shown.matches] == [(r.row, r.similarity) for r in listed]


def call(audit: Audit, *words: str) -> Result:
    return CliRunner().invoke(command, [str(audit.folder.root), *words], catch_exceptions=True)


def test_a_run_folder_is_explained_as_its_audit(audit: Audit, private: list[Record]) -> None:
    record, _ = some_record(audit, private)
    assert explain(str(audit.folder.root), record) == explain(audit, record)


def test_no_text_without_the_flag(audit: Audit, private: list[Record]) -> None:
    record, text = some_record(audit, private)
    for words in ([record], [record, "--json"]):
        done = call(audit, *words)
        assert done.exit_code == 0, done.output
        assert not [r.id for r in private if r.text in done.output]
    told = json.loads(call(audit, record, "--json").output)
    assert "text" not in json.dumps(told)
    release = audit.release(audit.setup.cells[0], 0)
    assert not [item for item in release if len(item.text) > 12 and item.text in str(told)]
    whole = call(audit, record, "--include-text")
    assert text in whole.output
    assert text == json.loads(call(audit, record, "--json", "--include-text").output)["text"]


@pytest.mark.parametrize("known", [True, False])
def test_an_unknown_id_is_answered_with_three_others(audit: Audit, known: bool) -> None:
    ids = [record.id for record in audit.setup.corpus.records if "<" not in record.id]
    with pytest.raises(UserError) as caught:
        explain(audit, f"{ids[5]}x" if known else "~")
    remedy = str(caught.value.remedy)
    assert remedy.startswith("did you mean" if known else "known: ")
    assert remedy.count(",") + remedy.count(" or ") == 2
    assert (repr(ids[5]) in remedy) == known and ("more" in remedy) != known


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nobody"], "has no record 'nobody'"),
        (["OUTSIDE"], "is in no pool, so nothing was asked about it"),
        (["INSIDE", "--cell", "nowhere"], "in no such cell"),
        (["INSIDE", "--cell", "outlier/ngram/much"], "--cell: not an ε: 'much'"),
        (["INSIDE", "--cell", "a/b/c/d"], "--cell: not a cell"),
    ],
)
def test_mistakes_are_one_line(
    audit: Audit, private: list[Record], words: list[str], said: str
) -> None:
    pools = {record for row in audit.records for record in [row.record]}
    outside = next(r.id for r in audit.setup.corpus.records if r.id not in pools)
    stand_in: dict[str, Any] = {"OUTSIDE": outside, "INSIDE": some_record(audit, private)[0]}
    done = call(audit, *[stand_in.get(word, word) for word in words])
    assert isinstance(done.exception, UserError)
    assert said in str(done.exception) and "\n" not in str(done.exception)
