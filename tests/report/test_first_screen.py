"""The first screen: a row per decision, the answer to it, and what is left out without data."""

from __future__ import annotations

import dataclasses
import json
import re

import pytest

from support.reading import Results, holds, judged, numbers, unpacked
from synthleak import Audit
from synthleak.core.cell import CANNOT_SAY, FOUND, NONE_FOUND, TOO_FEW, Verdict
from synthleak.report.first_screen import controls, decisions, next_steps
from synthleak.report.html import render
from synthleak.report.page import Page
from synthleak.report.results import Results as AuditResults
from synthleak.report.sections import maps
from synthleak.report.writing import Column, telling


@pytest.fixture(scope="module")
def results(audit: Audit) -> AuditResults:
    """Return results without copies or disclosures, whatever the verdicts of the tests."""
    bare = [dataclasses.replace(c, copies=None, disclosures=None) for c in audit.results.cells]
    results = dataclasses.replace(audit.results, cells=tuple(bare))
    return with_cells(results, copied_p=None, disclosed_p=None)


def with_cells(results: AuditResults, **columns: object) -> AuditResults:
    """Return results whose rows of `cells` have other values in some columns."""
    kind, rows = results.tables["cells"]
    changed = [dataclasses.replace(row, **columns) for row in rows]
    return dataclasses.replace(results, tables={**results.tables, "cells": (kind, changed)})


def recognising(results: AuditResults, **rates: float) -> AuditResults:
    """Return results in which so many records of each pool are recognised, with a limit of 0.1."""
    cells = []
    for one in results.cells:
        rate = one.measurements.crossfit_tpr
        assert rate is not None
        rate = dataclasses.replace(rate, value=rates[one.cell.pool], null=0.1)
        measured = dataclasses.replace(one.measurements, crossfit_tpr=rate, records=())
        cells.append(dataclasses.replace(one, measurements=measured))
    return dataclasses.replace(results, cells=tuple(cells))


def text_of(content: str) -> str:
    """Return the words of a page without scripts, styles and tags."""
    body = re.sub(r"<(script|style)\b.*?</\1>", "", content, flags=re.S)
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", body))


def first_rows(page: str) -> str:
    """Return the rows of the first table of a page."""
    return page[page.index("May it be published?") : page.index("</tbody>")]


def test_a_decision_is_shown_by_its_worst_pool(results: AuditResults) -> None:
    none, found = Verdict(NONE_FOUND), Verdict(FOUND)
    broken = Verdict(NONE_FOUND, contradiction=(0.01, 2.0, 3.0))
    assert [(one.cell.pool, one.cell.epsilon) for one in results.cells] == [
        ("outlier", float("inf")),
        ("outlier", 2.0),
        ("random", float("inf")),
        ("random", 2.0),
    ]
    rows = decisions(Page(judged(results, none, broken, found, found)))
    assert [row.name for row in rows] == [
        "ngram without a privacy limit",
        "ngram with privacy limit 2",
    ]
    assert [row.said.cell.pool for row in rows] == ["random", "outlier"]
    assert [(row.leaking, row.pools) for row in rows] == [(1, 2), (1, 2)]
    values = [one.deployable.value if one.deployable else 0.0 for one in results.cells]
    quiet = recognising(judged(results, none, none, none, none), outlier=0.05, random=0.05)
    first = decisions(Page(quiet))[0].said.place
    assert values[first] == max(values[0], values[2])


@pytest.mark.parametrize(
    ("verdict", "answers"),
    [
        (Verdict(FOUND), ("No, not as anonymous data.",) * 2),
        (
            Verdict(FOUND, contradiction=(0.01, 2.0, 3.0)),
            ("No: the promise does not hold.",) * 2,
        ),
        (Verdict(CANNOT_SAY, "tied"), ("Undecided: this audit cannot tell.",) * 2),
        (
            Verdict(NONE_FOUND),
            (
                "Your decision: no leak was found, and no promise of privacy was made.",
                "Your decision: no leak was found. Is the promise (privacy limit 2) enough?",
            ),
        ),
    ],
)
def test_every_row_answers_whether_to_publish(
    results: AuditResults, verdict: Verdict, answers: tuple[str, str]
) -> None:
    made = recognising(judged(results, *[verdict] * 4), outlier=0.3, random=0.3)
    rows = first_rows(render(made).decode())
    said = [
        re.sub(r"<[^>]+>", "", one) for one in re.findall(r"</span> <strong>(.+?)</strong>", rows)
    ]
    assert tuple(said) == answers


def test_promise_bound_and_adjacency_stand_in_the_row(audit: Audit, results: AuditResults) -> None:
    shown = text_of(render(results).decode())
    row = next(row for row in audit.cells if row.epsilon == 2.0)
    assert row.adjacency == "replace" and row.epsilon_claim is not None
    assert row.epsilon_max is not None and row.claim_p_holm is not None
    assert f"ε = 2 promised , which allows {row.epsilon_claim:.3f} for replacing a record" in shown
    untested = " , too little to test the promise" * (row.epsilon_max < row.epsilon_claim)
    assert f"can contradict claims up to ε = {row.epsilon_max:.3f}{untested}" in shown
    assert "here one is replaced by another, which is both" in shown


def test_a_row_says_whether_a_leak_is_strong_or_a_trace(results: AuditResults) -> None:
    leaks = judged(results, *[Verdict(FOUND)] * 4)
    for value, label, answer in (
        (0.05, "Trace of a leak", "Not yet: there are signs of a small leak."),
        (0.3, "Strong leak", "No, not as anonymous data."),
    ):
        changed = recognising(leaks, outlier=value, random=value)
        assert {one.label for one in decisions(Page(changed))} == {label}
        rows = text_of(first_rows(render(changed).decode()))
        assert rows.count(label) == rows.count(answer) == 2
        assert ("From one release nobody is recognised beyond guessing" in rows) == (value == 0.05)


@pytest.mark.parametrize(
    "verdict",
    [
        Verdict(FOUND),
        Verdict(NONE_FOUND),
        Verdict(CANNOT_SAY, TOO_FEW),
        Verdict(FOUND, contradiction=(0.01, 2.0, 3.0)),
    ],
)
def test_statistics_stand_below_how_we_know(
    results: AuditResults, checked: Audit, verdict: Verdict
) -> None:
    for made in (results, checked.results):
        page = render(judged(made, *[verdict] * len(made.cells))).decode()
        first = page[page.index("<main>") : page.index("How we know")]
        assert re.findall(r"AUC|FPR|TPR|\bp\b|ε|δ|[a-z]+_[a-z]+|prox", text_of(first)) == []
        assert "p = " in text_of(page[page.index("How we know") :])


def test_what_could_be_missed_stands_beside_no_leak(results: AuditResults) -> None:
    for verdict, missed in ((Verdict(FOUND), False), (Verdict(NONE_FOUND), True)):
        page = render(judged(results, *[verdict] * 4)).decode()
        how = text_of(page[page.index("How we know") : page.index('id="who"')])
        assert ("could be missed" in how) == missed


def test_nothing_found_is_said_in_words(leaky: Audit) -> None:
    def said(**counts: int | None) -> str:
        return text_of(render(with_cells(leaky.results, **counts)).decode())

    nothing = {"copied_members": 0, "copied_holdout": 0, "disclosed": 0, "disclosed_holdout": 0}
    quiet = said(**nothing)
    assert "None copied. " in quiet and "Nothing that nobody else has can be read." in quiet
    assert "of them word for word; by chance" not in quiet
    loud = said(**{**nothing, "copied_holdout": 1, "disclosed_holdout": 2})
    assert "None copied." not in loud and "Nothing that nobody" not in loud
    unknown = said(**dict.fromkeys(nothing))
    assert "None copied." not in unknown and "Nothing that nobody" not in unknown


def test_a_row_of_a_check_counts_the_copied(checked: Audit, checked_page: str) -> None:
    row = checked.cells[0]
    members = len(checked.results.cells[0].measurements.records)
    said = f"{row.copied_members} of {members} , and {row.copied_holdout} of"
    assert said in text_of(first_rows(checked_page))


def test_named_members_are_the_one_count_of_a_check(checked: Audit, checked_page: str) -> None:
    """How many are picked out at 5% false alarms is another number: it stands with the figures."""
    rows, how = first_rows(checked_page), checked_page[checked_page.index("How we know") :]
    named = len(checked.named)
    assert f"{named} of 100 can be recognised" in text_of(rows)
    assert "pure guessing gets" not in text_of(rows) and "pure guessing gets" in text_of(how)
    assert f"100 dots: {named} recognised beyond chance, 0 " in rows


def test_an_open_answer_says_what_would_settle_it(results: AuditResults) -> None:
    verdicts = [Verdict(FOUND), Verdict(CANNOT_SAY, TOO_FEW)] * 2
    made = recognising(judged(results, *verdicts), outlier=0.3, random=0.3)
    rows = text_of(first_rows(render(made).decode()))
    assert rows.count("What would settle it: more releases or more records.") == 1


def test_a_pool_whose_single_records_leak_is_shown_first(results: AuditResults) -> None:
    leaks = with_cells(judged(results, *[Verdict(FOUND)] * 4), named=0)
    for shown, other in (("outlier", "random"), ("random", "outlier")):
        changed = recognising(leaks, **{shown: 0.2, other: 0.05})
        assert {one.said.cell.pool for one in decisions(Page(changed))} == {shown}


def test_nobody_is_named_where_no_leak_was_found(results: AuditResults) -> None:
    for verdict, named in ((Verdict(FOUND), True), (Verdict(NONE_FOUND), False)):
        made = with_cells(judged(results, *[verdict] * 4), named=2)
        shown = text_of(render(made).decode())
        assert (re.search(r"2 of \d+ can be recognised by comparing", shown) is not None) == named


def test_selected_pools_are_compared_with_controls(results: AuditResults) -> None:
    leaks = judged(results, *[Verdict(FOUND)] * 4)
    found = controls(Page(leaks))
    assert found is not None and found["audited"] and found["compared"] == 2
    assert found["leaking"] == ["ngram without a privacy limit", "ngram with privacy limit 2"]
    assert "Records drawn at random leak as well" in text_of(render(leaks).decode())
    kind, rows = results.tables["control_gap"]
    flagged = [
        dataclasses.replace(row, flagged="yes", crossfit_gap=0.3) if row.scenario == "all" else row
        for row in rows
    ]
    more = dataclasses.replace(results, tables={**results.tables, "control_gap": (kind, flagged)})
    assert (
        "Selected records leak more than records drawn at random in 2 of 2 comparisons"
        in text_of(render(more).decode())
    )
    rules = {"outlier": "outlier", "random": "ids"}
    alone = dataclasses.replace(results, facts=dataclasses.replace(results.facts, rules=rules))
    assert "No records drawn at random were audited" in text_of(render(alone).decode())


def test_a_cohort_has_one_map_and_a_table_of_what_one_release_gives_away(leaky: Audit) -> None:
    page = Page(leaky.results)
    assert page.summary["game"]["design"] == "cohort"
    assert {panel.scenario for panel in maps(page)} == {"any"}
    twice = dataclasses.replace(leaky.results, cells=leaky.results.cells * 2)
    shown = render(twice).decode()
    assert shown.count("Who sees one release") == 1
    for place, row in enumerate(page.rows("cells")):
        assert row.null_pooled95 is not None
        said = f'data-from="cells/{place}/pooled_auc"'
        assert said in shown[shown.index("Who sees one release") : shown.index('id="cells"')]


def test_headline_is_said_once(audit: Audit) -> None:
    results = audit.results
    shown = text_of(render(results).decode().partition('id="who"')[0])
    headline = Page(results).headline
    for sentence in headline[:2]:
        assert shown.count(sentence) == 1
    assert " ".join(headline) == audit.headline


def test_constant_columns_are_left_out() -> None:
    @dataclasses.dataclass
    class Row:
        record: str
        pool: str
        held: int
        p: float
        note: str | None

    rows = [Row("a", "all", 1, 0.5, None), Row("b", "all", 2, 0.5, None)]
    columns = [
        Column("record", "Record"),
        Column("pool", "Pool"),
        Column("held", "Held", "count"),
        Column("p", "p", "chance"),
        Column("note", "Note"),
    ]
    assert [column.field for column in telling(rows, columns)] == ["record", "held", "p"]


@pytest.fixture(scope="module")
def checked_page(checked: Audit) -> str:
    return (checked.folder.root / "report.html").read_text(encoding="utf-8")


def test_a_check_is_named_after_its_release(checked_page: str) -> None:
    assert "<title>Privacy check of spring</title>" in checked_page
    assert "<h1>Privacy check of spring</h1>" in checked_page


def test_a_check_leaves_out_what_it_has_no_data_for(checked_page: str) -> None:
    index = checked_page[checked_page.index("<nav") : checked_page.index("</nav>")]
    parts = ["verdict", "who", "cells", "method", "glossary", "print"]
    assert re.findall(r'href="#(\w+)"', index) == parts
    for absent in ("map", "research"):
        assert f'id="{absent}"' not in checked_page and f'href="#{absent}"' not in checked_page
    shown = text_of(checked_page)
    for words in ("Not available", "without privacy", "nothing is promised", "Class expressible"):
        assert words not in shown
    columns = [column["field"] for column in unpacked(checked_page)["sheet-records"]["columns"]]
    assert columns[0] == "record" and "q_value" in columns
    assert {"pool", "generator", "epsilon", "scenario", "joined", "absent"}.isdisjoint(columns)


def test_a_check_lists_copies_and_named_members_first(checked: Audit, checked_page: str) -> None:
    order = [checked_page.index(part) for part in ("<h3>Copies", "<h3>Members", 'id="cells"')]
    assert order == sorted(order)
    assert unpacked(checked_page)["sheet-records"]["chosen"] == {"named": "yes"}
    assert "Remove the synthetic texts listed under" in checked_page
    results = Results(checked.folder.results)
    found = numbers(checked_page)
    assert found and [one for one in found if not holds(results, *one)] == []


def test_named_members_lead_to_the_rows_that_copy_them(checked: Audit, checked_page: str) -> None:
    first = {row.record: row for row in checked._nearest if row.rank == 1}
    named = {row.record for row in checked.named}
    assert first.keys() == named
    copied = [record for record in named if int(record.removeprefix("m-")) >= 60]
    assert len(copied) >= 10
    for record in copied:
        assert first[record].row == 81 + 99 - int(record.removeprefix("m-"))
        assert first[record].similarity == 1.0
    packed = unpacked(checked_page)["sheet-records"]
    for number, places in packed["nearest"]["of"].items():
        record = checked.records[int(number)].record
        assert {checked._nearest[place].record for place in places} == {record}


def test_named_records_of_a_game_lead_to_a_release_with_them(leaky: Audit) -> None:
    assert {row.record for row in leaky._nearest} == {row.record for row in leaky.named}
    (plan,) = leaky.setup.plans.values()
    ids = leaky.results.ids("few")
    for row in leaky._nearest:
        place = next(i for i, item in enumerate(plan.sets) if item.name == row.release)
        asked = (plan.trials.set == place) & (plan.trials.target == ids.index(row.record))
        assert plan.trials.member[asked].all()
        if row.rank == 1:
            text = next(r.text for r in leaky.setup.corpus.records if r.id == row.record)
            assert leaky.release(leaky.setup.cells[0], place)[row.row - 1].text == text


def test_synthetic_texts_are_shown_only_if_asked_for(checked: Audit, checked_page: str) -> None:
    texts = [record.text for record in checked.release(checked.setup.cells[0], 0)]

    def quoted(content: str) -> list[str]:
        packed = json.dumps(list(unpacked(content).values()), ensure_ascii=False)
        return [text for text in texts if text in content or json.dumps(text)[1:-1] in packed]

    assert quoted(checked_page) == []
    path = checked.write_report(include_text=True)
    assert len(quoted(path.read_text(encoding="utf-8"))) >= 10


def test_next_steps_fit_the_verdict(results: AuditResults) -> None:
    def steps(kind: Verdict) -> str:
        made = recognising(judged(results, *[kind] * 4), outlier=rate, random=rate)
        return " ".join(next_steps(Page(made)))

    rate = 0.3
    assert steps(Verdict(FOUND)).startswith("Treat the releases as personal data")
    assert "could have been missed" in steps(Verdict(NONE_FOUND))
    assert steps(Verdict(FOUND, contradiction=(0.01, 2.0, 3.0))).startswith(
        "Treat the releases as personal data, and state the promise no longer"
    )
    rate = 0.05
    assert steps(Verdict(FOUND)).startswith("Where there is a trace (◐), do not publish")
    assert steps(Verdict(CANNOT_SAY, TOO_FEW)).startswith("Where nothing can be said (?),")
    assert "Audit again with" not in steps(Verdict(NONE_FOUND))
    facts = dataclasses.replace(results.facts, differing_encoders={"augpe": "static"})
    results = dataclasses.replace(results, facts=facts)
    assert "Audit again with static as the encoder of the evidence" in steps(Verdict(NONE_FOUND))
    assert "Audit again with" not in steps(Verdict(FOUND))
