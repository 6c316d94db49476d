"""`synthleak compare`: audits side by side."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from synthleak.cli.options import FILE, PLACE, json_option, trust_option
from synthleak.cli.output import columns_of, print_json, print_prose, print_table
from synthleak.core.places import Place, write_place

if TYPE_CHECKING:
    from synthleak.report.compare.comparison import Compared

SHOWN = (
    *("audit", "pool", "generator", "epsilon", "auc", "low", "high", "ceiling", "p_holm"),
    *("power", "claim", "verdict"),
)


@click.command()
@click.argument("folders", metavar="DIR DIR...", nargs=-1, required=True, type=PLACE)
@click.option("--out", type=FILE, help="Also write a page to this file.")
@trust_option
@json_option
def compare(folders: tuple[Place, ...], out: Path | None, as_json: bool) -> None:
    """Compare the finished audits in DIR DIR...; the first one is the baseline.

    Shows verdicts, the AUC of an attacker who fixed the method in advance with its chance limit,
    power and claims. Differences come with intervals where two audits ask the same question: same
    records, same game, same attacker. Where they do not, it says why.

    \b
    Examples:
      synthleak compare runs/without-dp runs/with-dp
      synthleak compare runs/vendor-a runs/vendor-b --out compare.html
    """
    from synthleak.audit.sources import compare as compare_audits
    from synthleak.report.compare.page import render_comparison

    found = compare_audits(folders)
    if out is not None:
        write_place(out, render_comparison(found))
    if as_json:
        print_json(asdict(found))
    else:
        _print(found)
        if out is not None:
            click.echo(f"see {out}")


def _print(found: Compared) -> None:
    for line in found.audits:
        print_prose(f"{line.audit} ({line.corpus}, {line.design}): {line.headline}")
        click.echo()
    print_table(
        columns_of(found.cells, SHOWN),
        title="Cells: AUC of an attacker who fixed the method in advance",
    )
    if found.differences:
        print_table(
            [
                {
                    "pool": line.pool,
                    "first": f"{line.first}: {line.first_cell}",
                    "second": f"{line.second}: {line.second_cell}",
                    "second - first": line.difference,
                    "low": line.low,
                    "high": line.high,
                    "p_holm": line.p_holm,
                    "same plan": "yes" if line.paired else "no",
                }
                for line in found.differences
            ],
            title="Differences of that AUC",
        )
    for reason in found.reasons:
        print_prose(f"not comparable: {reason}")
    for caution in found.cautions:
        print_prose(f"note: {caution}")
