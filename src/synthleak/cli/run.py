"""`synthleak run`: the whole audit of a spec."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from synthleak.cli.gate import Gate, gate_options
from synthleak.cli.options import (
    FILE,
    How,
    engine_options,
    extend_option,
    out_option,
    spec_argument,
    stderr_option,
    wait_option,
    wide_option,
    work_options,
)
from synthleak.cli.output import print_prose, print_table
from synthleak.core.places import Place

if TYPE_CHECKING:
    from synthleak.audit.result import Audit

BUILT_IN = ("ngram", "echo", "bystander", "constant")
"""Generators that stand in for the user's own."""


@click.command()
@spec_argument
@out_option
@extend_option
@click.option(
    "--committed",
    metavar="FILE",
    type=FILE,
    help="Refuse any other audit than the one that `plan commit` wrote to FILE; use its gate.",
)
@gate_options
@wide_option
@stderr_option
@wait_option
@engine_options
@work_options
def run(
    spec: Path,
    out: Place,
    extend: bool,
    committed: Path | None,
    wide: bool,
    gate: Gate,
    wait: bool,
    how: How,
) -> None:
    """Audit what SPEC describes and leave tables and a report in a run folder.

    Work that the folder already holds is not repeated: an interrupted run continues where it
    stopped, and a finished one has nothing to do. The table shows a row per cell; every number is
    in DIR/results, the report is DIR/report.html.

    \b
    Examples:
      synthleak run audit.toml --out runs/audit
      synthleak run audit.toml --out runs/audit --fail-if 'leak_found or claim_broken'
      synthleak run audit.toml --out runs/audit --summary audit.xml    JUnit, for CI systems
    """
    from synthleak.audit.commitment import read_commitment
    from synthleak.audit.run import run as audit_spec
    from synthleak.core.spec import load_spec

    if committed is not None:
        gate = gate.bound_to(read_commitment(committed))
    loaded = load_spec(spec)
    audit = audit_spec(
        loaded,
        out,
        extend=extend,
        committed=committed,
        runtime=how.runtime_of(loaded.spec.runtime, wait=wait),
        progress=how.progress,
    )
    show(audit, how, wide=wide)
    if not how.quiet and not how.as_json:
        _name_built_in(audit)
    gate.apply(audit)


def show(audit: Audit, how: How, *, wide: bool = False, also: Sequence[str] = ()) -> None:
    """Print the verdict and `also` these lines, then the cells, each number with its limit."""
    from synthleak.audit.summary import cell_overview

    if how.as_json:
        print_table([asdict(row) for row in audit.cells], as_json=True)
    elif not how.quiet:
        for line in (audit.headline, *also):
            print_prose(line)
        click.echo()
        if wide:
            print_table([asdict(row) for row in audit.cells], wide=True)
        else:
            print_table(cell_overview(audit.cell_results))


def _name_built_in(audit: Audit) -> None:
    """Say that the verdict is about a built-in generator, so long as the spec names no other."""
    kinds = {section.kind for section in audit.setup.spec.generator}
    if kinds <= {*BUILT_IN}:
        print_prose(
            f"This verdict is about the built-in generator {' and '.join(sorted(kinds))}, not"
            " yours: put yours into the spec (synthleak init --for command; docs/generators.md)."
        )
