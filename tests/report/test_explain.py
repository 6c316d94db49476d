"""Explanations: spans by place, measures as the proxies have them, texts only on request."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

from synthleak import Audit
from synthleak.cli.explain import explain as command
from synthleak.core.errors import UserError
from synthleak.core.text import char_grams, fold
from synthleak.corpus.corpus import Record
from synthleak.encoders.builtin.hashing import Hashing
from synthleak.evidence.family import families
from synthleak.evidence.observation import Observation, Targets
from synthleak.explanations.explanation import explain
from synthleak.explanations.measures import ranked, release_rows
from synthleak.explanations.spans import Lookout, folded
from synthleak.testing import tiny_corpus

SOME = st.text(alphabet="aAß \n\té.1", max_size=40)


@given(SOME)
def test_folding_with_places_folds_as_everywhere_else(text: str) -> None:
    made = folded(text)
    assert made.text == fold(text)
    for place, letter in zip(made.at, made.text, strict=True):
        assert letter == " " or letter in text[place].casefold()


@given(SOME, SOME)
def test_spans_hold_the_same_words_on_both_sides(one: str, other: str) -> None:
    found = Lookout(one, ["x y"]).beside(other)
    whole = fold(other)
    if found.longest is None:
        assert not set(fold(one)) & set(whole)
    else:
        span = found.longest
        mine = fold(one[span.start : span.end])
        assert mine in whole and mine == fold(other[span.other_start : span.other_end])
    longest = (
        0 if found.longest is None else len(fold(one[found.longest.start : found.longest.end]))
    )
    assert not any(
        fold(one)[k : k + longest + 3] in whole for k in range(len(fold(one)) - longest - 2)
    )
    grams = char_grams(one)
    if len(fold(one)) >= 5:
        assert found.gram_share == pytest.approx(len(grams & char_grams(other)) / len(grams))


def test_what_is_shared_is_named_by_place() -> None:
    record = "Dr Maria Olsen raised Zyrolex to 40 mg."
    text = "She said Maria Olsen  raised zyrolex twice, by 40 units."
    found = Lookout(record, ["to the mg"] * 9).beside(text)
    assert found.longest is not None
    assert record[found.longest.start : found.longest.end] == " Maria Olsen raised Zyrolex t"
    assert text[found.longest.other_start : found.longest.other_end].endswith("zyrolex t")
    assert [record[s.start : s.end] for s in found.bigrams] == [
        "Maria Olsen",
        "Olsen raised",
        "raised Zyrolex",
    ]
    assert {record[s.start : s.end] for s in found.entities} == {"Maria Olsen", "40"}
    assert {text[s.other_start : s.other_end] for s in found.entities} == {"Maria Olsen", "40"}


def test_measures_are_those_of_the_proxies() -> None:
    """Their maximum over texts is what the proxy itself says, for every proxy that is one."""
    texts = [record.text for record in tiny_corpus().records]
    encode = Hashing().encode
    record, release = texts[0], [*texts[1:40], texts[0][:30] + " and so on"]
    targets, observation = Targets([record], encode), Observation(release, encode)
    lookout = Lookout(record, observation.texts)
    seen = 0
    for entry in families:
        values = entry.plugin.look(targets, observation)[0]
        for proxy, value in zip(entry.plugin.proxies, values.tolist(), strict=True):
            found = ranked(proxy.name, proxy.view, lookout, targets, observation)
            assert list(found.values) == sorted(found.values, reverse=True)
            if proxy.name in ("cos_max", "euclid_nn") or (
                proxy.view == "lexical" and proxy.name.endswith("_max")
            ):
                top = (1 + found.values[0]) / 2 if proxy.name == "cos_max" else found.values[0]
                assert top == pytest.approx(value, abs=1e-6), proxy.name
                seen += 1
            if proxy.view == "lexical" and proxy.name.endswith("_mean"):
                assert np.mean(found.values) == pytest.approx(value, abs=1e-6), proxy.name
    assert seen == 10


def test_rows_are_those_of_the_file() -> None:
    texts = ["b", "A", "a ", "c"]
    rows = release_rows(texts)
    assert [texts[row - 1] for row in rows] == list(Observation(texts, Hashing().encode).texts)


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
