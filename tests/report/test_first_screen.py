"""The first screen: a row per decision, the answer to it, and what is left out without data."""

from __future__ import annotations

import dataclasses
import json
import re

import pytest

from support.reading import Results, holds, judged, numbers, unpacked
from synthleak import Audit
from synthleak.core.cell import CANNOT_SAY, FOUND, NONE_FOUND, Verdict
from synthleak.report.first_screen import controls, decisions, next_steps
from synthleak.report.html import render
from synthleak.report.page import Page
from synthleak.report.results import Results as AuditResults
from synthleak.report.writing import Column, telling


@pytest.fixture(scope="module")
def results(audit: Audit) -> AuditResults:
    return audit.results


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
        measured = dataclasses.replace(one.measurements, crossfit_tpr=rate)
        cells.append(dataclasses.replace(one, measurements=measured))
    return dataclasses.replace(results, cells=tuple(cells))


def text_of(content: str) -> str:
    """Return the words of a page without scripts, styles and tags."""
    body = re.sub(r"<(script|style)\b.*?</\1>", "", content, flags=re.S)
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", body))


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
    assert [row.name for row in rows] == ["ngram without privacy", "ngram at ε = 2"]
    assert [row.said.cell.pool for row in rows] == ["random", "outlier"]
    assert [(row.leaking, row.pools) for row in rows] == [(1, 2), (1, 2)]
    values = [one.deployable.value if one.deployable else 0.0 for one in results.cells]
    first = decisions(Page(judged(results, none, none, none, none)))[0].said.place
    assert values[first] == max(values[0], values[2])


@pytest.mark.parametrize(
    ("verdict", "answers"),
    [
        (Verdict(FOUND), ("No, not as anonymous data.",) * 2),
        (
            Verdict(FOUND, contradiction=(0.01, 2.0, 3.0)),
            ("No. The promised ε does not hold.",) * 2,
        ),
        (Verdict(CANNOT_SAY, "tied"), ("Undecided: this audit cannot tell.",) * 2),
        (
            Verdict(NONE_FOUND),
            (
                "Undecided: no leak was found, but no ε is promised either.",
                "Only if ε = 2 is enough.",
            ),
        ),
    ],
)
def test_every_row_answers_whether_to_publish(
    results: AuditResults, verdict: Verdict, answers: tuple[str, str]
) -> None:
    page = render(judged(results, *[verdict] * 4)).decode()
    rows = page[page.index("May it be published?") : page.index("</tbody>")]
    assert tuple(re.findall(r"</span> <strong>(.+?)</strong><small>", rows)) == answers


def test_promise_bound_and_adjacency_stand_in_the_row(audit: Audit, results: AuditResults) -> None:
    shown = text_of(render(results).decode())
    row = next(row for row in audit.cells if row.epsilon == 2.0)
    assert row.adjacency == "replace" and row.epsilon_claim is not None
    assert row.epsilon_max is not None and row.claim_p_holm is not None
    assert f"ε = 2 promised , which allows {row.epsilon_claim:.3f} for replacing a record" in shown
    untested = " , too little to test the promise" * (row.epsilon_max < row.epsilon_claim)
    assert f"can contradict claims up to ε = {row.epsilon_max:.3f}{untested}" in shown
    assert "here one is replaced by another, which is both" in shown


def test_a_leak_of_all_together_is_called_weak(results: AuditResults) -> None:
    """Where nobody can be recognised and no more are recognised than by chance, the row says so."""
    leaks = judged(results, *[Verdict(FOUND)] * 4)
    for value, named, weak in ((0.05, 0, True), (0.05, 3, False), (0.3, 0, False)):
        changed = recognising(with_cells(leaks, named=named), outlier=value, random=value)
        assert all(one.weak == weak for one in decisions(Page(changed)))


def test_a_pool_whose_single_records_leak_is_shown_first(results: AuditResults) -> None:
    leaks = with_cells(judged(results, *[Verdict(FOUND)] * 4), named=0)
    for shown, other in (("outlier", "random"), ("random", "outlier")):
        changed = recognising(leaks, **{shown: 0.2, other: 0.05})
        assert {one.said.cell.pool for one in decisions(Page(changed))} == {shown}


def test_nobody_is_named_where_no_leak_was_found(results: AuditResults) -> None:
    for verdict, named in ((Verdict(FOUND), True), (Verdict(NONE_FOUND), False)):
        made = with_cells(judged(results, *[verdict] * 4), named=2)
        shown = text_of(render(made).decode())
        assert ("can be recognised from all releases together" in shown) == named
        assert ("as happens by chance in 1 of 10 pools without a leak" in shown) != named


def test_selected_pools_are_compared_with_controls(results: AuditResults) -> None:
    leaks = judged(results, *[Verdict(FOUND)] * 4)
    found = controls(Page(leaks))
    assert found is not None and found["audited"] and found["compared"] == 2
    assert found["leaking"] == ["ngram without privacy", "ngram at ε = 2"]
    assert "Random records leak as well" in text_of(render(leaks).decode())
    kind, rows = results.tables["control_gap"]
    flagged = [
        dataclasses.replace(row, flagged="yes", crossfit_gap=0.3) if row.scenario == "all" else row
        for row in rows
    ]
    more = dataclasses.replace(results, tables={**results.tables, "control_gap": (kind, flagged)})
    assert "Selected records leak more than random ones in 2 of 2 comparisons" in text_of(
        render(more).decode()
    )
    rules = {"outlier": "outlier", "random": "ids"}
    alone = dataclasses.replace(results, facts=dataclasses.replace(results.facts, rules=rules))
    assert "No random records were audited" in text_of(render(alone).decode())


def test_headline_is_said_once(audit: Audit, results: AuditResults) -> None:
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
    assert "<title>Membership check of spring</title>" in checked_page
    assert "<h1>Membership check of spring</h1>" in checked_page


def test_a_check_leaves_out_what_it_has_no_data_for(checked_page: str) -> None:
    index = checked_page[checked_page.index("<nav") : checked_page.index("</nav>")]
    parts = ["verdict", "who", "cells", "method", "glossary", "print"]
    assert re.findall(r'href="#(\w+)"', index) == parts
    for absent in ("map", "research"):
        assert f'id="{absent}"' not in checked_page and f'href="#{absent}"' not in checked_page
    shown = text_of(checked_page)
    for words in ("Not available", "without privacy", "nothing is promised", "Candidates C"):
        assert words not in shown
    columns = [column["field"] for column in unpacked(checked_page)["sheet-records"]["columns"]]
    assert columns[0] == "record" and "q_value" in columns
    assert {"pool", "generator", "epsilon", "scenario", "joined", "absent"}.isdisjoint(columns)


def test_a_check_lists_copies_and_named_members_first(checked: Audit, checked_page: str) -> None:
    order = [checked_page.index(part) for part in ("<h3>Copies", "<h3>Members", 'id="cells"')]
    assert order == sorted(order)
    assert unpacked(checked_page)["sheet-records"]["chosen"] == {"named": "yes"}
    assert "Remove the synthetic rows listed under" in checked_page
    results = Results(checked.folder.results)
    found = numbers(checked_page)
    assert found and [one for one in found if not holds(results, *one)] == []


def test_named_members_lead_to_the_rows_that_copy_them(checked: Audit, checked_page: str) -> None:
    first = {row.record: row for row in checked.nearest if row.rank == 1}
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
        assert {checked.nearest[place].record for place in places} == {record}


def test_named_records_of_a_game_lead_to_a_release_with_them(leaky: Audit) -> None:
    assert {row.record for row in leaky.nearest} == {row.record for row in leaky.named}
    (plan,) = leaky.setup.plans.values()
    ids = leaky.results.ids("few")
    for row in leaky.nearest:
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
        return " ".join(next_steps(Page(judged(results, *[kind] * 4))))

    assert steps(Verdict(FOUND)).startswith("Treat releases with a leak")
    assert "what could be missed" in steps(Verdict(NONE_FOUND))
    assert steps(Verdict(FOUND, contradiction=(0.01, 2.0, 3.0))).startswith(
        "Withdraw the promised ε"
    )
    assert "Audit again with" not in steps(Verdict(NONE_FOUND))
    facts = dataclasses.replace(results.facts, differing_encoders={"augpe": "static"})
    results = dataclasses.replace(results, facts=facts)
    assert "Audit again with static as the encoder of the evidence" in steps(Verdict(NONE_FOUND))
    assert "Audit again with" not in steps(Verdict(FOUND))
