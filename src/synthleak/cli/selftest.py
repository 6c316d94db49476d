"""`synthleak selftest`: audits with a known outcome, on this machine."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path

import click

from synthleak.cli.options import EXIT_FAILED, FILE, How, work_options
from synthleak.cli.output import json_text, print_json, print_table
from synthleak.core.places import write_place


@click.command()
@click.option("--full", is_flag=True, help="400 audits per row instead of 20 or 60.")
@click.option("--out", type=FILE, help="Also write the result to this file.")
@work_options
def selftest(full: bool, out: Path | None, how: How) -> None:
    """Run audits whose outcome is known, many times, and compare the results with it.

    Counts false alarms where nothing can leak, compares with closed forms where records are copied
    at a known rate, tests bounds on ε against claims that hold or do not, and counts records that
    are named wrongly; in games and in checks. Exits 1 if a limit is exceeded.
    Takes minutes on two cores; in full, more than an hour. Two rows, of the proxy family lm, need
    the extra llm; without it they are shown as not run.
    """
    from synthleak.core.engine.progress import duration
    from synthleak.selftest.running import report_of, run_selftest

    made = run_selftest(full=full, workers=how.runtime.workers, progress=how.progress)
    content = report_of(made)
    if out is not None:
        write_place(out, f"{json_text(content)}\n".encode())
    if how.as_json:
        print_json(content)
    elif not how.quiet:
        rows = [asdict(row) for row in made.rows]
        blank = dict.fromkeys(rows[0])
        rows += [blank | {"row": name, "audits": 0, "checked": "not run"} for name in made.not_run]
        print_table(rows)
        for name, reason in made.not_run.items():
            click.echo(f"{name}: not run; {reason}")
        played = f"{len(made.rows)} rows that were run" if made.not_run else "rows"
        passed = f"all {played} pass" if made.passed else f"NOT ALL {played.upper()} PASS"
        if made.not_run:
            passed += f"; {len(made.not_run)} rows NOT RUN"
        click.echo(f"{passed}; {made.comparison}; {duration(made.seconds)}")
    if not made.passed:
        sys.exit(EXIT_FAILED)
