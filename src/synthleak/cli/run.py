"""`synthleak run`: the whole audit of a spec."""

from __future__ import annotations

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
from synthleak.cli.tables import print_table


@click.command()
@click.argument("spec", type=click.Path(path_type=Path))
@click.option("--out", type=click.Path(path_type=Path), required=True, help="The run folder.")
@click.option("--extend", is_flag=True, help="Go on in a folder whose spec has changed.")
@workers_option
@quiet_option
@json_option
def run(spec: Path, out: Path, extend: bool, workers: int, quiet: bool, as_json: bool) -> None:
    """Audit what SPEC describes and leave tables and a report in a run folder.

    What the folder already holds is not made again: an interrupted run goes on where it stopped,
    and a finished one has nothing to do. The table shows the best proxy of each attacker; every
    figure is in OUT/results, the page is OUT/report.html.

    \b
    Example:
      synthleak run audit.toml --out runs/audit
    """
    from synthleak.audit import run as walk

    audit = walk(
        spec, out, extend=extend, runtime=runtime_for(workers), progress=progress_for(quiet)
    )
    show(audit, quiet=quiet, as_json=as_json)


def show(audit: object, *, quiet: bool, as_json: bool) -> None:
    """Print the cells of an audit."""
    from synthleak.audit import Audit

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
            "auc_spread",
            "tpr_at_fpr05",
        )
        print_table(
            [{name: getattr(row, name) for name in columns} for row in audit.cells], as_json=False
        )
