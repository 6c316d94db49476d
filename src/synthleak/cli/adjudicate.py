"""`synthleak adjudicate`: settle flagged cells by games with merged pools."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from synthleak.cli.options import (
    json_option,
    progress_for,
    quiet_option,
    runtime_for,
    workers_option,
)
from synthleak.cli.output import print_table

if TYPE_CHECKING:
    from synthleak.audit.adjudicate import Adjudication


@click.command()
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@click.option("--list", "only_list", is_flag=True, help="Only say which cells are flagged and why.")
@workers_option
@quiet_option
@json_option
def adjudicate(folder: Path, only_list: bool, workers: int, quiet: bool, as_json: bool) -> None:
    """Settle the flagged cells of the finished audit in DIR by games with merged pools.

    A cell is flagged when the gap between its pool and the random controls excludes 0 after Holm.
    For those cells alone, the pool is joined with a control and the game is played again, so that
    both kinds of records face the same non-members. What is made goes into the same store; the
    results of the audit stay as they are, and results/adjudication.csv is added.

    \b
    Examples:
      synthleak adjudicate runs/audit --list
      synthleak adjudicate runs/audit
    """
    from synthleak.audit.adjudicate import adjudicate as settle
    from synthleak.audit.adjudicate import flagged

    if only_list:
        found = flagged(folder)
    else:
        found = settle(folder, runtime=runtime_for(workers), progress=progress_for(quiet))
    if as_json:
        rows = _flags(found) if only_list else [asdict(row) for row in found.rows]
        print_table(rows, as_json=True)
    elif not quiet:
        _show(found, only_list)


def _show(found: Adjudication, only_list: bool) -> None:
    if not found.flags:
        if only_list:
            click.echo("no cell is flagged")
        return
    print_table(_flags(found), as_json=False, title="flagged cells")
    if found.rows:
        print_table(_differences(found), as_json=False, title="both kinds in one pool")
    if only_list and found.waiting:
        click.echo(f"to settle them, {found.waiting:,} releases have to be made")


def _flags(found: Adjudication) -> list[dict[str, Any]]:
    return [
        {
            "pool": flag.cell.pool,
            "generator": flag.cell.generator,
            "epsilon": flag.cell.epsilon,
            "merged with": flag.control or "(no random pool is apart from it)",
            "why": flag.why,
        }
        for flag in found.flags
    ]


def _differences(found: Adjudication) -> list[dict[str, Any]]:
    """Show the scenario of each game in which the whole merged pool leaks most."""
    from synthleak.analyses.merged import SHOWN

    best: dict[tuple[str, str, float], float] = {}
    for row in found.rows:
        game = (row.pool, row.generator, row.epsilon)
        best[game] = max(best.get(game, 0.0), row.pool_auc)
    return [
        {name: getattr(row, name) for name in SHOWN}
        for row in found.rows
        if row.pool_auc == best[row.pool, row.generator, row.epsilon]
    ]
