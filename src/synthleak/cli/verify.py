"""`synthleak verify`: check a finished audit and its provenance."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path

import click

from synthleak.cli.options import EXIT_FAILED, folder_argument, json_option, trust_option
from synthleak.cli.output import print_json, print_table
from synthleak.core.places import Place


@click.command()
@folder_argument
@click.option(
    "--replay",
    metavar="K",
    type=click.IntRange(min=0),
    default=0,
    help="Make K units again, drawn at random: releases, evidence and measurements in turn.",
)
@click.option(
    "--draw", type=click.IntRange(min=0), help="Draw the units of an earlier verification again."
)
@click.option(
    "--signed",
    metavar="PAGE",
    type=click.Path(path_type=Path),
    help="Compare with a sign-off that was filed. [default: DIR/sign-off.html, if it is there]",
)
@click.option(
    "--committed",
    metavar="FILE_OR_HASH",
    help="Compare with what `plan commit` wrote, or printed.  [default: DIR/commitment.json]",
)
@trust_option
@json_option
def verify(
    folder: Place,
    replay: int,
    draw: int | None,
    signed: Path | None,
    committed: str | None,
    as_json: bool,
) -> None:
    """Verify the finished audit in DIR: spec, versions, seeds, hashes and tables. Writes nothing.

    Files are compared with their hashes; pools and plans are drawn again from the seed, and tables
    made again from the stored evidence. Spec and tables are compared with the sign-off, settings,
    records, plan and coins with the commitment, whose gate is applied. With --replay, K units are
    made again and compared byte by byte. Language models give other bytes on other machines, so
    only key, claim and shape of their releases are compared. Exit code 0 if nothing differs, 1 if
    something does, 2 if DIR is not a finished audit.

    \b
    Examples:
      synthleak verify runs/audit
      synthleak verify runs/audit --replay 20
      synthleak verify runs/audit --signed filed/2026-11.md
      synthleak verify runs/audit --committed audit.commitment.json
    """
    import secrets

    from synthleak.audit.verification import UNCHECKED
    from synthleak.audit.verify import verify as verify_run

    draw = secrets.randbelow(2**31) if draw is None else draw
    found = verify_run(folder, replay=replay, draw=draw, signed=signed, committed=committed)
    if as_json:
        print_json({"verified": found.verified, **asdict(found)})
    else:
        print_table([asdict(finding) for finding in found.findings])
        again = f" ({replay} units of draw {draw} made again)" if replay else ""
        left = sum(finding.outcome == UNCHECKED for finding in found.findings)
        more = f", {left} of {len(found.findings)} not checked" if left else ""
        click.echo(("verified" if found.verified else "differs") + again + more)
    if not found.verified:
        sys.exit(EXIT_FAILED)
