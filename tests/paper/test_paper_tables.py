"""Printed tables: every number is its source's, hostile names are set as text, LaTeX compiles."""

from __future__ import annotations

import csv
import io
import math
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from support.paper_material import BUDGETS, CORPORA, GENERATORS, invented
from synthleak.core.errors import UserError
from synthleak.evidence import families
from synthleak.paper.tables.layout import Entry, Table
from synthleak.paper.tables.write import (
    TABLES,
    Tables,
    check_names,
    csv_table,
    files,
    latex_table,
    latex_text,
    make_tables,
    markdown_cell,
    markdown_table,
)

HOSTILE = ("a_b&c%d#e$f", r"{g}~h^i\input{/etc/passwd}", "|<j>*`k` [l] “m” é 你🙂")
EVERYTHING = tuple(TABLES)


def entries(item: Table) -> list[Entry]:
    return [
        made
        for part in item.parts
        for block in part.blocks
        for row in block.rows
        for made in row.entries
    ]


def made(name: str) -> Table:
    return make_tables(invented(), [name]).tables[0]


def test_every_table_fits_its_columns() -> None:
    prints = make_tables(invented())
    assert prints.unavailable == {}
    assert [item.name for item in prints.tables] == list(EVERYTHING)
    for item in prints.tables:
        assert item.caption
        for part in item.parts:
            names = [column.name for column in part.columns]
            assert len(set(names)) == len(names), f"{item.name}: two columns have one heading"
            for block in part.blocks:
                assert block.rows
                for row in block.rows:
                    assert len(row.entries) == len(part.columns)
                    assert len(row.stubs) == len(part.stubs)


@pytest.mark.parametrize("name", EVERYTHING)
def test_csv_has_unique_headings_and_every_row(name: str) -> None:
    item = made(name)
    head, *rows = csv.reader(io.StringIO(csv_table(item)))
    assert len(set(head)) == len(head)
    assert len(rows) == sum(len(b.rows) for part in item.parts for b in part.blocks)
    assert all(len(row) == len(head) for row in rows)
    filled = sum(cell not in ("", "–") for row in rows for cell in row)
    assert filled >= len(rows) * len(item.parts[0].stubs)


def test_control_gap_keeps_the_gap_of_every_pool() -> None:
    item = made("control_gap")
    rows = csv.DictReader(io.StringIO(csv_table(item)))
    kept = sorted(float(v) for row in rows for k, v in row.items() if k.endswith("gap gap") and v)
    assert kept == sorted(entry.values["gap"] for entry in entries(item) if "gap" in entry.values)


def test_the_proxy_families_are_those_of_the_catalogue() -> None:
    rows = list(csv.DictReader(io.StringIO(csv_table(made("proxy_families")))))
    assert [row["Proxy family"] for row in rows] == [entry.name for entry in families]
    assert sum(int(row["Proxies count"]) for row in rows) == 32
    likely = {row["Proxy family"] for row in rows if row["Probability-like answer"] == "yes"}
    assert likely == {"bigram_logprob", "gaussian_loglik"}
    assert all(row["What it measures what"].endswith(".") for row in rows)


def test_main_table_shows_the_values_of_its_rows() -> None:
    source = invented()
    rows = list(csv.DictReader(io.StringIO(csv_table(made("main")))))
    for cell in source.cells:
        if cell.pool != "outlier":
            continue
        row = next(
            r
            for r in rows
            if (r["part"], r["Dataset"], r["Scenario"])
            == (cell.generator, cell.corpus, cell.scenario)
        )
        budget = "∞" if math.isinf(cell.epsilon) else f"{cell.epsilon:g}"
        assert float(row[f"ε = {budget} auc"]) == cell.auc
        assert float(row[f"ε = {budget} null_auc95"]) == cell.null_auc95


def test_best_attacker_is_shaded_and_chance_is_grey() -> None:
    source, item = invented(), made("main")
    shaded = [made for made in entries(item) if made.shade is not None]
    assert len(shaded) == len(CORPORA) * len(GENERATORS) * len(BUDGETS)
    for part in item.parts:
        for block in part.blocks:
            for row in block.rows:
                for epsilon, found in zip(BUDGETS, row.entries, strict=True):
                    if row.stubs[1] == "chance":
                        continue
                    beside = [
                        c
                        for c in source.cells
                        if (c.corpus, c.pool, c.generator, c.epsilon)
                        == (row.stubs[0], "outlier", part.name, epsilon)
                    ]
                    auc = float(str(found.values["auc"]))
                    assert (found.shade is not None) == (auc == max(c.auc for c in beside))
                    assert found.faint == (auc <= 0.612)


def test_the_chance_ceiling_stands_under_every_column() -> None:
    for name in ("main", "rare"):
        lines = [r for p in made(name).parts for b in p.blocks for r in b.rows]
        chance = [row for row in lines if row.stubs[1] == "chance"]
        assert len(chance) == len(lines) / 4
        assert all(e.values == {"auc": 0.612, "tpr": 0.155} for row in chance for e in row.entries)


def test_best_method_is_bold_and_second_underlined() -> None:
    for part in made("prior").parts:
        for row in part.blocks[0].rows:
            for start in range(0, len(row.entries), 4):
                three = row.entries[start : start + 3]
                order = sorted(three, key=lambda e: -float(str(e.values["auc"])))
                assert [e.lines[0][0].bold for e in order] == [True, False, False]
                assert [e.lines[0][0].underlined for e in order] == [False, True, False]
                best = [float(str(e.values["auc"])) for e in three]
                delta = float(str(row.entries[start + 3].values["delta"]))
                assert delta == pytest.approx(best[2] - max(best[:2]))


def test_distribution_is_shaded_against_the_column_without_privacy() -> None:
    for block in made("distribution").parts[0].blocks:
        for row in block.rows:
            _, first, *others = row.entries
            assert first.shade is None
            for found in others:
                more = float(str(found.values["s10"])) - float(str(first.values["s10"]))
                assert (found.shade is not None) == (more > 0)
                if found.shade is not None:
                    assert found.shade[1] == max(8, round(45 * min(more, 0.4) / 0.4))


def test_distribution_stands_beside_the_formula_of_the_study() -> None:
    ours, paper = made("distribution").parts
    assert (ours.name, paper.name) == ("ours", "the paper's V")
    for own, other in zip(ours.blocks, paper.blocks, strict=True):
        for left, right in zip(own.rows, other.rows, strict=True):
            assert right.entries[0].values == {"fewest": 34, "most": 34}
            for mine, theirs in zip(left.entries[1:], right.entries[1:], strict=True):
                assert theirs.values["paper_s10"] == float(str(mine.values["s10"])) / 2


def test_only_differences_that_pass_holm_are_bold_in_dp_removal() -> None:
    rows = [row for block in made("dp_removal").parts[0].blocks for row in block.rows]
    assert len(rows) == len(CORPORA) * len(GENERATORS) * (len(BUDGETS) - 1) * 2
    for row in rows:
        _, _, difference, p, *_ = row.entries
        assert difference.lines[0][0].bold == (float(str(p.values["p"])) <= 0.05)


def test_prior_attacks_are_compared_first_at_the_budgets_of_the_study() -> None:
    captions = ["".join(piece.text for piece in part.caption) for part in made("prior").parts]
    assert captions == [
        "Selected pools, ε = ∞, 1.",
        "Selected pools, ε = 4, 2, 0.5.",
        "Rare-label pools, ε = ∞, 1.",
        "Rare-label pools, ε = 4, 2, 0.5.",
    ]


def test_attributes_stand_beside_the_formula_of_the_study() -> None:
    assert [part.name for part in made("attributes").parts] == ["ours", "the paper's V"]
    source = invented(without=["attributes_paper"])
    (item,) = make_tables(source, ["attributes"]).tables
    assert [part.name for part in item.parts] == ["ours"]


def test_markdown_tells_shaded_from_concentrated_entries() -> None:
    item = made("distribution")
    looks = set()
    for found in entries(item):
        if "concentrated" not in found.values:
            continue
        text = markdown_cell(found)
        shaded, concentrated = found.shade is not None, found.values["concentrated"] == "yes"
        assert ("<b>" in text) == shaded
        assert ("†" in text) == concentrated
        looks.add((shaded, concentrated))
    assert len(looks) == 4
    text = markdown_table(item)
    assert "<sup>†</sup>: S10 lies above the band of an even leak" in text
    assert "what is shaded is bold and what is grey is in italics" in text
    assert "what is shaded" not in markdown_table(made("corpora"))


def test_tables_of_controls_alone_are_not_called_selected() -> None:
    source = invented()
    whole = make_tables(source, ["main", "prior"]).tables
    assert ["elected pools" in markdown_table(item) for item in whole] == [True, True]
    controls = replace(
        source,
        cells=tuple(row for row in source.cells if row.pool.startswith("random")),
        comparison=tuple(replace(row, pool="random0") for row in source.comparison),
    )
    tables = make_tables(controls, ["main", "main_intervals", "prior"]).tables
    assert len(tables) == 3
    for item in tables:
        text = markdown_table(item)
        assert "andom controls" in text
        assert "elected pools" not in text


def test_merged_difference_inside_its_band_is_grey() -> None:
    deltas = [row.entries[2] for row in made("merged").parts[0].blocks[0].rows]
    assert [e.faint for e in deltas] == [True, False, False, True]
    assert [e.lines[0][0].bold for e in deltas] == [False, True, True, False]


def test_unavailable_table_is_named_and_others_are_made() -> None:
    source = replace(invented(without=["control_gap", "meta"]), comparison=(), adjudicated=())
    prints = make_tables(source)
    assert set(prints.unavailable) == {
        "prior",
        "control_gap",
        "merged",
        "meta_outlier",
        "meta_rare",
    }
    assert all("\n" not in reason and reason for reason in prints.unavailable.values())
    assert len(prints.tables) == len(EVERYTHING) - 5
    bare = replace(source, cells=(), pools=(), corpora={}, rows=lambda name: [])
    assert set(make_tables(bare).unavailable) >= {
        "corpora",
        "pools",
        "main",
        "rare",
        "cross_generator",
    }


def test_an_unknown_table_suggests_the_nearest_name() -> None:
    with pytest.raises(UserError, match="did you mean 'main'"):
        check_names(["mian"])


def test_hostile_names_are_text_in_every_format() -> None:
    item = make_tables(invented(HOSTILE, HOSTILE), ["main"]).tables[0]
    tex = latex_table(item)
    assert r"\input" not in tex
    assert r"a\_b\&c\%d\#e\$f" in tex
    assert "U+4F60" in tex
    assert HOSTILE[0] in csv_table(item)
    assert r"\|\<j\>\*\`k\` \[l\]" in markdown_table(item)


@pytest.mark.parametrize("character", [chr(code) for code in range(32, 127)])
def test_no_printable_character_reaches_latex_as_a_command(character: str) -> None:
    kept = latex_text(character)
    if character in "\\{}$&%#_~^":
        assert kept != character
        assert kept.startswith("\\")
    assert "\n" not in latex_text(f"{character}\n")


def compile_latex(folder: Path, prints: Tables) -> str:
    for name, text in files(prints, ["latex"]).items():
        (folder / name).write_text(text, encoding="utf-8")
    done = subprocess.run(
        ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "tables.tex"],
        cwd=folder,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:]
    return done.stdout


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="no LaTeX is installed")
def test_latex_compiles_without_overfull_boxes(tmp_path: Path) -> None:
    log = compile_latex(tmp_path, make_tables(invented()))
    assert (tmp_path / "tables.pdf").read_bytes().startswith(b"%PDF")
    assert re.search(r"Output written on tables.pdf \(\d+ pages", log)
    assert "Overfull \\hbox" not in log


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="no LaTeX is installed")
def test_latex_of_hostile_names_compiles(tmp_path: Path) -> None:
    every = "".join(chr(code) for code in [*range(32, 127), *range(0xA0, 0x250), 0x3B5, 0x221E])
    log = compile_latex(tmp_path, make_tables(invented((*HOSTILE, every), HOSTILE[:2])))
    assert "passwd" not in [line.strip("() ") for line in log.splitlines()]
