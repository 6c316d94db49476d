"""Put the audited cells beside the paper's: `python results.py RUN... --to results`.

Writes `beside.csv` (a row per cell and attacker: our AUC and TPR, what chance stays below, the
verdict, and the paper's figures for the corpus that ours stands in for), `beside.md` (the same to
read), `utility.csv` (what the releases are good for), the printed tables of `synthleak tables` and
the figures of the study. Cells that are not made are listed as missing.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from slice import spec_of

from synthleak.metrics.null import holm

HERE = Path(__file__).parent
STANDS_FOR = {"goemotions": "psytar", "mts_dialog": "n2c2"}
"""Which of the paper's corpora ours takes the place of; others are the paper's own."""
TABLES = {"outlier": "tab:main_", "rare": "tab:main_rare", "control": "tab:control-dpgen-or"}
REQUIRED = {
    "goemotions-dpsgd": (("outlier", "rand0", "rand1", "rand2", "rare"), ("inf", "4", "1")),
    "dmsafn-dpsgd": (("outlier", "rand0", "rand1", "rand2"), ("inf", "4", "1")),
    "goemotions-epsvec": (("outlier", "rand0", "rand1", "rand2", "rare"), ("inf", "4", "1")),
    "dmsafn-epsvec": (("outlier", "rand0", "rand1", "rand2"), ("inf", "4", "1")),
    "goemotions-dpsgd-cohort": (("outlier", "rand0"), ("inf", "16", "4", "1")),
    "dmsafn-dpsgd-cohort": (("outlier", "rand0"), ("inf", "16", "4", "1")),
    "goemotions-augpe-cohort": (("outlier", "rand0"), ("inf", "4", "1")),
    "dmsafn-augpe-cohort": (("outlier", "rand0"), ("inf", "4", "1")),
    "eurlex-dpsgd-cohort": (("outlier", "rand0"), ("inf", "4")),
    "mts_dialog-dpsgd-cohort": (("outlier", "rand0"), ("inf", "4")),
}
"""The cells without which the study is not complete, by spec."""
OPTIONAL = {
    "goemotions-dpsgd-cohort": (("outlier", "rand0"), ("2", "0.5")),
    "dmsafn-dpsgd-cohort": (("outlier", "rand0"), ("2", "0.5")),
    "goemotions-dpsgd-cohort-canaries": (("canary",), ("inf", "4")),
    "dmsafn-dpsgd-cohort-canaries": (("canary",), ("inf", "4")),
}
"""Cells that would add to it."""
FIGURES = ("budgets", "control_gap", "dp_removal", "vulnerability_panels", "attributes")
FIGURES += ("scenario_scaling_a", "scenario_scaling_b", "prior_attacks")
Row = dict[str, Any]
Cells = Mapping[str, tuple[Sequence[str], Sequence[str]]]
"""Pools and budgets, by spec."""


def published() -> dict[tuple[str, ...], Row]:
    """Return the paper's rows by table, corpus, pool, generator, ε, attacker and column."""
    with (HERE / "published.csv").open(encoding="utf-8", newline="") as file:
        keys = ("table", "corpus", "pool", "generator", "epsilon", "scenario", "column")
        return {tuple(row[key] for key in keys): row for row in csv.DictReader(file)}


def theirs(rows: Mapping[tuple[str, ...], Row], cell: Row, column: str) -> str:
    """Return the paper's figure for the cell nearest to ours, or nothing."""
    pool = "control" if cell["pool"].startswith("rand") else cell["pool"]
    table = TABLES.get(pool, "")
    if table == "tab:main_":
        table += {"dpsgd": "dpgen"}.get(cell["generator"], cell["generator"])
    corpus = STANDS_FOR.get(cell["corpus"], cell["corpus"])
    key = (table, corpus, pool, cell["generator"], cell["epsilon"], cell["scenario"], column)
    return str(rows[key]["value"]) if key in rows else ""


def rows_of(run: Path, table: str) -> list[Row]:
    """Return the rows of a table of a finished audit, the name of its spec first."""
    with (run / "results" / f"{table}.csv").open(encoding="utf-8", newline="") as file:
        rows = [{"run": spec_of(run), **row} for row in csv.DictReader(file)]
    for row in rows:
        row["epsilon"] = f"{float(row['epsilon']):g}"
    return rows


def by_spec(rows: Iterable[Row]) -> list[Row]:
    """Sort cells by spec, pool and budget: those of one spec may lie in several folders."""
    rows = list(rows)
    order = list(dict.fromkeys((row["run"], row["pool"]) for row in rows))
    return sorted(
        rows, key=lambda row: (order.index((row["run"], row["pool"])), -float(row["epsilon"]))
    )


def beside(rows: Iterable[Row]) -> list[Row]:
    """Return our figures, chance's and the paper's, a row per cell and attacker.

    `p_study` is the cell's p-value, adjusted by Holm over all cells of all runs: a run adjusts over
    its own alone.
    """
    rows, paper = list(rows), published()
    cells = {(row["run"], row["pool"], row["epsilon"]): float(row["p_cell"]) for row in rows}
    study = dict(zip(cells, holm(list(cells.values())), strict=True))
    return [
        {
            "run": row["run"],
            "corpus": row["corpus"],
            "pool": row["pool"],
            "generator": row["generator"],
            "epsilon": row["epsilon"],
            "scenario": row["scenario"],
            "proxy": row["proxy"],
            "auc": row["auc"],
            "chance_auc": row["null_auc95"],
            "tpr": row["tpr_at_fpr05"],
            "chance_tpr": row["null_tpr95"],
            "compared": "within records" if row["design"] == "cohort" else "between records",
            "pooled_auc": row["pooled_auc"],
            "chance_pooled": row["null_pooled95"],
            "p_cell": row["p_cell"],
            "p_study": study[row["run"], row["pool"], row["epsilon"]],
            "verdict": row["verdict"],
            "paper_corpus": STANDS_FOR.get(row["corpus"], row["corpus"]),
            "paper_auc": theirs(paper, row, "auc"),
            "paper_tpr": theirs(paper, row, "tpr"),
        }
        for row in rows
    ]


def missing(rows: Sequence[Row], wanted: Cells) -> list[str]:
    """Return the cells that are wanted and that no run holds."""
    made = {(row["run"], row["pool"], row["epsilon"]) for row in rows}
    return [
        f"{run} {pool} ε = {epsilon}"
        for run, (pools, budgets) in wanted.items()
        for pool in pools
        for epsilon in budgets
        if (run, pool, epsilon) not in made
    ]


def page(rows: Sequence[Row]) -> str:
    """Write the comparison as Markdown, one table per spec, and the cells that are missing."""
    lines = ["# Our cells beside the paper's", ""]
    lines += [
        "AUC [what chance stays below in 95% of redraws] of the best proxy of each attacker. The"
        " paper's figure is for the corpus that ours stands in for, and its best proxy is chosen"
        " in hindsight as ours is; it prints no chance limit. p is of the cell, adjusted by Holm"
        " over all cells below; the verdict adjusts over the cells of its run.",
        "",
        "The paper compares members with other records, and so does `lone`. `cohort` compares each"
        " record with itself over the releases (*within*), which the paper has nothing like;"
        " *between* compares its records with each other, by the same proxy, and is what stands"
        " beside the paper's figure.",
        "",
    ]
    for run in dict.fromkeys(row["run"] for row in rows):
        mine = [row for row in rows if row["run"] == run]
        kinds = {"": ("auc", "chance_auc")}
        if mine[0]["compared"] == "within records":
            kinds = {"within ": kinds[""], "between ": ("pooled_auc", "chance_pooled")}
        heads = [f"{kind}S{n}" for kind in kinds for n in (1, 2, 3)]
        heads = ["pool", "ε", *heads, "p", "verdict", "paper S1/S2/S3"]
        lines += [f"## {run}", "", f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
        for pool, epsilon in dict.fromkeys((row["pool"], row["epsilon"]) for row in mine):
            some = {
                row["scenario"]: row
                for row in mine
                if (row["pool"], row["epsilon"]) == (pool, epsilon)
            }
            ours = [
                f"{float(row[auc]):.2f} [{float(row[limit]):.2f}]" if row else "–"
                for auc, limit in kinds.values()
                for row in (some.get(f"S{n}") for n in (1, 2, 3))
            ]
            first = next(iter(some.values()))
            printed = [
                f"{float(row['paper_auc']):.2f}" if row["paper_auc"] else "–"
                for row in some.values()
            ]
            budget = "∞" if math.isinf(float(epsilon)) else epsilon
            lines.append(
                f"| {pool} | {budget} | {' | '.join(ours)} | {float(first['p_study']):.3f} |"
                f" {first['verdict']} | {'/'.join(printed)} |"
            )
        lines.append("")
    for heading, wanted in (("Missing", REQUIRED), ("Missing, not required", OPTIONAL)):
        if gone := missing(rows, wanted):
            lines += [f"## {heading}", "", *(f"- {name}" for name in gone), ""]
    return "\n".join(lines)


def write(path: Path, rows: Sequence[Row]) -> None:
    """Write rows as a table."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def main() -> None:
    """Write the comparison of the runs named."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("runs", nargs="+", type=Path)
    parser.add_argument("--to", type=Path, default=HERE / "results")
    given = parser.parse_args()
    order = [*REQUIRED, *OPTIONAL]
    for run in given.runs:
        if spec_of(run) not in order:
            parser.error(f"{run} is not named after a spec of the study")
    runs = sorted(given.runs, key=lambda run: order.index(spec_of(run)))
    rows = by_spec(row for run in runs for row in rows_of(run, "cells"))
    given.to.mkdir(parents=True, exist_ok=True)
    made = beside(rows)
    write(given.to / "beside.csv", made)
    write(given.to / "utility.csv", by_spec(row for run in runs for row in rows_of(run, "utility")))
    (given.to / "beside.md").write_text(page(made), encoding="utf-8")
    for cohort, ending in ((False, ""), (True, "-cohort")):
        some = [str(run) for run in runs if ("-cohort" in run.name) == cohort]
        if some:  # a cell of `lone` and one of `cohort` have the same name: tables of their own
            settled = any((run / "results/adjudication.csv").is_file() for run in map(Path, some))
            names = (*FIGURES, "merged") if settled else FIGURES
            only = [word for name in names for word in ("--only", name)]
            for what, options in (("tables", []), ("figures", only)):
                out = ["--out", str(given.to / f"{what}{ending}"), *options]
                subprocess.run([sys.executable, "-m", "synthleak", what, *some, *out], check=True)
    print(json.dumps({"rows": len(made), "missing": len(missing(rows, REQUIRED))}))


if __name__ == "__main__":
    main()
