"""`--fail-if` and `--summary`: what a pipeline gets from an audit."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from synthleak.cli.output import EXIT_FAILED
from synthleak.core.cell import Cell
from synthleak.core.errors import UserError
from synthleak.core.locations import write_file

if TYPE_CHECKING:
    from synthleak.analyses.cells import CellRow
    from synthleak.audit.commitment import Commitment
    from synthleak.audit.result import Audit
    from synthleak.core.predicate import Predicate


@dataclass(frozen=True)
class Gate:
    """A condition on the rows of cells.csv, and where a summary goes; both may be missing."""

    condition: Predicate | None
    summary: Path | None
    allow_cannot_say: bool = False

    @property
    def is_set(self) -> bool:
        return self.condition is not None or self.summary is not None

    def bound_to(self, commitment: Commitment) -> Gate:
        """Return the gate that was committed to; another one is refused."""
        from synthleak.audit.gate import parse_gate

        wanted = commitment.gate
        if self.condition is not None and self.condition.text != wanted:
            raise UserError(
                "not the gate that was committed to"
                + (", which has none" if wanted is None else f": {wanted}"),
                "--fail-if",
                "leave --fail-if out: the committed gate is used",
            )
        return replace(self, condition=None if wanted is None else parse_gate(wanted))

    def apply(self, audit: Audit) -> None:
        """Write the summary; exit 1 if a row satisfies the condition, and say which."""
        from synthleak.audit.summary import summary_file

        if self.summary is not None:
            write_file(self.summary, summary_file(self.summary, audit, self.condition))
        if self.condition is not None:
            _apply(self.condition, audit, self.allow_cannot_say)


def _apply(condition: Predicate, audit: Audit, allow_cannot_say: bool) -> None:
    from synthleak.audit.gate import clauses, failing, missing, undecided

    failed, rows = failing(condition, audit.cells), len(audit.cells)
    for name, count in missing(condition, audit.cells).items():
        click.echo(
            f"synthleak: --fail-if: {name} is missing in {count} of {rows} rows,"
            " which cannot satisfy a comparison with it",
            err=True,
        )
    for row in failed:
        why = clauses(condition, row)
        click.echo(f"synthleak: --fail-if holds in {_name(row)}: {why}: fails", err=True)
    unsaid = [] if allow_cannot_say else undecided(condition, audit.cells)
    for row in unsaid:
        click.echo(
            f"synthleak: --fail-if: nothing can be said of {_name(row)}"
            f" ({row.cannot_say or 'no test'}); --allow-cannot-say lets it pass",
            err=True,
        )
    if failed or unsaid:
        sys.exit(EXIT_FAILED)


def _name(row: CellRow) -> str:
    return f"{Cell.of(row).title(given=row.design == 'given')}, {row.scenario}"


def with_gate(function: Callable[..., None]) -> Callable[..., None]:
    """Read `--fail-if` and `--summary` before any work starts; the function gets a `gate`."""

    @wraps(function)
    def run(fail_if: str | None, summary: Path | None, allow_cannot_say: bool, **rest: Any) -> None:
        from synthleak.audit.gate import parse_gate
        from synthleak.audit.summary import check_format

        if summary is not None:
            check_format(summary)
        condition = None if fail_if is None else parse_gate(fail_if)
        function(gate=Gate(condition, summary, allow_cannot_say), **rest)

    return run
