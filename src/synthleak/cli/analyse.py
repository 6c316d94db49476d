"""`synthleak analyse`: who leaks, from the stored evidence of one audit or of several."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from synthleak.cli.options import PATH, How, folders_argument, trust_option, work_options
from synthleak.cli.output import columns_of, print_json, print_table
from synthleak.core.engine.progress import Silent
from synthleak.core.places import Place, write_place

FIRST = 20
"""Rows of a table that are printed unless it is asked for by name."""


@click.command()
@folders_argument
@click.option("--only", multiple=True, metavar="NAME", help="Only this analysis; may be repeated.")
@click.option("--also", multiple=True, metavar="NAME", help="Also run a slow analysis: meta.")
@click.option("--out", type=PATH, help="Write all rows to this folder, as CSV and Parquet.")
@trust_option
@work_options
def analyse(
    folders: tuple[Place, ...],
    only: tuple[str, ...],
    also: tuple[str, ...],
    out: Path | None,
    how: How,
) -> None:
    """Analyse the audits in DIR...: who carries the leakage, and could it be predicted?

    Several folders are joined into one study, so that p-values are adjusted over the pools of all
    corpora together. Nothing is generated or observed again. `synthleak list analyses` names the
    analyses; one that cannot run says in a line what it needs. Tables show their main columns; with
    --only all rows are printed, and --out writes every row and column.

    \b
    Examples:
      synthleak analyse runs/audit
      synthleak analyse runs/psytar runs/eurlex --out study
      synthleak analyse runs/audit --only meta
    """
    from synthleak.audit.run import analyse as run
    from synthleak.report.tables import outcome_files

    progress = Silent() if how.as_json else how.progress
    outcomes = run(folders, only=only, also=also, runtime=how.runtime, progress=progress)
    if out is not None:
        for name, data in outcome_files(outcomes).items():
            write_place(out / name, data)
    if how.as_json:
        print_json(
            {
                outcome.name: {
                    "rows": [asdict(row) for row in outcome.rows],
                    "lacks": outcome.unavailable,
                }
                for outcome in outcomes
            }
        )
    elif not how.quiet:
        for outcome in outcomes:
            show(outcome, every=bool(only))


def show(outcome: Any, *, every: bool) -> None:
    """Print the main columns of an analysis, or what it needs to run."""
    from synthleak.analyses.analysis import analyses

    if outcome.unavailable is not None:
        click.echo(f"{outcome.name}: {outcome.unavailable}")
        return
    entry = analyses.get(outcome.name)
    rows = outcome.rows if every else outcome.rows[:FIRST]
    columns = entry.plugin.shown or tuple(asdict(rows[0]) if rows else ())
    print_table(columns_of(rows, columns), title=f"{outcome.name}: {entry.summary}")
    if len(rows) < len(outcome.rows):
        click.echo(f"… and {len(outcome.rows) - len(rows):,} more rows: --only {outcome.name}\n")
