"""The page as a file: numbers equal tables, nothing private, nothing that could reach out."""

from __future__ import annotations

import dataclasses
import html
import json
import math
import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner
from hypothesis import example, given
from hypothesis import strategies as st

import synthleak
from support.reading import Results, holds, judged, numbers, unpacked
from synthleak import Audit
from synthleak.audit.finished import write_report
from synthleak.audit.setup import records_at
from synthleak.cli.main import cli
from synthleak.core.cell import CANNOT_SAY, FOUND, NONE_FOUND, Cell, Verdict
from synthleak.core.errors import UserError
from synthleak.corpus import Record
from synthleak.metrics.verdict_statistics import POOL_STATISTICS, RECORD_STATISTICS
from synthleak.report.first_screen import next_steps
from synthleak.report.html import render
from synthleak.report.page import Page, Said
from synthleak.report.sections import TOPICS, VERDICT, level, proxy_columns, record_sheet
from synthleak.report.writing import HOW, Column, as_shown, packed, policy, sheet, words_in


@pytest.fixture(scope="module")
def text(audit: Audit) -> str:
    return (audit.folder.root / "report.html").read_text(encoding="utf-8")


def test_every_number_in_the_page_equals_its_table(audit: Audit, text: str) -> None:
    results = Results(audit.folder.results)
    found = numbers(text)
    assert len(found) > 300
    assert text.count("<data ") == len(found)
    wrong = [one for one in found if not holds(results, *one)]
    assert wrong == []


def test_every_number_that_is_drawn_equals_its_table(audit: Audit, text: str) -> None:
    results, checked = Results(audit.folder.results), 0
    for name, content in unpacked(text).items():
        if not name.startswith("sheet-"):
            continue
        rows = results.tables[content["table"]]
        assert content["rows"] == len(rows)
        for column in content["columns"]:
            if column["field"] == VERDICT:
                continue
            for place, row in enumerate(rows):
                there, value = row[column["field"]], column["values"][place]
                if "words" in column:
                    assert column["words"][value] == there
                elif value is None:
                    assert there == ""
                else:
                    assert float(value) == float(there)
                checked += 1
    assert checked > 500


def test_records_stand_beside_the_verdict_on_their_cell(audit: Audit, text: str) -> None:
    columns = unpacked(text)["sheet-records"]["columns"]
    said = next(column for column in columns if column["field"] == VERDICT)
    words = {(row.pool, row.epsilon): row.verdict for row in audit.cells}
    shown = [said["words"][value] for value in said["values"]]
    assert shown == [words[row.pool, row.epsilon] for row in audit.records]


def test_records_of_a_broken_claim_with_a_leak_are_shown_first(audit: Audit) -> None:
    verdicts = [Verdict(NONE_FOUND) for _ in audit.results.cells]
    verdicts[-1] = Verdict(FOUND, contradiction=(0.01, 2.0, 3.2))
    made = record_sheet(Page(judged(audit.results, *verdicts)))
    assert made is not None
    said = next(column for column in made["columns"] if column["field"] == VERDICT)
    word = said["words"].index(made["chosen"][VERDICT])
    kept = [r for r, value in zip(audit.records, said["values"], strict=True) if value == word]
    assert kept == [row for row in audit.records if Cell.of(row) == audit.results.cells[-1].cell]
    assert kept


def test_every_statistic_has_its_own_heading(audit: Audit) -> None:
    for statistics in (POOL_STATISTICS, RECORD_STATISTICS):
        titles = [column.title for column in proxy_columns([item.name for item in statistics])]
        assert len({*titles}) == len(titles)
        for item in statistics[1:]:
            assert {item.heading, f"{item.heading}: chance limit"} <= {*titles}


@pytest.mark.parametrize("rows", [3, 300])
def test_a_number_that_json_lacks_does_not_break_the_page(rows: int) -> None:
    values = [0.25, math.nan, math.inf, -math.inf, None]
    found = [SimpleNamespace(auc=values[place % 5]) for place in range(rows)]
    content = sheet("strange", found, [Column("auc", "AUC", "figure")])
    packed(content)
    assert content["columns"][0]["values"][:5] == [0.25, None, "inf", None, None][:rows]


@example(399 / 4000, "chance")
@example(0.009996, "chance")
@given(
    st.floats(0, 1) | st.integers(0, 4000).map(lambda k: k / 4000),
    st.sampled_from(["figure", "signed", "chance"]),
)
def test_long_tables_keep_numbers_as_shown(value: float, how: str) -> None:
    (kept,) = as_shown([value], how)
    assert HOW[how](kept) == HOW[how](value)


def test_every_decimal_in_the_page_has_a_source(audit: Audit, text: str) -> None:
    body = re.sub(r"<(script|style|title)\b.*?</\1>", "", text, flags=re.S)
    body = re.sub(r"<data .*?</data>", "", body)
    body = re.sub(r'<p[^>]*data-from="[^"]+">.*?</p>', "", body, flags=re.S)
    body = re.sub(r"<figure.*?</figure>", "", body, flags=re.S)
    left = set(re.findall(r"\d+\.\d+", re.sub(r"<[^>]+>", " ", body)))
    # Numbers of the prose: colours of the map, level, false-discovery rate, an AUC of guessing.
    assert left <= {"0.05", "0.15", "0.1", "0.5", *re.findall(r"\d+\.\d+", synthleak.__version__)}
    for source in ("headline", "cells/0/verdict"):
        there = Results(audit.folder.results).summary
        for part in source.split("/"):
            there = there[int(part)] if isinstance(there, list) else there[part]
        assert said_in(text, source) == there


def said_in(text: str, source: str) -> str:
    """Return the words that a page shows from a place in the summary, without marks and tags."""
    shown = re.search(rf'data-from="summary/{source}">(.*?)</p>', text, re.S)
    assert shown is not None
    marked = re.sub(r'<span aria-hidden="true">.*?</span>', "", shown[1])
    return html.unescape(re.sub(r"<[^>]+>", "", marked)).strip()


def quoted(texts: list[str], text: str) -> list[str]:
    """Return the texts that occur in a page, in sight or packed."""
    whole = text + json.dumps(list(unpacked(text).values()), ensure_ascii=False)
    return [one for one in texts if one in whole or json.dumps(one)[1:-1] in whole]


def test_private_texts_are_not_in_the_page(text: str, private: list[Record]) -> None:
    texts = [record.text for record in private]
    assert min(map(len, texts)) > 10
    assert quoted(texts, text) == []
    assert "Confidential" not in text


def test_texts_that_are_asked_for_mark_the_page(audit: Audit, private: list[Record]) -> None:
    pool = {record.text for record in records_at(audit.setup, audit.setup.pools["outlier"].targets)}
    path = write_report(audit.folder.root, include_text=True)
    assert path.name == "report-confidential.html"
    content = path.read_text(encoding="utf-8")
    assert pool <= set(quoted([record.text for record in private], content))
    assert "<title>CONFIDENTIAL" in content and 'class="confidential-mark"' in content


def test_policy_allows_only_hashed_scripts_and_styles(text: str) -> None:
    found = re.search(r'http-equiv="Content-Security-Policy" content="([^"]+)"', text)
    assert found is not None
    said = found[1].replace("&#39;", "'")
    assert "unsafe" not in said and "default-src 'none'" in said
    scripts = re.findall(r"<script>(.*?)</script>", text, re.S)
    styles = re.findall(r"<style>(.*?)</style>", text, re.S)
    assert said == policy(scripts, styles)
    assert len(scripts) == 2 and len(styles) == 1
    markup = re.sub(r"<script.*?</script>", "", text, flags=re.S)
    assert not re.search(r'<[^>]+\s(?:style|on\w+|src)="', markup)


def test_markup_in_data_is_escaped(text: str) -> None:
    assert "<img" not in re.sub(r"<script>.*?</script>", "", text, flags=re.S)
    assert "<script>globalThis.hacked" not in text
    ids = unpacked(text)["sheet-records"]["columns"][0]["words"]
    assert any(word.startswith("<img src=x onerror=") for word in ids)


def test_missing_table_is_one_line(audit: Audit) -> None:
    tables = audit.results.tables
    kept = {name: tables[name] for name in ("cells", "proxies")}
    bare = render(dataclasses.replace(audit.results, tables=kept, outcomes=())).decode()
    titles = {name: words[0] for name, words in words_in("words.html").TOPICS.items()}
    assert titles.keys() == {*TOPICS, "more"}
    for name in TOPICS:
        assert f"<dt>{titles[name]}</dt><dd>" in bare
        # The figure of budgets is drawn from the cells.
        assert (f'id="topic-{name}"' in bare) == (name == "removal")
    assert "Not available: no record was in some releases" in bare
    assert "No prior attacks: the spec names none" in bare


def test_a_cohort_names_records_with_an_error_rate(leaky: Audit) -> None:
    made = leaky
    content = (leaky.folder.root / "report.html").read_text(encoding="utf-8")
    count = len({row.record for row in made.records if (row.q_value or 0) <= 0.1})
    assert count > 0
    assert re.search(rf"{count} records? (is|are) named in some cell", content)
    assert "game of one target at a time" in content
    columns = [c["field"] for c in unpacked(content)["sheet-records"]["columns"]]
    assert {"auc", "p_value", "q_value", "v"} <= set(columns)
    proxies = {c["field"]: c for c in unpacked(content)["sheet-proxies"]["columns"]}
    assert proxies["tail"]["title"] == "Top tenth"
    assert "tail1" not in proxies
    drawn = next(figure for figure in Page(made.results).figures if figure.name == "proxies")
    shown = json.dumps(drawn.spec)
    assert "mean AUC of the tenth of records that leak most" in shown
    assert "FPR" not in shown
    assert '<div class="verdict strong">' in content
    results = Results(made.folder.results)
    assert [one for one in numbers(content) if not holds(results, *one)] == []


def test_the_page_never_calls_a_release_safe(audit: Audit, text: str) -> None:
    words = re.sub(r"<script.*?</script>", "", text, flags=re.S)
    assert not re.search(r"\bsafe\b", words, re.I)
    for verdict in (Verdict(FOUND), Verdict(NONE_FOUND), Verdict(CANNOT_SAY, "too few trials")):
        steps = next_steps(Page(judged(audit.results, *[verdict] * len(audit.results.cells))))
        assert steps and not any(re.search(r"\bsafe\b", step, re.I) for step in steps)


@pytest.mark.parametrize(
    ("verdict", "beyond", "expected"),
    [
        (Verdict(FOUND), 0.2, "3"),
        (Verdict(FOUND), 0.1, "2"),
        (Verdict(FOUND), 0.01, "1"),
        (Verdict(FOUND), -0.01, "0"),
        (Verdict(NONE_FOUND), 0.2, "near"),
        (Verdict(NONE_FOUND), -0.2, "0"),
        (Verdict(FOUND, contradiction=(0.01, 1.0, 3.2)), 0.2, "3"),
        (Verdict(CANNOT_SAY, "no test could be made"), 0.2, "unknown"),
        (Verdict(FOUND), None, "unknown"),
    ],
)
def test_colour_needs_a_verdict_and_a_ceiling(
    verdict: Verdict, beyond: float | None, expected: str
) -> None:
    assert level(Said(Cell("c", "p", "g", 1.0), 0, verdict), beyond) == expected


def test_the_command_writes_the_page_again(audit: Audit, tmp_path: Path, text: str) -> None:
    out = tmp_path / "audit.html"
    done = CliRunner().invoke(cli, ["report", str(audit.folder.root), "--out", str(out)])
    assert done.exit_code == 0 and done.output.startswith(str(out))
    assert out.read_text(encoding="utf-8") == text == render(audit.results).decode()


def test_report_of_missing_audit_is_user_error(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="not a run folder"):
        write_report(tmp_path)


def test_the_page_of_an_unfinished_audit_is_refused(audit: Audit, tmp_path: Path) -> None:
    import shutil

    out = tmp_path / "run"
    shutil.copytree(audit.folder.root, out)
    (out / "results" / "cells.csv").unlink()
    with pytest.raises(UserError, match=r"results are not written.*run"):
        write_report(out)
    for path in sorted((out / "store" / "release").iterdir())[:2]:
        path.unlink()
    with pytest.raises(UserError, match="not finished"):
        write_report(out)


def test_glossary_in_the_page_equals_the_documented_one(audit: Audit) -> None:
    docs = Path(__file__).parents[2] / "docs"
    made = subprocess.run(
        [sys.executable, "-c", "import make_glossary as m; print(m.glossary(), end='')"],
        cwd=docs, capture_output=True, text=True, check=True, env=os.environ | {"PYTHONUTF8": "1"},
    ).stdout  # fmt: skip
    page = render(audit.results).decode()
    assert made.count("<dt>") > 15 and made.strip() in page
    assert page.index('href="#glossary"') < page.index('id="verdict"') < page.index('id="glossary"')
