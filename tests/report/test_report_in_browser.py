"""The page in a real browser: Debian's Chromium, driven by Playwright."""

from __future__ import annotations

import csv
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from support.reading import Results, holds
from synthleak import Audit
from synthleak.audit.finished import write_report

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
playwright = pytest.importorskip("playwright.sync_api", reason="needs the extra dev: playwright")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs Debian's chromium: not found")

WIDE, NARROW, PAPER = 1280, 390, 690
Open = Callable[..., Any]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as driver:
        made = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield made
        made.close()


def opened(
    browser: Any, path: Path, complaints: list[str], *, width: int = WIDE, scheme: str = "light"
) -> Any:
    """Open a page in a tab of its own; it may ask for nothing and complain about nothing."""

    def refuse(route: Any) -> None:
        if route.request.url.startswith("file:"):
            route.continue_()
        else:
            complaints.append(f"request: {route.request.url}")
            route.abort()

    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    tab = context.new_page()
    tab.route("**/*", refuse)
    tab.on("console", lambda said: complaints.append(f"{said.type}: {said.text}"))
    tab.on("pageerror", lambda error: complaints.append(f"error: {error}"))
    tab.on("dialog", lambda dialog: complaints.append(f"dialog: {dialog.message}"))
    tab.goto(path.as_uri())
    tab.wait_for_selector("html[data-ready]")
    return tab


@pytest.fixture
def visit(browser: Any, audit: Audit) -> Iterator[Open]:
    """Open the report; whatever it complains about or asks the network for fails the test."""
    complaints: list[str] = []
    tabs = []

    def go(path: Path | None = None, **how: Any) -> Any:
        tab = opened(browser, path or audit.folder.root / "report.html", complaints, **how)
        tabs.append(tab)
        return tab

    yield go
    for tab in tabs:
        tab.context.close()
    assert complaints == []


@pytest.fixture(scope="module")
def whole(browser: Any, audit: Audit) -> Iterator[Any]:
    """The report with everything open and drawn, for tests that only look."""
    complaints: list[str] = []
    tab = opened(browser, audit.folder.root / "report.html", complaints)
    unfold(tab)
    yield tab
    tab.context.close()
    assert complaints == []


def until(tab: Any, holds: str) -> None:
    """Wait until something holds; Playwright's own way evaluates strings: the page forbids it."""
    for _ in range(600):
        if tab.evaluate(holds):
            return
        tab.wait_for_timeout(50)
    raise AssertionError(f"never came true: {holds}")


def unfold(tab: Any) -> None:
    """Open all sections and wait until all that they hold is drawn."""
    tab.evaluate("document.querySelectorAll('details').forEach(d => { d.open = true; })")
    for place in tab.query_selector_all(".sheet, .plot"):
        place.scroll_into_view_if_needed()
    until(
        tab,
        "[...document.querySelectorAll('.plot')].every(p => p.querySelector('svg'))"
        " && [...document.querySelectorAll('.sheet')].every(s => s.querySelector('tbody tr'))",
    )


def test_figures_of_closed_cells_wait_until_they_are_wanted(visit: Open) -> None:
    tab = visit()
    assert tab.locator("details.cell[open]").count() == 0
    tab.locator("details.cell > summary").first.click()
    tab.locator("details.cell[open] .plot").first.scroll_into_view_if_needed()
    tab.wait_for_selector("details.cell[open] .plot svg")
    assert tab.locator("details.cell:not([open]) .plot").count() > 4
    assert tab.locator("details.cell:not([open]) .plot svg").count() == 0


def test_every_figure_is_drawn_and_has_a_label(whole: Any) -> None:
    places = whole.query_selector_all(".plot")
    assert len(places) > 8
    for place in places:
        assert place.get_attribute("role") in ("img", "graphics-document")
        assert place.get_attribute("aria-label")
        assert place.query_selector("svg")


def test_a_square_of_the_map_leads_to_its_cell(visit: Open) -> None:
    tab = visit()
    closed = tab.locator("details.cell:not([open])").first.get_attribute("id")
    link = tab.locator(f'.map a[href="#{closed}"]').first
    tip = tab.locator(f"#{link.get_attribute('aria-describedby')}")
    for _ in range(50):  # figures above may still be drawn, which moves the square away
        link.hover()
        if tip.is_visible():
            break
        tab.wait_for_timeout(100)
    assert "chance limit" in tip.inner_text()
    tab.keyboard.press("Escape")
    tip.wait_for(state="hidden")
    link.click()
    cell = tab.locator(f"#{closed}")
    until(tab, f"document.getElementById('{closed}').open")
    assert cell.bounding_box()["y"] < 200
    assert tab.evaluate("document.activeElement.parentElement.id") == closed


def test_the_map_is_walked_by_keyboard(visit: Open) -> None:
    tab = visit()
    link = tab.locator(".map a").first
    for _ in range(20):  # what is drawn above the map meanwhile comes in between
        link.focus()
        tab.keyboard.press("Shift+Tab")
        tab.keyboard.press("Tab")
        if link.evaluate("link => link === document.activeElement"):
            break
    tab.locator(f"#{link.get_attribute('aria-describedby')}").wait_for(state="visible")
    tab.keyboard.press("Enter")
    until(tab, "location.hash.startsWith('#cell-')")
    until(tab, "document.querySelector(location.hash).open")


def records(audit: Audit) -> list[dict[str, str]]:
    with (audit.folder.results / "records.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def place_of(tab: Any, title: str) -> int:
    heads = tab.locator("[data-sheet=records] thead th").all_inner_texts()
    return next(i for i, head in enumerate(heads, 1) if head.split()[0] == title)


def shown(tab: Any, title: str) -> list[str]:
    place = place_of(tab, title)
    cells = tab.locator(f"[data-sheet=records] tbody tr > :nth-child({place})")
    return [text.strip() for text in cells.all_inner_texts()]


def test_the_table_of_records_sorts_filters_and_turns_leaves(visit: Open, audit: Audit) -> None:
    tab, rows = visit(), records(audit)
    tab.locator("[data-sheet=records]").scroll_into_view_if_needed()
    tab.wait_for_selector("[data-sheet=records] tbody tr")
    cells = tab.locator("[data-sheet=records] label", has_text="Its cell").locator("select")
    if cells.count():
        cells.select_option(label="all")
    place = place_of(tab, "V")
    button = tab.locator(f"[data-sheet=records] thead th:nth-child({place}) button")
    button.click()
    known = sorted((float(row["v"]) for row in rows if row["v"]), reverse=True)
    first = tab.locator("[data-sheet=records] tbody data[data-from$='/v']").first
    assert float(first.get_attribute("value")) == known[0]
    values = tab.locator("[data-sheet=records] tbody data[data-from$='/v']")
    given = [float(value) for value in values.evaluate_all("all => all.map(d => d.value)") if value]
    assert given == known[: len(given)]
    head = tab.locator(f"[data-sheet=records] thead th:nth-child({place})")
    assert head.get_attribute("aria-sort") == "descending"
    button.click()
    assert float(first.get_attribute("value")) == known[-1]

    status = tab.locator("[data-sheet=records] [role=status]")
    assert status.inner_text().endswith(f" of {len(rows)}")
    wanted = rows[0]["record"]
    tab.locator("[data-sheet=records] input[type=search]").fill(wanted)
    count = sum(wanted.lower() in row["record"].lower() for row in rows)
    assert status.inner_text() == f"1–{count} of {count}"
    assert all(wanted.lower() in one.lower() for one in shown(tab, "Record"))
    tab.locator("[data-sheet=records] input[type=search]").fill("no such record")
    assert status.inner_text() == "No row matches."
    tab.locator("[data-sheet=records] input[type=search]").fill("")
    tab.locator("[data-sheet=records] label", has_text="Pool").locator("select").select_option(
        label="random"
    )
    assert set(shown(tab, "Pool")) == {"random"}
    count = sum(row["pool"] == "random" for row in rows)
    assert status.inner_text().endswith(f" of {count}")


def test_markup_in_ids_and_descriptions_is_inert(visit: Open) -> None:
    tab = visit()
    tab.locator("[data-sheet=records]").scroll_into_view_if_needed()
    tab.locator("[data-sheet=records] input[type=search]").fill("onerror")
    assert shown(tab, "Record")[0].startswith('<img src=x onerror="globalThis.hacked=1">')
    assert tab.locator("img").count() == 0
    assert tab.evaluate("globalThis.hacked") is None


def test_numbers_that_the_browser_draws_equal_their_tables(whole: Any, audit: Audit) -> None:
    found = whole.evaluate(
        "[...document.querySelectorAll('data[data-from]')]"
        ".map(d => [d.value, d.dataset.from, d.dataset.how, d.textContent])"
    )
    assert sum(one[1].startswith("proxies/") for one in found) > 20
    assert sum(one[1].startswith("records/") for one in found) > 50
    results = Results(audit.folder.results)
    assert [one for one in found if not holds(results, *one)] == []


CONTRAST = """
() => {
  const light = (colour) => {
    const parts = colour.match(/[\\d.]+/g).map(Number);
    const lin = parts.slice(0, 3).map(v => v / 255)
      .map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    const alpha = parts.length > 3 ? parts[3] : 1;
    return { l: 0.2126 * lin[0] + 0.7152 * lin[1] + 0.0722 * lin[2], a: alpha };
  };
  const behind = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const style = getComputedStyle(at);
      if (style.backgroundImage !== 'none') return null;
      const colour = light(style.backgroundColor);
      if (colour.a === 1) return colour.l;
    }
    return 1;
  };
  const poor = [];
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const element = walk.currentNode.parentElement;
    if (!walk.currentNode.data.trim() || !element.checkVisibility()) continue;
    if (element.closest('script, .vh, :disabled, .confidential-mark')) continue;
    const style = getComputedStyle(element);
    const painted = element.closest('svg') ? style.fill : style.color;
    const back = behind(element);
    if (back === null || !painted.startsWith('rgb')) continue;
    const ink = light(painted).l;
    const ratio = (Math.max(ink, back) + 0.05) / (Math.min(ink, back) + 0.05);
    if (ratio < 4.5) poor.push([walk.currentNode.data.trim().slice(0, 40), ratio]);
  }
  return poor;
}
"""


@pytest.mark.parametrize("scheme", ["dark", "light"])
def test_text_has_aa_contrast_in_light_and_dark(whole: Any, scheme: str) -> None:
    whole.emulate_media(color_scheme=scheme)
    back = whole.evaluate("getComputedStyle(document.body).backgroundColor")
    channels = [int(part) for part in back[4:-1].split(",")]
    assert (max(channels) < 60) if scheme == "dark" else (min(channels) > 240)
    assert whole.evaluate(CONTRAST) == []


def test_the_theme_can_be_chosen(visit: Open) -> None:
    tab = visit(scheme="light")
    for wanted in ("light", "dark"):
        tab.locator("#theme").click()
        assert tab.evaluate("document.documentElement.dataset.theme") == wanted
    back = tab.evaluate("getComputedStyle(document.body).backgroundColor")
    assert max(int(part) for part in back[4:-1].split(",")) < 60


def test_the_printed_page_is_light_open_and_without_controls(visit: Open) -> None:
    tab = visit(scheme="dark")
    tab.emulate_media(media="print", color_scheme="dark")
    tab.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert tab.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert tab.locator("details.cell:not([open])").count() == 0
    assert tab.locator("nav").is_hidden() and tab.locator(".bar").first.is_hidden()
    assert tab.evaluate(CONTRAST) == []
    tab.evaluate("dispatchEvent(new Event('afterprint'))")
    assert tab.locator("details.cell:not([open])").count() > 0
    paper = tab.pdf(format="A4")
    assert paper.startswith(b"%PDF") and paper.count(b"/Type /Page\n") >= 3


def sticks_out(tab: Any) -> int:
    return int(tab.evaluate("document.documentElement.scrollWidth - innerWidth"))


def test_nothing_overflows_wide_screens_or_paper(whole: Any) -> None:
    assert sticks_out(whole) <= 0
    whole.set_viewport_size({"width": PAPER, "height": 900})
    whole.emulate_media(media="print")
    assert sticks_out(whole) <= 0
    whole.emulate_media(media="screen")
    whole.set_viewport_size({"width": WIDE, "height": 900})


def test_nothing_sticks_out_of_a_narrow_page(visit: Open) -> None:
    tab = visit(width=NARROW)
    unfold(tab)
    assert sticks_out(tab) <= 0
    assert tab.locator(".map a").first.bounding_box()["height"] >= 24, "wide enough for a finger"


def test_a_confidential_page_says_so_on_screen_and_paper(visit: Open, audit: Audit) -> None:
    tab = visit(write_report(audit.folder.root, include_text=True))
    mark = tab.locator(".confidential-mark")
    assert mark.is_visible() and "Do not pass it on" in mark.inner_text()
    tab.emulate_media(media="print")
    assert mark.is_visible()
    assert tab.title().startswith("CONFIDENTIAL")
    tab.emulate_media(media="screen")
    tab.locator("[data-sheet=records]").scroll_into_view_if_needed()
    tab.wait_for_selector("[data-sheet=records] td.text")
    texts = {record.text for record in audit.setup.corpus.records}
    assert set(tab.locator("td.text").all_inner_texts()) <= {text.strip() for text in texts}


def test_without_scripts_the_page_still_speaks(browser: Any, audit: Audit) -> None:
    context = browser.new_context(java_script_enabled=False)
    tab = context.new_page()
    tab.goto((audit.folder.root / "report.html").as_uri())
    assert tab.locator(".verdict .lead").is_visible()
    assert tab.locator(".decisions tbody tr").count() == 2
    assert "results/records.csv" in tab.locator("[data-sheet=records]").inner_text()
    assert tab.locator("#theme").is_hidden()
    context.close()


def test_everything_that_can_be_used_has_a_name(whole: Any) -> None:
    tab = whole
    nameless = tab.evaluate(
        """[...document.querySelectorAll('a, button, input, select, summary, [role=region]')]
        .filter(e => !(e.textContent.trim() || e.getAttribute('aria-label')
          || (e.labels && e.labels.length)))
        .map(e => e.outerHTML.slice(0, 80))"""
    )
    assert nameless == []
    unscoped = tab.evaluate("[...document.querySelectorAll('th')].filter(h => !h.scope).length")
    assert unscoped == 0
    twice = tab.evaluate(
        "(ids => ids.length - new Set(ids).size)"
        "([...document.querySelectorAll('[id]')].map(e => e.id))"
    )
    assert twice == 0


def test_few_members_have_no_dots(visit: Open, audit: Audit) -> None:
    assert all(one.few is not None for one in audit.results.cells)
    assert visit().locator(".decisions .dots, .legend .dots").count() == 0


def test_a_hundred_dots_show_who_is_recognised(
    visit: Open, audit: Audit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("synthleak.report.results.FEWEST", 0)
    audit.write_report(tmp_path / "many.html")
    tab = visit(tmp_path / "many.html")
    drawn = tab.evaluate(
        """[...document.querySelectorAll('.decisions tbody tr')].filter(row =>
        row.querySelector('.dots')).map(row => [row.querySelector('th a').getAttribute('href'),
          [...row.querySelectorAll('.dots path')].map(path => [path.getAttribute('class'),
            (path.getAttribute('d').match(/M/g) || []).length])])"""
    )
    cells = Results(audit.folder.results).summary["cells"]
    said = [one.verdict.kind for one in audit.results.cells]
    assert len(drawn) == 2 - ("cannot" in said)
    for link, dots in drawn:
        cell = cells[int(link.removeprefix("#cell-")) - 1]
        rate, limit = (round(100 * cell["crossfit_tpr"][key]) for key in ("value", "null"))
        assert dict(dots) == {
            "beyond": max(0, rate - limit),
            "chance": min(rate, limit),
            "missed": 100 - rate,
        }
    boxes = [path.bounding_box() for path in tab.locator(".decisions .dots path.missed").all()]
    assert all(box["width"] > 50 for box in boxes)
    inks = tab.evaluate(
        "['beyond', 'chance', 'missed'].map(kind => getComputedStyle("
        "document.querySelector('.dots.key .' + kind)).strokeWidth)"
    )
    assert len(set(inks)) == 3, "told apart by size, not by colour alone"


@pytest.mark.parametrize("width", [WIDE, NARROW])
def test_index_stays_in_view_and_shows_the_place(visit: Open, width: int) -> None:
    tab = visit(width=width)
    assert tab.locator("nav a").first.get_attribute("aria-current") == "true"
    tab.locator('nav a[href="#method"]').click()
    until(tab, "document.querySelector('nav a[aria-current]').hash === '#method'")
    assert tab.evaluate("scrollY") > 500
    box = tab.locator("nav").bounding_box()
    assert 0 <= box["y"] < 50
    title = tab.locator("#method-title").bounding_box()
    assert 0 <= title["y"] < 300
    if width == NARROW:
        assert title["y"] >= box["y"] + box["height"], "not hidden behind the index"


def test_research_is_behind_one_fold(visit: Open) -> None:
    tab = visit()
    topics = tab.locator("[id^=topic-]")
    assert topics.count() >= 4
    assert not any(topic.is_visible() for topic in topics.all())
    tab.locator('nav a[href="#research"]').click()
    until(tab, "document.getElementById('research').open")
    assert all(topic.is_visible() for topic in topics.all())
    tab.locator("#research > summary").click()
    tab.evaluate("location.hash = '#topic-gap'")
    until(tab, "document.getElementById('research').open")
    assert tab.locator("#topic-gap").is_visible()


def test_a_named_record_opens_its_synthetic_rows(visit: Open, leaky: Audit) -> None:
    tab = visit(leaky.folder.root / "report.html")
    tab.locator("[data-sheet=records]").scroll_into_view_if_needed()
    name = tab.locator("[data-sheet=records] .open").first
    name.click()
    name = tab.locator("[data-sheet=records] .open").first
    assert name.get_attribute("aria-expanded") == "true"
    assert tab.evaluate("document.activeElement.className") == "open"
    rows = [row for row in leaky._nearest if row.record == name.inner_text()]
    lines = tab.locator("tr.nearest tbody tr")
    assert lines.count() == len(rows) == 3
    values = tab.locator("tr.nearest data[data-from$='/row']").evaluate_all(
        "all => all.map(d => Number(d.value))"
    )
    assert values == [row.row for row in rows]
    assert [line.inner_text().split("\t")[0] for line in lines.all()] == [r.release for r in rows]
    results = Results(leaky.folder.results)
    found = tab.evaluate(
        "[...document.querySelectorAll('tr.nearest data')]"
        ".map(d => [d.value, d.dataset.from, d.dataset.how, d.textContent])"
    )
    assert [one for one in found if not holds(results, *one)] == []
    assert tab.locator("tr.nearest .text").count() == 0
    name.click()
    assert tab.locator("tr.nearest").count() == 0


def test_names_are_printed_as_small_as_the_rest_of_their_row(visit: Open, leaky: Audit) -> None:
    tab = visit(leaky.folder.root / "report.html")
    tab.locator("[data-sheet=records]").scroll_into_view_if_needed()
    tab.wait_for_selector("[data-sheet=records] .open")
    tab.emulate_media(media="print")
    sizes = tab.locator("[data-sheet=records] :is(.open, td)").evaluate_all(
        "all => all.map(one => getComputedStyle(one).fontSize)"
    )
    assert len(sizes) > 2 and len(set(sizes)) == 1


def test_a_confidential_page_quotes_synthetic_rows(visit: Open, leaky: Audit) -> None:
    tab = visit(leaky.write_report(include_text=True))
    tab.locator("[data-sheet=records]").scroll_into_view_if_needed()
    tab.locator("[data-sheet=records] .open").first.click()
    record = tab.locator("[data-sheet=records] .open").first.inner_text()
    text = next(item.text for item in leaky.setup.corpus.records if item.id == record)
    assert tab.locator("tr.nearest .text").first.inner_text() == " ".join(text.split())


def test_print_mode_draws_everything_at_once(visit: Open) -> None:
    tab = visit()
    tab.locator('nav a[href="#print"]').click()
    until(tab, "document.documentElement.dataset.all === 'drawn'")
    assert tab.locator("details:not([open])").count() == 0
    assert tab.locator(".plot").count() == tab.locator(".plot svg.marks").count() > 8
    assert tab.evaluate(
        "[...document.querySelectorAll('.sheet')].every(s => s.querySelector('tbody tr'))"
    )


BROKEN_WORDS = """
() => {
  const broken = [];
  const walk = document.createTreeWalker(document.querySelector('main'), NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const node = walk.currentNode, parent = node.parentElement;
    if (!parent.checkVisibility() || parent.closest('script, svg, .vh, .sheet')) continue;
    for (const found of node.data.matchAll(/[\\p{L}\\p{N}_.]+/gu)) {
      const range = document.createRange();
      range.setStart(node, found.index);
      range.setEnd(node, found.index + found[0].length);
      const lines = new Set([...range.getClientRects()].map(box => Math.round(box.top)));
      if (lines.size > 1) broken.push(found[0]);
    }
  }
  return broken;
}
"""


def test_no_word_is_broken_on_a_narrow_page(visit: Open) -> None:
    tab = visit(width=NARROW)
    unfold(tab)
    assert tab.evaluate(BROKEN_WORDS) == []
    table = tab.locator("details.cell .stack").first
    cells = [cell.bounding_box() for cell in table.locator("tbody tr").first.locator("td").all()]
    assert len(cells) > 1 and len({round(box["x"]) for box in cells}) == 1, "stacked"


def test_a_checks_page_fits_and_has_no_empty_section(visit: Open, checked: Audit) -> None:
    tab = visit(checked.folder.root / "report.html", width=NARROW)
    unfold(tab)
    assert sticks_out(tab) <= 0
    assert tab.evaluate(BROKEN_WORDS) == []
    assert tab.locator(".lacks").count() == 0
    assert tab.locator("h1").inner_text() == "Privacy check of spring"
