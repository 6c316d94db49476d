"""The sign-off: the report's words and numbers on one page, with hashes and without texts."""

from __future__ import annotations

import hashlib
import math
import re
import shutil
from dataclasses import replace
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from support.reading import Results, holds, numbers
from synthleak import Audit, UserError, open_run
from synthleak.cli.main import cli
from synthleak.corpus import Record
from synthleak.report.first_screen import decisions
from synthleak.report.html import render
from synthleak.report.page import Page
from synthleak.report.sign_off import LISTED
from synthleak.report.writing import plain

KINDS = ("audit", "leaky", "checked")


@pytest.fixture(params=KINDS)
def one(request: pytest.FixtureRequest) -> Audit:
    found: Audit = request.getfixturevalue(request.param)
    return found


def written(audit: Audit, tmp_path: Path, ending: str, by: str | None = None) -> str:
    return audit.sign_off(tmp_path / f"signed.{ending}", by=by).read_text(encoding="utf-8")


def words_of(html: str) -> str:
    return " ".join(unescape(re.sub(r"<style>.*?</style>|<[^>]+>", "", html, flags=re.S)).split())


def test_numbers_of_the_page_stand_in_the_tables(one: Audit, tmp_path: Path) -> None:
    found = numbers(written(one, tmp_path, "html"))
    results = Results(one.folder.results)
    assert len(found) >= 8
    assert [number for number in found if not holds(results, *number)] == []


def test_both_formats_say_what_the_report_says(one: Audit, tmp_path: Path) -> None:
    html, markdown = words_of(written(one, tmp_path, "html")), written(one, tmp_path, "md")
    page = Page(one.results)
    rows = decisions(page)
    report = words_of(render(one.results).decode())
    advice = re.findall(r"\*\*((?:No|Not yet|Undecided|Your decision)\b.+?)\*\* \(?.*?\|", markdown)
    assert len(advice) == len(rows)
    for words in (*page.headline, *(re.sub(r"\\(.)", r"\1", said) for said in advice)):
        assert words in html and words in report and plain(words) in markdown
    for row in rows:
        assert row.said.words in html and plain(row.said.words) in markdown
        assert markdown.count(f"\n| {plain(row.name)}") == 1
    for line in re.findall(r"^- \*\*(.+?):\*\* (.+)$", markdown, flags=re.M):
        assert all(re.sub(r"\\(.)", r"\1", part).replace("`", "") in html for part in line)


def test_hashes_of_the_page_are_those_of_the_files(one: Audit, tmp_path: Path) -> None:
    for ending in ("html", "md"):
        said = re.findall(r"[0-9a-f]{64}", written(one, tmp_path, ending))
        files = [one.folder.root / name for name in LISTED]
        assert said == [hashlib.sha256(file.read_bytes()).hexdigest() for file in files]


def test_the_sign_off_holds_no_text_id_or_markup_of_data(
    audit: Audit, checked: Audit, private: list[Record], tmp_path: Path
) -> None:
    for ending in ("html", "md"):
        page = written(audit, tmp_path, ending)
        assert "<img" not in page and "<script" not in page
        assert [r.id for r in private if r.text in page] == []
        page = written(checked, tmp_path, ending)
        texts = [record.text for record in checked.setup.corpus.records]
        assert [text for text in texts if text in page] == []
        assert checked.named and [r.record for r in checked.named if r.record in page] == []


def test_signer_is_written_or_left_blank(audit: Audit, tmp_path: Path) -> None:
    name = "A. <b>|Officer"
    assert "A. &lt;b&gt;|Officer</dd>" in written(audit, tmp_path, "html", name)
    assert r"| A. &lt;b>\|Officer |" in written(audit, tmp_path, "md", name)
    assert written(audit, tmp_path, "html").count('class="blank"></dd>') == 2


def test_report_command_writes_the_sign_off(leaky: Audit, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(leaky.folder.root, run)
    (run / "report.html").touch()
    before = (run / "manifest.json").read_bytes()

    def asked(*words: str | Path) -> tuple[int, str]:
        done = CliRunner().invoke(cli, ["report", str(run), *map(str, words)])
        return done.exit_code, f"{done.stdout}{done.exception or ''}"

    code, said = asked("--sign-off", "--by", "A. Officer")
    assert code == 0 and str(run / "sign-off.html") in said
    assert "A. Officer</dd>" in (run / "sign-off.html").read_text(encoding="utf-8")
    assert asked("--sign-off", tmp_path / "filed.MD")[0] == 0
    assert (tmp_path / "filed.MD").read_text(encoding="utf-8").startswith("# Sign-off: ")
    assert (run / "manifest.json").read_bytes() == before
    for words, reason in (
        (("--sign-off", "filed.pdf"), "end the name in .html or .md"),
        (("--by", "A. Officer"), "add --sign-off"),
        (("--sign-off", "--include-text"), "--include-text: not possible with --sign-off"),
        (("--sign-off", "--out", "a.html"), "--out: not possible with --sign-off"),
    ):
        code, said = asked(*words)
        assert code == 1 and reason in said
    (run / "results" / "cells.csv").write_text("altered", encoding="utf-8")
    assert "altered since (results/cells.csv)" in asked("--sign-off")[1]
    with pytest.raises(UserError, match="not finished"):
        open_run(run).sign_off(tmp_path / "never.html")
    assert not (tmp_path / "never.html").exists()


CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")


@pytest.mark.skipif(CHROMIUM is None, reason="needs Debian's chromium: not found")
def test_the_sign_off_fits_one_sheet_and_a_telephone(
    audit: Audit, checked: Audit, tmp_path: Path
) -> None:
    playwright = pytest.importorskip("playwright.sync_api", reason="needs the extra dev")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        for made in (audit, checked):
            tab = browser.new_page(viewport={"width": 390, "height": 900})
            complaints: list[str] = []
            tab.on("console", lambda said, kept=complaints: kept.append(said.text))
            tab.goto(made.sign_off(tmp_path / "signed.html").as_uri())
            assert tab.evaluate("document.documentElement.scrollWidth") <= 390
            sheets = re.findall(rb"/Type\s*/Page\b", tab.pdf(prefer_css_page_size=True))
            assert len(sheets) == 1 and complaints == []
        browser.close()


def limits_of(results: Any) -> str:
    page = words_of(render(results).decode())
    return page[page.index("None found is not proof") :]


def test_only_a_cell_of_ngram_without_privacy_is_called_another_generator(audit: Audit) -> None:
    results = audit.results
    words = "Without privacy is another generator"
    assert any(math.isinf(one.cell.epsilon) for one in results.cells)
    assert words in limits_of(results)
    finite = tuple(one for one in results.cells if not math.isinf(one.cell.epsilon))
    tables = {name: results.tables[name] for name in ("cells", "proxies")}
    assert words not in limits_of(replace(results, cells=finite, tables=tables))
    facts = replace(results.facts, kinds={"ngram": "command"})
    assert words not in limits_of(replace(results, facts=facts))


def test_the_encoder_of_a_generator_from_elsewhere_is_asked_for(audit: Audit) -> None:
    assert "Encoder of the generator" not in limits_of(audit.results)
    kinds = {"vendor": "folder", "ngram": "ngram", "ours": "command"}
    facts = replace(audit.results.facts, kinds=kinds, same_encoder=False)
    said = limits_of(replace(audit.results, facts=facts))
    assert "If vendor or ours chooses texts by an encoder of its own" in said
