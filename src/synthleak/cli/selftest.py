"""`synthleak selftest`: the auditor audited on this machine."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path

import click

from synthleak.cli.options import json_option, progress_for, quiet_option, workers_option
from synthleak.cli.output import print_table
from synthleak.core.errors import UserError

EXIT_FAILED = 1


@click.command()
@click.option("--full", is_flag=True, help="400 audits a row instead of 20.")
@click.option("--out", type=click.Path(path_type=Path), help="Also write the result to this file.")
@workers_option
@quiet_option
@json_option
def selftest(full: bool, out: Path | None, workers: int, quiet: bool, as_json: bool) -> None:
    """Play audits whose outcome is known, many times, and hold this auditor to its promises.

    False alarms where nothing can leak, closed forms where copies are made at a known rate, bounds
    on ε against claims that are honoured or broken, records named wrongly; in games and in checks.
    Exits 1 if a limit is passed. Takes two minutes on two cores; in full, 40 minutes.
    """
    from synthleak.core.engine.progress import duration
    from synthleak.selftest.running import report_of, run_selftest

    if out is not None and not out.parent.is_dir():
        raise UserError("there is no such folder", str(out.parent), "make it first")
    made = run_selftest(full=full, workers=workers, progress=progress_for(quiet))
    content = report_of(made)
    if out is not None:
        out.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    if as_json:
        click.echo(json.dumps(content, indent=1, ensure_ascii=False))
    elif not quiet:
        print_table([asdict(row) for row in made.rows], as_json=False)
        passed = "all rows pass" if made.passed else "NOT ALL ROWS PASS"
        click.echo(f"{passed}; {made.comparison}; {duration(made.seconds)}")
    if not made.passed:
        sys.exit(EXIT_FAILED)
