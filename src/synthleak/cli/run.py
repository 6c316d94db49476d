"""`synthleak run`: the whole audit of a spec."""

from __future__ import annotations

import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from synthleak.cli.options import (
    EXIT_FAILED,
    How,
    extend_option,
    gate_option,
    out_option,
    spec_argument,
    stderr_option,
    wait_option,
    work_options,
)
from synthleak.cli.output import columns_of, print_table
from synthleak.core.cell import Cell

if TYPE_CHECKING:
    from synthleak.audit.result import Audit
    from synthleak.core.predicate import Predicate

SHOWN = (
    *("pool", "generator", "epsilon", "scenario", "proxy", "auc", "null_auc95"),
    *("tpr_at_fpr05", "null_tpr95", "crossfit_auc", "p_holm", "verdict"),
)
"""The columns of results/cells.csv that a terminal shows."""


@click.command()
@spec_argument
@out_option
@extend_option
@gate_option
@stderr_option
@wait_option
@work_options
def run(spec: Path, out: Path, extend: bool, fail_if: str | None, wait: bool, how: How) -> None:
    """Audit what SPEC describes and leave tables and a report in a run folder.

    Work that the folder already holds is not repeated: an interrupted run continues where it
    stopped, and a finished one has nothing to do. The table shows the best proxy of each attacker;
    every number is in OUT/results, the report is OUT/report.html.

    \b
    Examples:
      synthleak run audit.toml --out runs/audit
      synthleak run audit.toml --out runs/audit --fail-if 'p_holm < 0.01 and crossfit_tpr > 0.1'
    """
    from synthleak.audit.run import run as audit_spec

    gate = gate_of(fail_if)
    runtime = replace(how.runtime, wait=wait)
    audit = audit_spec(spec, out, extend=extend, runtime=runtime, progress=how.progress)
    show(audit, how)
    apply_gate(gate, audit)


def gate_of(condition: str | None) -> Predicate | None:
    """Read the condition of `--fail-if` before any work starts."""
    from synthleak.audit.gate import parse_gate

    return None if condition is None else parse_gate(condition)


def apply_gate(gate: Predicate | None, audit: Audit) -> None:
    """Exit 1 if a row of cells.csv satisfies the condition, and say which."""
    from synthleak.audit.gate import failing, missing

    if gate is None:
        return
    failed, rows = failing(gate, audit.cells), len(audit.cells)
    for name, count in missing(gate, audit.cells).items():
        click.echo(
            f"synthleak: --fail-if: {name} is missing in {count} of {rows} rows,"
            " which cannot satisfy a comparison with it",
            err=True,
        )
    for row in failed:
        name = Cell.of(row).title(given=row.design == "given")
        click.echo(f"synthleak: --fail-if holds in {name}, {row.scenario}", err=True)
    if failed:
        sys.exit(EXIT_FAILED)


def show(audit: Audit, how: How) -> None:
    """Print the verdict, then the cells of an audit, each number with its chance limit."""
    if how.as_json:
        print_table([asdict(row) for row in audit.cells], as_json=True)
    elif not how.quiet:
        click.echo(audit.headline)
        print_table(columns_of(audit.cells, SHOWN))
