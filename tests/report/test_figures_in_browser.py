"""Figures in a real browser, under a policy that forbids eval, inline styles and every request."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from synthleak import Audit, compare
from synthleak.report.compare import render_comparison
from synthleak.report.figures.all_figures import all_figures
from synthleak.report.figures.figure import palette, runtime_script, runtime_style
from synthleak.report.writing import policy

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
playwright = pytest.importorskip("playwright.sync_api", reason="needs the extra dev: playwright")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs Debian's chromium: not found")

START = """
for (const box of document.querySelectorAll("[data-figure]")) {
  const spec = JSON.parse(document.getElementById(box.dataset.figure).textContent);
  synthleakFigure(box, spec).then(() => { box.dataset.drawn = "yes"; });
}
"""
PAPER = "body { background: var(--sl-paper); margin: 8px; }"


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as driver:
        made = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield made
        made.close()


@pytest.fixture(scope="module")
def page(audit: Audit, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page of all figures of a cell and of the study; a section of it is closed at first."""
    cell = audit.setup.cells[0]
    figures = [f for f in all_figures([audit.results]).values() if f.cell in (None, cell)]
    scripts, styles = [runtime_script(), START], [runtime_style() + PAPER]
    boxes = []
    for number, figure in enumerate(figures):
        spec = json.dumps(figure.for_page()).replace("<", "\\u003c")
        boxes.append(
            f'<div id="box{number}" data-figure="spec{number}"></div>'
            f'<script type="application/json" id="spec{number}">{spec}</script>'
        )
    boxes[0] = f'<details id="closed"><summary>more</summary>{boxes[0]}</details>'
    path = tmp_path_factory.mktemp("figures") / "figures.html"
    path.write_text(
        '<!doctype html><html lang="en"><meta charset="utf-8"><title>figures</title>'
        f'<meta http-equiv="Content-Security-Policy" content="{policy(scripts, styles)}">'
        f"<style>{styles[0]}</style>{''.join(boxes)}"
        + "".join(f"<script>{script}</script>" for script in scripts),
        encoding="utf-8",
    )
    return path


def visit(browser: Any, path: Path, **settings: Any) -> tuple[Any, list[str]]:
    complaints: list[str] = []
    tab = browser.new_context(**settings).new_page()
    tab.on("console", lambda said: complaints.append(said.text))
    tab.on("pageerror", lambda error: complaints.append(str(error)))
    tab.on(
        "request",
        lambda asked: (
            complaints.append(asked.url)
            if "figures.html" not in asked.url and not asked.url.startswith("file:")
            else None
        ),
    )
    tab.goto(path.as_uri())
    return tab, complaints


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_figures_are_drawn_without_overflow_or_warnings(
    browser: Any, page: Path, width: int, scheme: str
) -> None:
    tab, complaints = visit(
        browser, page, viewport={"width": width, "height": 800}, color_scheme=scheme
    )
    boxes = tab.locator("[data-figure]").count()
    tab.locator("[data-drawn]").nth(boxes - 2).wait_for(state="attached", timeout=20_000)
    assert tab.locator("#box0 svg").count() == 0
    tab.locator("#closed summary").click()
    tab.wait_for_selector("#box0 svg")
    assert tab.locator("[data-figure] svg").count() == boxes
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    for box in tab.locator("[data-figure]").all():
        assert box.get_attribute("role") == "img" and len(box.get_attribute("aria-label")) > 20
    ink = palette()[scheme]["ink"].lstrip("#")
    red, green, blue = (int(ink[k : k + 2], 16) for k in (0, 2, 4))
    found = tab.evaluate("getComputedStyle(document.querySelector('#box1 svg text')).fill")
    assert found == f"rgb({red}, {green}, {blue})"
    assert complaints == []


def test_print_is_light_and_a_tooltip_is_text(browser: Any, page: Path) -> None:
    tab, complaints = visit(
        browser, page, viewport={"width": 900, "height": 800}, color_scheme="dark"
    )
    place = tab.evaluate(
        """async () => {
          const specs = [...document.querySelectorAll("script[type='application/json']")];
          return specs.findIndex((s) => s.textContent.includes("most vulnerable first"));
        }"""
    )
    box = tab.locator(f"#box{place}")
    box.locator("svg").wait_for()
    box.scroll_into_view_if_needed()
    box.locator("svg path[aria-roledescription='bar'], svg .mark-rect path").first.hover()
    tab.wait_for_selector(".sl-tip:not([hidden])")
    assert "record" in tab.locator(".sl-tip").inner_text()
    assert tab.locator(".sl-tip img").count() == 0
    tab.emulate_media(media="print")
    paper = tab.evaluate("getComputedStyle(document.body).backgroundColor")
    assert paper == "rgb(255, 255, 255)"
    assert tab.evaluate("globalThis.hacked") is None
    assert complaints == []


def test_the_page_of_a_comparison_is_drawn(browser: Any, audit: Audit, tmp_path: Path) -> None:
    path = tmp_path / "compare.html"
    path.write_bytes(render_comparison(compare([("one", audit), ("<img src=x>", audit)])))
    tab, complaints = visit(browser, path, viewport={"width": 390, "height": 800})
    tab.wait_for_selector("[data-figure] svg")
    assert tab.evaluate("document.documentElement.scrollWidth") <= 390
    assert complaints == []
