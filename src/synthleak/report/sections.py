"""Sections of the page: who leaks, canaries, the map, the cells, and a topic per question."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from markupsafe import Markup

from synthleak.analyses.analysis import analyses
from synthleak.core.cell import FOUND, WORDS, Cell
from synthleak.metrics.verdict_statistics import by_column
from synthleak.report.page import Page, Said
from synthleak.report.verdict import PHRASES, capital
from synthleak.report.writing import Column, asset, sheet, tagged, telling, words_in

LAYOUT = tomllib.loads(asset("columns.toml"))
"""Columns of the tables, topics and headings: data, with what they are beside them."""
COLUMNS = {name: [Column(**one) for one in listed] for name, listed in LAYOUT["sheets"].items()}
TOPICS = LAYOUT["topics"]

# Who leaks: the table of records by id.

VERDICT = "verdict of the cell"
OF_GAMES = ("v_rank", "top_tenth")
"""Columns that say less than q in a check."""


def record_sheet(page: Page) -> dict[str, Any] | None:
    """Return the table of records for the page to draw; None where nothing compares records.

    Columns that tell no rows apart are left out. Records that are named are shown at first, else
    those of cells with a leak: ranks in the others are noise.
    """
    rows = page.rows("records")
    if not rows:
        return None
    columns = [
        column for column in COLUMNS["records"] if not page.given or column.field not in OF_GAMES
    ]
    content = sheet("records", rows, telling(rows, columns))
    verdicts = _cell_verdicts(page)
    if len(verdicts["words"]) > 1:
        content["columns"].append(verdicts)
        if WORDS[FOUND] in verdicts["words"]:
            content["chosen"] = {VERDICT: WORDS[FOUND]}
    if count_named(page):
        content.setdefault("chosen", {})["named"] = "yes"
    if page.texts:
        ids = content["columns"][0]["words"]
        content["texts"] = [page.texts.get(word, "") for word in ids]
    return content | {"nearest": _nearest(page)}


def _nearest(page: Page) -> dict[str, Any]:
    """Return the synthetic rows most like each named record: by its row of `records`."""
    rows = page.rows("nearest")
    places: dict[tuple[Cell, str], list[int]] = {}
    for place, row in enumerate(rows):
        places.setdefault((Cell.of(row), row.record), []).append(place)
    of_record = {
        number: places[key]
        for number, row in enumerate(page.rows("records"))
        if (key := (Cell.of(row), row.record)) in places
    }
    one_release = len({row.release for row in rows}) <= 1
    content = sheet("nearest", rows, COLUMNS["nearest"][one_release:])
    return content | {"of": of_record, "texts": list(page.nearest_texts)}


def _cell_verdicts(page: Page) -> dict[str, Any]:
    """Return the verdict on every row's cell: "leak found", whether or not a claim is broken."""
    by_cell = {one.cell: WORDS[FOUND] if one.leaks else one.words for one in page.verdicts}
    words = list(dict.fromkeys(by_cell.values()))
    return {
        "field": VERDICT,
        "title": "Its cell",
        "how": "words",
        "note": "the verdict on the cell as a whole",
        "words": words,
        "values": [words.index(by_cell[Cell.of(row)]) for row in page.rows("records")],
    }


def count_named(page: Page) -> int | None:
    """Count the different records that some cell names; None if no record was tested by itself."""
    tested = [row for row in page.rows("records") if row.q_value is not None]
    return len({row.record for row in tested if row.named}) if tested else None


# Canaries, apart from people's records.


def canaries(page: Page) -> list[dict[str, Any]]:
    """Return the cells of pools that were written for the test (docs/method.md §13).

    `place` is the first row of the cell in `cells`; `channels` says what marks came through.
    """
    pools, places = page.summary["pools"], page.places("cells")
    return [
        {
            "cell": cell,
            "place": places[cell][0],
            "targets": pools[cell.pool]["written"],
            "copies": pools[cell.pool]["copies"],
            "channels": _channels(page, cell),
            "promised": page.rows("cells")[places[cell][0]].epsilon_claim is not None,
        }
        for cell in page.cells
        if "written" in pools.get(cell.pool, {})
    ]


def _channels(page: Page, cell: Cell) -> list[str]:
    """Name the marks that pass their chance limit, and tell more than any text does."""
    if not next(one.leaks for one in page.verdicts if one.cell == cell):
        return []
    rows = [page.rows("proxies")[place] for place in page.places("proxies").get(cell, [])]
    by_text = max((row.auc for row in rows if row.family != "marker"), default=0.0)
    return [
        words
        for proxy, words in PHRASES["channel"].items()
        if any(
            row.proxy == proxy and row.auc > max(row.auc_ceiling or 1.0, by_text) for row in rows
        )
    ]


# The leakage map: pools by ε for every generator and attacker, by evidence above the chance limit.
# A square is coloured by how far the deployable AUC lies above its chance limit, and only where the
# adjusted p of the cell says that a leak was found; the raw AUC never colours anything
# (docs/method.md §8).

ANY_ATTACKER = "any"
STEPS = (0.05, 0.15)
"""Where the colours change, in AUC above the chance limit."""


@dataclass(frozen=True)
class Square:
    """One square: its cell, its level, and where its estimate stands."""

    said: Said
    level: str
    beyond: Markup | str
    figures: Mapping[str, Any]


@dataclass(frozen=True)
class Panel:
    """One attacker on one generator: a square for every pool and ε, None where not audited."""

    generator: str
    scenario: str
    budgets: list[float]
    rows: list[tuple[str, list[Square | None]]]


def maps(page: Page) -> list[Panel]:
    """Return the panels: every generator, any attacker first and then each alone.

    A cohort has the first only: there each record is compared with itself over the releases, so
    that what S2 and S3 subtract cancels out.
    """
    cohort = page.summary["game"]["design"] == "cohort"
    pools = list(dict.fromkeys(cell.pool for cell in page.cells))
    panels = []
    for generator in dict.fromkeys(cell.generator for cell in page.cells):
        said = {
            (one.cell.pool, one.cell.epsilon): one
            for one in page.verdicts
            if one.cell.generator == generator
        }
        budgets = sorted({epsilon for _, epsilon in said}, reverse=True)
        for scenario in (ANY_ATTACKER, *page.scenarios * (not cohort)):
            rows = [
                (pool, [_square(page, said.get((pool, budget)), scenario) for budget in budgets])
                for pool in pools
            ]
            panels.append(Panel(generator, scenario, budgets, rows))
    return panels


def _square(page: Page, said: Said | None, scenario: str) -> Square | None:
    if said is None:
        return None
    path, columns = f"summary/cells/{said.place}", LAYOUT["map"]["cell"]
    if scenario != ANY_ATTACKER:
        rows = page.rows("cells")
        places = [p for p in page.places("cells")[said.cell] if rows[p].scenario == scenario]
        if not places:
            return None
        path, columns = f"cells/{places[0]}", LAYOUT["map"]["attacker"]
    sources = {name: f"{path}/{column}" for name, column in columns.items()}
    value, ceiling = page.value(sources["auc"]), page.value(sources["ceiling"])
    beyond = None if value is None or ceiling is None else value - ceiling
    figures = {
        name: page.at(source, "chance" if name.startswith("p") else "figure")
        for name, source in sources.items()
    }
    difference = f"{sources['auc']} - {sources['ceiling']}"
    shown = "" if beyond is None else tagged(beyond, difference, "beyond")
    return Square(said, level(said, beyond), shown, figures)


def level(said: Said, beyond: float | None) -> str:
    """Return the colour of a square: evidence counts only where the cell's verdict is a leak."""
    if said.kind == "cannot" or beyond is None:
        return "unknown"
    if beyond <= 0:
        return "0"
    if not said.leaks:
        return "near"
    return str(1 + sum(beyond > step for step in STEPS))


# A section per cell: attackers side by side, every proxy, prior attacks, the claim.


def cell_sections(page: Page) -> list[dict[str, Any]]:
    """Return for every cell where its rows stand in the tables, and its figures in the page."""
    cells, proxies = page.places("cells"), page.places("proxies")
    comparison, ladder = page.places("comparison"), page.places("ladder")
    sections = []
    for said in page.verdicts:
        listed = proxies.get(said.cell)
        sections.append(
            {
                "said": said,
                "rows": {page.rows("cells")[p].scenario: p for p in cells[said.cell]},
                "proxies": (listed[0], listed[-1] + 1) if listed else (0, 0),
                "comparison": comparison[said.cell][0] if said.cell in comparison else None,
                "ladder": ladder.get(said.cell, []),
                "figures": [p for p, fig in enumerate(page.figures) if fig.cell == said.cell],
            }
        )
    return sections


def proxy_columns(statistics: Sequence[str]) -> list[Column]:
    """Return the columns of the table of proxies, with those of the named statistics."""
    columns = [*COLUMNS["proxies"]]
    for name, shown in by_column(statistics).items():
        heading = " or ".join(item.heading for item in shown)
        title = "; or ".join(item.title for item in shown)
        columns.append(Column(name, heading, "figure", title))
        columns.append(Column(f"{name}_ceiling", f"{heading}: chance limit", "figure"))
    return [*columns, Column("auc_spread", "±", "figure", "negative-sampling spread only")]


def proxy_sheet(page: Page) -> dict[str, Any]:
    """Return the table of all proxies, for the page to draw cell by cell."""
    rows = page.rows("proxies")
    statistics = [name for one in page.results.cells for name in one.measurements.statistics]
    return sheet("proxies", rows, telling(rows, proxy_columns(statistics)))


# One topic per question: its tables and figures, or what an audit needs for it.

FEW = 16
"""A table up to this length stands in the page; a longer one is drawn page by page."""
SHOWN_ELSEWHERE = {
    *(
        "cells",
        "proxies",
        "records",
        "comparison",
        "prior",
        "copies",
        "nearest",
        "ladder",
        "disclosures",
    ),
}


@dataclass(frozen=True)
class ShownTable:
    """One table as the page shows it: its columns, and whether it stands there or is drawn."""

    name: str
    title: str
    columns: Sequence[Column]
    rows: int

    @property
    def long(self) -> bool:
        """Whether it is drawn page by page."""
        return self.rows > FEW


@dataclass(frozen=True)
class Answer:
    """A topic with what this audit has for it, and how to read that."""

    name: str
    title: str
    intro: str
    tables: Sequence[ShownTable]
    figures: Sequence[int]
    unavailable: str | None


def answers(page: Page) -> list[Answer]:
    """Return every topic; a last one, `more`, holds the remaining tables and figures.

    A check has those with tables only, and none for one release, whose cell shows everything.
    """
    free = [place for place, figure in enumerate(page.figures) if figure.cell is None]
    left_tables = [name for name in page.tables if name not in SHOWN_ELSEWHERE]
    listed = []
    for name, topic in TOPICS.items():
        places = [place for place in free if _belongs(page.figures[place].name, topic["figures"])]
        listed.append(_answer(page, name, topic["tables"], places))
        left_tables = [table for table in left_tables if table not in topic["tables"]]
        free = [place for place in free if place not in places]
    if left_tables or free:
        listed.append(_answer(page, "more", left_tables, free))
    if not page.given:
        return listed
    return [one for one in listed if one.tables and (len(page.cells) > 1 or one.name == "sizes")]


def _belongs(name: str, wanted: Iterable[str]) -> bool:
    return any(name == one or name.startswith((f"{one}_", f"{one}-")) for one in wanted)


def _answer(page: Page, name: str, tables: Sequence[str], places: Sequence[int]) -> Answer:
    title, intro, needs = words_in("words.html").TOPICS[name]
    shown = [shown_table(page, table) for table in tables if table in page.tables]
    missing = {one.name: one.unavailable for one in page.results.outcomes}
    reasons = [reason for table in tables if (reason := missing.get(table)) is not None]
    unavailable = None if shown else (*reasons, needs)[0]
    return Answer(name, title, intro, shown, places, unavailable)


def shown_table(page: Page, name: str) -> ShownTable:
    """Return how the page shows a table: the columns that tell its rows apart."""
    kind, rows = page.tables[name]
    columns = _columns_of(name, kind)
    if len(rows) > 1:
        columns = telling(rows, columns)
    return ShownTable(name, capital(title_of(name)), columns, len(rows))


def _columns_of(table: str, kind: Any) -> list[Column]:
    """Return the columns of a table, formatted by type."""
    types = {field.name: str(field.type) for field in fields(kind)}
    shown = analyses.get(table).plugin.shown if table in analyses.names() else ()
    wanted = (
        LAYOUT["shown"].get(table, "").split()
        or shown
        or [name for name in types if name != "corpus"]
    )
    return [
        Column(name, title_of(name), _format_of(name, types[name]))
        for name in wanted
        if name in types
    ]


def title_of(name: str) -> str:
    """Return the heading of a column.

    >>> title_of("p_holm"), title_of("positive_share"), title_of("null_s10_low")
    ('p (Holm)', 'positive share', 'chance S10 from')
    """
    titles = LAYOUT["titles"]
    if name in titles:
        return str(titles[name])
    parts = ["chance" if part == "null" else titles.get(part, part) for part in name.split("_")]
    return " ".join(parts)


def _format_of(name: str, kind: str) -> str:
    kind = kind.removesuffix(" | None")
    if name == "epsilon":
        return "budget"
    if kind in ("int", "<class 'int'>"):
        return "count"
    if kind in ("str", "<class 'str'>"):
        return "words"
    return "chance" if name == "p" or name.startswith("p_") or "_p" in name else "figure"
