"""`synthleak run`: the whole audit of a spec."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path

import click

from synthleak.cli.options import (
    json_option,
    progress_for,
    quiet_option,
    runtime_for,
    workers_option,
)
from synthleak.cli.output import print_table
from synthleak.core.cell import Cell

EXIT_FAILED = 1


@click.command()
@click.argument("spec", type=click.Path(path_type=Path))
@click.option("--out", type=click.Path(path_type=Path), required=True, help="The run folder.")
@click.option("--extend", is_flag=True, help="Go on in a folder whose spec has changed.")
@click.option("--fail-if", metavar="CONDITION", help="Exit 1 if a row of cells.csv satisfies this.")
@workers_option
@quiet_option
@json_option
def run(
    spec: Path,
    out: Path,
    extend: bool,
    fail_if: str | None,
    workers: int,
    quiet: bool,
    as_json: bool,
) -> None:
    """Audit what SPEC describes and leave tables and a report in a run folder.

    What the folder already holds is not made again: an interrupted run goes on where it stopped,
    and a finished one has nothing to do. The table shows the best proxy of each attacker; every
    figure is in OUT/results, the page is OUT/report.html.

    \b
    Examples:
      synthleak run audit.toml --out runs/audit
      synthleak run audit.toml --out runs/audit --fail-if 'p_holm < 0.01 and crossfit_tpr > 0.1'
    """
    from synthleak.audit.gate import failing, parse_gate
    from synthleak.audit.run import run as walk

    gate = None if fail_if is None else parse_gate(fail_if)
    audit = walk(
        spec, out, extend=extend, runtime=runtime_for(workers), progress=progress_for(quiet)
    )
    show(audit, quiet=quiet, as_json=as_json)
    failed = [] if gate is None else failing(gate, audit.cells)
    for row in failed:
        click.echo(f"synthleak: --fail-if holds in {Cell.of(row).name}, {row.scenario}", err=True)
    if failed:
        sys.exit(EXIT_FAILED)


def show(audit: object, *, quiet: bool, as_json: bool) -> None:
    """Print the cells of an audit, each figure with its chance ceiling, and the verdict."""
    from synthleak.audit.result import Audit

    assert isinstance(audit, Audit)
    if as_json:
        print_table([asdict(row) for row in audit.cells], as_json=True)
    elif not quiet:
        columns = (
            "pool",
            "generator",
            "epsilon",
            "scenario",
            "proxy",
            "auc",
            "null_auc95",
            "tpr_at_fpr05",
            "null_tpr95",
            "crossfit_auc",
            "p_holm",
            "verdict",
        )
        print_table(
            [{name: getattr(row, name) for name in columns} for row in audit.cells], as_json=False
        )
        click.echo(audit.headline)
