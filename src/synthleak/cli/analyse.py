"""`synthleak analyse`: who leaks, from the stored evidence of one audit or of several."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from synthleak.cli.options import (
    json_option,
    progress_for,
    quiet_option,
    runtime_for,
    workers_option,
)
from synthleak.cli.output import print_json, print_table

FIRST = 20
"""Rows of a table that are printed unless it is asked for by name."""


@click.command()
@click.argument(
    "folders", metavar="DIR...", nargs=-1, required=True, type=click.Path(path_type=Path)
)
@click.option("--only", multiple=True, metavar="NAME", help="Only this analysis; may be repeated.")
@click.option("--also", multiple=True, metavar="NAME", help="This one too, which takes long: meta.")
@click.option(
    "--out", type=click.Path(path_type=Path), help="Write all rows here, CSV and Parquet."
)
@workers_option
@quiet_option
@json_option
def analyse(
    folders: tuple[Path, ...],
    only: tuple[str, ...],
    also: tuple[str, ...],
    out: Path | None,
    workers: int,
    quiet: bool,
    as_json: bool,
) -> None:
    """Analyse the audits in DIR...: who carries the leakage, and could it be foretold?

    Several folders are joined into one study, so that pools of different corpora are adjusted for
    together. Nothing is generated or looked at again. `synthleak list analyses` names them; one
    that cannot be run says in a line what it lacks. Tables show their main columns; with --only
    all rows are printed, --out writes every row and column.

    \b
    Examples:
      synthleak analyse runs/audit
      synthleak analyse runs/psytar runs/eurlex --out study
      synthleak analyse runs/audit --only meta
    """
    from synthleak.audit.run import analyse as run
    from synthleak.core.store import cannot_write, write_whole
    from synthleak.report.tables import outcome_files

    outcomes = run(
        folders,
        only=only,
        also=also,
        runtime=runtime_for(workers),
        progress=progress_for(quiet or as_json),
    )
    if out is not None:
        for name, data in outcome_files(outcomes).items():
            try:
                out.mkdir(parents=True, exist_ok=True)
                write_whole(out / name, data)
            except OSError as error:
                raise cannot_write(out / name, error) from None
    if as_json:
        print_json(
            {
                outcome.name: {
                    "rows": [asdict(row) for row in outcome.rows],
                    "lacks": outcome.unavailable,
                }
                for outcome in outcomes
            }
        )
    elif not quiet:
        for outcome in outcomes:
            show(outcome, every=bool(only))


def show(outcome: Any, *, every: bool) -> None:
    """Print an analysis for people: its main columns, or what it lacks."""
    from synthleak.analyses.analysis import analyses

    if outcome.unavailable is not None:
        click.echo(f"{outcome.name}: {outcome.unavailable}")
        return
    entry = analyses.get(outcome.name)
    rows = outcome.rows if every else outcome.rows[:FIRST]
    columns = entry.plugin.shown or tuple(asdict(rows[0]) if rows else ())
    print_table(
        [{name: getattr(row, name) for name in columns} for row in rows],
        as_json=False,
        title=f"{outcome.name}: {entry.summary}",
    )
    if len(rows) < len(outcome.rows):
        click.echo(f"… and {len(outcome.rows) - len(rows):,} rows more: --only {outcome.name}\n")
