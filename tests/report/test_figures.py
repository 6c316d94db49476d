"""Figures: valid, true to their tables, small, and silent about texts."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any, get_args

import pytest
import vl_convert

from synthleak import Audit
from synthleak.analyses.attributes import CombinedRow
from synthleak.analyses.consistency import ConsistencyRow
from synthleak.analyses.gaps import MergedRow, RemovalRow
from synthleak.core.cell import is_of
from synthleak.core.errors import UserError
from synthleak.corpus import Record
from synthleak.metrics.curves import SortedV
from synthleak.report.figures.all_figures import Format, all_figures, cell_figures, draw
from synthleak.report.figures.cells import merged_figure, proxies_figure, removal_figure
from synthleak.report.figures.figure import Figure, palette, runtime_script, runtime_style, sized
from synthleak.report.figures.records import attributes_figure, panels_figure

OF_A_CELL = ["roc", "roc_log", "scenarios", "proxies", "prior", "vulnerability"]


@pytest.fixture(scope="module")
def figures(audit: Audit) -> dict[str, Figure]:
    return all_figures([audit.results])


def rows(figure: Figure) -> list[dict[str, Any]]:
    return list(figure.spec["data"]["values"])


def test_every_cell_has_its_figures_and_the_study_too(
    audit: Audit, figures: dict[str, Figure]
) -> None:
    for cell in audit.setup.cells:
        assert [f.name for f in figures.values() if f.cell == cell] == OF_A_CELL
    of_all = [figure.name for figure in figures.values() if figure.cell is None]
    assert {"budgets", "scenario_scaling_a", "scenario_scaling_b", "prior_attacks"} <= {*of_all}
    assert len(figures) == len(OF_A_CELL) * len(audit.setup.cells) + len(of_all)


def test_all_compile_without_a_complaint_in_both_themes(figures: dict[str, Figure]) -> None:
    for figure in figures.values():
        for theme in ("light", "dark"):
            spec = figure.for_file(theme)  # type: ignore[arg-type]
            vega = vl_convert.vegalite_to_vega(spec, vl_version="6.4")
            assert vega["marks"], figure.name
            named = re.findall(r'"\$[a-z0-9]+"', json.dumps(spec).replace('"$schema"', ""))
            assert not named, f"{figure.name} asks for colours that the palette lacks: {named}"
        assert figure.alt and figure.title


def test_numbers_are_those_of_the_tables(audit: Audit, figures: dict[str, Figure]) -> None:
    cell = audit.setup.cells[0]
    by_name = {figure.name: figure for figure in cell_figures(audit.results, cell)}
    shown = {(row["s"], row["p"]): row for row in rows(by_name["proxies"])}
    proxies = [row for row in audit.proxies if is_of(row, cell)]
    assert len(shown) == len(proxies)
    for row in proxies:
        assert shown[row.scenario, row.proxy]["a"] == pytest.approx(row.auc, rel=1e-3)
    points = {row["s"]: row for row in rows(by_name["roc"]) if row["k"] == "p"}
    for row in audit.cells:
        if is_of(row, cell):
            assert points[row.scenario]["t"] == pytest.approx(row.tpr_at_fpr05, rel=1e-5)
            assert points[row.scenario]["a"] == pytest.approx(row.auc, rel=1e-5)
    marked = [row["i"] for row in rows(by_name["vulnerability"]) if row["d"] == "top tenth"]
    top = [r.record for r in audit.records if is_of(r, cell) and r.top_tenth == "yes"]
    assert sorted(marked) == sorted(top)


def test_overview_draws_the_audit_in_its_own_numbers(
    audit: Audit, figures: dict[str, Figure]
) -> None:
    shown = {(row["b"], row["v"]): row["t"].replace("\n", " ") for row in rows(figures["overview"])}
    records = audit.results.corpus["records"]
    assert shown["game", f"{records:,}"] == f"records: {audit.results.corpus['name']}"
    leaking = sum(one.verdict.leaks for one in audit.results.cells)
    assert ("found", f"{leaking} of {len(audit.results.cells)}") in shown
    for epsilon in {row.epsilon for row in audit.cells}:
        best = max(row.auc for row in audit.cells if row.epsilon == epsilon)
        assert f"at ε = {epsilon:g}".replace("inf", "∞") in shown["found", f"{best:.2f}"]


def test_tooltip_names_the_statistic_that_was_tested(audit: Audit) -> None:
    cell = audit.setup.cells[0]
    proxies = [row for row in audit.proxies if is_of(row, cell)]
    for names, title in (
        (("auc", "tail5"), "mean TPR up to 5% FPR"),
        (("auc", "top_tenth"), "mean AUC of the tenth of records that leak most"),
    ):
        marks = proxies_figure(cell, proxies, names).spec["spec"]["layer"]
        titles = [shown["title"] for shown in marks[0]["encoding"]["tooltip"]]
        assert titles[-2:] == [title, f"{title}: chance limit"]


def test_means_over_cells_keep_selected_pools_and_controls_apart(
    audit: Audit, figures: dict[str, Figure]
) -> None:
    by_name = {figure.name: figure for figure in figures.values() if figure.cell is None}
    scaling = next(o for o in audit.outcomes if o.name == "scenario_scaling").rows
    wanted = {"selected": "selected pools", "controls": "controls"}
    expected = {
        (wanted[row.pools], row.step.split()[-1]): row.change
        for row in scaling
        if row.pools in wanted
        and (row.view, row.proxy) == ("any", "best")
        and row.step.startswith("S1 ")
    }
    assert len(expected) == 4
    means = by_name["scenario_scaling_a"].spec["layer"][1]["data"]["values"]
    shown = {(row["g"], row["s"]): row["d"] for row in means}
    assert shown == pytest.approx(expected, abs=1e-4)
    steps = {row["t"] for row in rows(by_name["scenario_scaling_b"])}
    assert {"S1 to S2, selected pools", "S1 to S2, controls"} <= steps
    assert not any("all pools" in step for step in steps)
    wins = {
        name: sum(r.delta > 0 for r in audit.study.comparison if r.pool.startswith(name))
        for name in ("outlier", "random")
    }
    said = (
        f"which is higher in {wins['outlier']} of 2 cells of selected pools"
        f" and {wins['random']} of 2 cells of controls."
    )
    assert said in by_name["prior_attacks"].alt


def test_a_figure_holds_no_text_and_little_else(
    figures: dict[str, Figure], private: list[Record]
) -> None:
    whole = json.dumps([figure.for_page() for figure in figures.values()], ensure_ascii=False)
    assert not [record.id for record in private if record.text in whole]
    assert len(whole) / len(figures) < 30_000


def test_panels_fold_where_there_is_no_room() -> None:
    spec = {
        "usermeta": {"panels": {"count": 3, "least": 200, "gutter": 20, "margin": 60}},
        "spec": {},
    }
    assert [sized(spec, width)["columns"] for width in (390, 500, 700)] == [1, 2, 3]
    assert sized(spec, 700)["spec"]["width"] == (700 - 60) // 3 - 20
    assert sized({}, 500)["width"] == 500
    four = {
        "usermeta": {"panels": {"count": 4, "least": 200, "gutter": 0, "margin": 0}},
        "spec": {},
    }
    assert [sized(four, width)["columns"] for width in (390, 500, 700, 800)] == [1, 2, 2, 4]


@pytest.mark.parametrize("second", ["laws", "news"])
def test_panels_name_the_corpus_where_there_are_several(second: str) -> None:
    cell = {"generator": "g", "epsilon": 4.0, "pool": "outlier", "s10": 0.3, "even_s10_high": 0.4}
    rows: Any = [SimpleNamespace(corpus=corpus, **cell) for corpus in ("laws", second)]
    v = SortedV(0, (0,), (0.5,), (-0.1,), (0.1,), (0.2,), (0.3,))
    made = panels_figure(rows, [v, v], [["a"], ["a"]])
    assert made is not None
    assert ("laws, g, ε = 4, pool outlier" in made.alt) == (second == "news")


def combined(**changes: Any) -> CombinedRow:
    row = {
        "selection": "split80",
        "generator": "g",
        "block": "random",
        "corpus": "all",
        "attribute": "length",
        "pools": 3,
        "records": 90,
        "positive_pools": 1,
        "rho": 0.4,
        "low": 0.2,
        "high": 0.6,
        "p_value": 0.001,
        "p_holm": 0.01,
    }
    return CombinedRow(**(row | changes))  # type: ignore[arg-type]


def test_only_tested_heat_map_column_is_marked() -> None:
    made = attributes_figure(
        [
            combined(),
            combined(corpus="psytar"),
            combined(attribute="entities", p_holm=0.2),
            combined(attribute="outlierness", p_value=0.5, p_holm=1.0),
            combined(selection="all", attribute="other"),
        ]
    )
    assert made is not None
    assert [(row["a"], row["c"], row["b"]) for row in rows(made)] == [
        ("length", "all", 2),
        ("length", "psytar", 0),
        ("entities", "all", 1),
        ("outlierness", "all", 0),
    ]
    assert attributes_figure([]) is None


def test_merged_figure_marks_differences_outside_the_band() -> None:
    common: dict[str, Any] = dict.fromkeys(MergedRow.__dataclass_fields__)
    common |= {"measure": "auc", "epsilon": 1.0, "first": "a", "second": "b", "low": 0, "high": 1}
    inside = MergedRow(**(common | {"delta": 0.05, "null_low": -0.1, "null_high": 0.1}))
    outside = MergedRow(**(common | {"delta": 0.2, "null_low": -0.1, "null_high": 0.1}))
    made = merged_figure([inside, outside])
    assert made is not None
    assert [row["k"] for row in rows(made)] == ["inside it", "outside the no-leak band"]


def test_budgets_of_a_pool_stand_together_though_two_folders_hold_them() -> None:
    common: dict[str, Any] = dict.fromkeys(RemovalRow.__dataclass_fields__)
    common |= {"scenario": "all", "difference": 0.1, "low": 0.0, "high": 0.2}
    order = [("b", 4.0), ("b", 1.0), ("a", 4.0), ("b", 2.0)]
    made = removal_figure([RemovalRow(**(common | {"pool": p, "epsilon": e})) for p, e in order])
    assert made is not None
    names = [row["c"].split(", ")[2:] for row in rows(made)]
    assert names == [["b", "ε = 4"], ["b", "ε = 2"], ["b", "ε = 1"], ["a", "ε = 4"]]


def test_v_across_generators_is_pooled_over_budgets(audit: Audit) -> None:
    from synthleak.report.figures.records import generators_figure

    cell_data = audit.results.study.cell_data
    cell, signal = cell_data[0], cell_data[0].signals[1]
    row = dict.fromkeys(ConsistencyRow.__dataclass_fields__) | {
        "across": "generators",
        "corpus": cell.cell.corpus,
        "pool": cell.cell.pool,
        "one": "ngram",
        "other": "ngram",
        "scenario": signal.scenario,
        "proxy": signal.proxy,
        "rho": 1.0,
    }
    made = generators_figure([ConsistencyRow(**row)], cell_data)  # type: ignore[arg-type]
    assert made is not None
    budgets = [one.profile.v[1] for one in cell_data if one.cell.pool == cell.cell.pool]
    for item in rows(made):
        place = cell.pool.records.index(item["i"])
        assert item["x"] == item["y"]
        assert item["x"] == pytest.approx(sum(v[place] for v in budgets) / 2, rel=1e-3, abs=1e-4)


def test_files_of_every_kind(figures: dict[str, Figure]) -> None:
    figure = next(f for f in figures.values() if f.name == "scenarios")
    starts = {"svg": b"<svg", "png": b"\x89PNG", "pdf": b"%PDF", "json": b"{"}
    for form in get_args(Format):
        assert draw(figure, form).startswith(starts[form])
    assert (
        json.loads(draw(figure, "json", "dark"))["config"]["background"]
        == (palette()["dark"]["paper"])
    )


def test_unknown_figure_suggests_the_nearest_name(audit: Audit) -> None:
    with pytest.raises(UserError, match=r"roc") as raised:
        all_figures([audit.results], ["rox"])
    assert raised.value.where == "--only"


def test_script_cannot_close_its_element() -> None:
    script, style = runtime_script(), runtime_style()
    assert "</script" not in script.lower() and "</style" not in style.lower()
    assert "sourceMappingURL" not in script and "CONFIG;" not in script
    assert len(script) < 1_200_000
    names = [*palette()["light"]]
    assert names == [*palette()["dark"]]
    assert all(style.count(f"--sl-{name}:") == 4 for name in names)


def contrast(one: str, other: str) -> float:
    def luminance(colour: str) -> float:
        parts = [int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5)]
        linear = [p / 12.92 if p <= 0.03928 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_colours_can_be_told_from_the_paper(theme: str) -> None:
    colours = palette()[theme]
    for name in ("ink", "muted"):
        assert contrast(colours[name], colours["paper"]) >= 4.5
    for name in ("first", "second", "third", "fourth", "claim", "top"):
        assert contrast(colours[name], colours["paper"]) >= 3
    for name in ("minus2", "minus1", "zero", "plus1", "plus2"):
        assert contrast(colours["ink"], colours[name]) >= 4.5


def test_the_command_writes_files(audit: Audit, tmp_path: Path) -> None:
    from click.testing import CliRunner

    from synthleak.cli.reading import figures as command

    words = [
        str(audit.folder.root),
        "--only",
        "budgets",
        "--format",
        "svg",
        "--out",
        str(tmp_path / "f"),
    ]
    done = CliRunner().invoke(command, words, catch_exceptions=False)
    assert done.exit_code == 0 and "1 figure in" in done.output
    assert [path.name for path in (tmp_path / "f").iterdir()] == ["budgets.svg"]
