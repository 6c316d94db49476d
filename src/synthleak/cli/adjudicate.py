"""`synthleak adjudicate`: settle flagged cells by games with merged pools."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

import click

from synthleak.cli.options import (
    How,
    folder_argument,
    stderr_option,
    trust_option,
    wait_option,
    work_options,
)
from synthleak.cli.output import columns_of, print_table
from synthleak.core.places import Place

if TYPE_CHECKING:
    from synthleak.audit.adjudicate import Adjudication


@click.command()
@folder_argument
@click.option("--list", "only_list", is_flag=True, help="Only list the flagged cells and why.")
@stderr_option
@trust_option
@wait_option
@work_options
def adjudicate(folder: Place, only_list: bool, wait: bool, how: How) -> None:
    """Settle the flagged cells of the finished audit in DIR by games with merged pools.

    A cell is flagged when the gap between its pool and the random controls excludes 0 after Holm.
    For those cells alone, the pool is joined with a control and the game is played again, so that
    both kinds of records are compared with the same non-members. New releases go into the same
    store; the results of the audit stay as they are, and results/adjudication.csv is added.

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
        found = settle(folder, runtime=replace(how.runtime, wait=wait), progress=how.progress)
    if how.as_json:
        rows = _flags(found) if only_list else [asdict(row) for row in found.rows]
        print_table(rows, as_json=True)
    elif not how.quiet:
        _show(found, only_list)


def _show(found: Adjudication, only_list: bool) -> None:
    if not found.flags:
        if only_list:
            click.echo("no cell is flagged")
        return
    print_table(_flags(found), title="flagged cells")
    if found.rows:
        print_table(_differences(found), title="both kinds in one pool")
    if only_list and found.waiting:
        click.echo(f"to settle them, {found.waiting:,} releases have to be made")


def _flags(found: Adjudication) -> list[dict[str, Any]]:
    return [
        {
            **{name: getattr(flag.cell, name) for name in ("pool", "generator", "epsilon")},
            "merged with": flag.control or "(every random pool shares records with it)",
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
    strongest = [r for r in found.rows if r.pool_auc == best[r.pool, r.generator, r.epsilon]]
    return columns_of(strongest, SHOWN)
