"""One topic per question: its tables and figures, or what an audit needs for it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from typing import Any

from synthleak.analyses.analysis import analyses
from synthleak.report.page.material import Material
from synthleak.report.page.sheets import Column, sheet, telling
from synthleak.report.verdict import capital

FEW = 16
"""A table up to this length stands in the page; a longer one is drawn page by page."""


@dataclass(frozen=True)
class Topic:
    """One question: its heading, how to read the answer, and which tables and figures give it.

    `needs` says what an audit needs for it.
    """

    name: str
    title: str
    intro: str
    tables: tuple[str, ...]
    figures: tuple[str, ...] = ()
    needs: str = ""


TOPICS = (
    Topic(
        "spread",
        "How leakage is spread over records",
        "V(x) is how much higher a record’s score ranks in releases that held it than in those that"
        " did not. S10 is the share of all positive V held by the top tenth of records. Two bands"
        " go with it: what redraws give where nothing leaks, and what a leak spread evenly would"
        " give. Only a share above the second supports “concentrated”. Medians over cells are given"
        " for selected pools, for controls and for all.",
        ("vulnerability", "vulnerability_summary"),
        ("vulnerability",),
        "needs records that were in some releases and not in others",
    ),
    Topic(
        "attributes",
        "Which records are hit: attributes",
        "Spearman’s ρ between five attributes of a record, known before any release, and its V."
        " Columns of single corpora carry no test; boxes mark what survives Holm’s adjustment. †"
        " marks an attribute on which the pool itself was selected.",
        ("attributes_combined", "attributes"),
        ("attributes",),
        "needs V of a pool’s records",
    ),
    Topic(
        "gap",
        "Do selected records leak more than random ones?",
        "Selected pool minus random controls of the same size. An interval that excludes 0 after"
        " Holm’s adjustment flags a cell. The two pools are compared with different non-members, so"
        " settle a flagged cell by a merged pool (synthleak adjudicate).",
        ("control_gap",),
        ("control_gap",),
        "needs a pool of the rule random that matches the selected one",
    ),
    Topic(
        "removal",
        "What privacy removes, and from whom",
        "AUC without privacy minus AUC at ε, for a selected pool and for its random controls.",
        ("dp_removal",),
        ("dp_removal", "budgets"),
        "needs a generator without privacy and with it, and random controls",
    ),
    Topic(
        "merged",
        "Merged pools: both kinds of records against the same non-members",
        "Figures within different pools cannot be compared; here both kinds face the same"
        " non-members. Δ is the first kind minus the second. One kind may score higher whether"
        " it is in or out, so only what lies outside the band of redraws without a leak counts;"
        " own Δ compares each kind with its own non-members, and is 0 where both leak alike.",
        ("merged", "adjudication"),
        ("merged",),
        "needs a pool of the rule union, or flagged cells that synthleak adjudicate played",
    ),
    Topic(
        "scaling",
        "What more knowledge buys an attacker",
        "The change in AUC at each step from S1 to S3, for the best and the median proxy of each"
        " view, for selected pools, for controls and for all. Cells that share a plan are not"
        " independent. In a cohort each record is compared with itself over the releases, so what"
        " S2 and S3 subtract cancels out and all three reach the same AUC.",
        ("scenario_scaling",),
        ("scenario_scaling",),
        "needs two attackers or more",
    ),
    Topic(
        "consistency",
        "Are the same records hit again?",
        "V of the same records across generators, budgets and attackers by one proxy, against"
        " redraws that give both sides the same coins.",
        ("consistency",),
        ("consistency", "generators"),
        "needs two generators, budgets or attackers on one pool",
    ),
    Topic(
        "prior_attacks",
        "Against prior attacks",
        "Ours minus the best arm of each prior attack, in hindsight. Ours is the best of many more"
        " signals, so it wins by chance; where nothing was found, a win means nothing. Counted for"
        " selected pools, for controls and for all.",
        ("prior_attacks",),
        ("prior_attacks",),
        "needs a prior attack in the spec",
    ),
)
KEY = ("pool", "generator", "epsilon", "scenario")
MERGED = (
    *KEY,
    *("measure", "first", "second", "first_value", "second_value", "delta", "low", "high"),
    *("null_low", "null_high", "p", "own_delta", "own_low", "own_high"),
)
COLUMNS: dict[str, tuple[str, ...]] = {
    "vulnerability": (
        *KEY,
        *("proxy", "qualifying", "mean_v", "positive_share", "s10"),
        *("null_s10_high", "even_s10_high", "s10_p_even", "concentrated"),
    ),
    "vulnerability_summary": (
        *("pools", "generator", "privacy", "cells"),
        *("positive_median", "positive_low", "positive_high", "s10_median", "s10_low", "s10_high"),
        *("abs_median", "above_null", "above_even"),
    ),
    "attributes_combined": (
        *("selection", "generator", "block", "corpus", "attribute"),
        *("pools", "records", "rho", "low", "high", "p_value", "p_holm"),
    ),
    "attributes": (
        *("pool", "generator", "attribute", "scenario", "proxy"),
        *("records", "rho", "p_value", "p_holm", "floor", "selected_on"),
    ),
    "control_gap": (
        *KEY,
        *("controls", "crossfit_auc", "control_crossfit", "crossfit_gap"),
        *("low", "high", "p_holm", "flagged"),
    ),
    "merged": MERGED,
    "adjudication": MERGED,
    "consistency": (
        *("across", "pool", "generator", "one", "other", "scenario", "proxy", "records"),
        *("rho", "null_low", "null_high", "p_holm", "turnover", "chance_turnover"),
    ),
}
"""Columns shown of the widest tables; other tables show their analysis's `shown`, else all."""
SHOWN_ELSEWHERE = {"cells", "proxies", "records", "comparison", "prior", "copies", "nearest"}

TITLES = {
    "dp": "DP",
    "auc": "AUC",
    "epsilon": "ε",
    "rho": "ρ",
    "p_value": "p",
    "p_holm": "p (Holm)",
    "p": "p",
    "low": "from",
    "high": "to",
    "s10": "S10",
    "delta": "Δ",
    "null_low": "chance from",
    "null_high": "chance to",
    "row": "synthetic row",
}


@dataclass(frozen=True)
class Shown:
    """One table as the page shows it: its columns, and whether it stands there or is drawn."""

    name: str
    title: str
    columns: tuple[Column, ...]
    rows: int

    @property
    def long(self) -> bool:
        """Whether it is drawn page by page."""
        return self.rows > FEW


def columns_of(table: str, kind: Any) -> tuple[Column, ...]:
    """Return the columns of a table, formatted by type."""
    there = {field.name: str(field.type) for field in fields(kind)}
    shown = analyses.get(table).plugin.shown if table in analyses.names() else ()
    wanted = COLUMNS.get(table) or shown or [name for name in there if name != "corpus"]
    return tuple(
        Column(name, title_of(name), _format_of(name, there[name]))
        for name in wanted
        if name in there
    )


def title_of(name: str) -> str:
    """Return the heading of a column.

    >>> title_of("p_holm"), title_of("positive_share"), title_of("null_s10_low")
    ('p (Holm)', 'positive share', 'chance S10 from')
    """
    if name in TITLES:
        return TITLES[name]
    parts = ["chance" if part == "null" else TITLES.get(part, part) for part in name.split("_")]
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


@dataclass(frozen=True)
class Answer:
    """A topic with what this audit has for it."""

    topic: Topic
    tables: Sequence[Shown]
    figures: Sequence[int]
    unavailable: str | None


def answers(material: Material) -> list[Answer]:
    """Return every topic; a last one, `more`, holds the remaining tables and figures.

    A check has those with tables only, and none for one release, whose cell shows everything.
    """
    if "check" not in material.summary:
        return _all_answers(material)
    several = len(material.cells) > 1
    return [one for one in _all_answers(material) if several and one.tables]


def _all_answers(material: Material) -> list[Answer]:
    made, used = [], set(SHOWN_ELSEWHERE)
    free = {place for place, figure in enumerate(material.figures) if figure.cell is None}
    for topic in TOPICS:
        places = [p for p in sorted(free) if _belongs(material.figures[p].name, topic.figures)]
        made.append(_answer(material, topic, places))
        used |= set(topic.tables)
        free -= set(places)
    rest = tuple(name for name in material.tables if name not in used)
    if rest or free:
        more = Topic(
            "more",
            "Further tables",
            "docs/results.md of synthleak explains their columns.",
            rest,
        )
        made.append(_answer(material, more, sorted(free)))
    return made


def _belongs(name: str, wanted: Iterable[str]) -> bool:
    return any(name == one or name.startswith((f"{one}_", f"{one}-")) for one in wanted)


def _answer(material: Material, topic: Topic, places: Sequence[int]) -> Answer:
    tables = [shown_table(material, name) for name in topic.tables if name in material.tables]
    said = [material.unavailable[name] for name in topic.tables if name in material.unavailable]
    unavailable = None if tables else (said[0] if said else topic.needs)
    return Answer(topic, tables, places, unavailable)


def shown_table(material: Material, name: str) -> Shown:
    """Return how the page shows a table: the columns that tell its rows apart."""
    kind, rows = material.tables[name]
    columns = columns_of(name, kind)
    if len(rows) > 1:
        columns = tuple(telling(rows, columns))
    return Shown(name, capital(title_of(name)), columns, len(rows))


def long_sheets(material: Material, tables: Iterable[Shown]) -> dict[str, Any]:
    """Return the tables that are drawn page by page, by name."""
    return {
        shown.name: sheet(shown.name, material.rows(shown.name), shown.columns)
        for shown in tables
        if shown.long
    }
