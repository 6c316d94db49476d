"""`synthleak compare`: audits side by side."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from synthleak.cli.options import json_option
from synthleak.cli.output import print_table
from synthleak.core.errors import UserError

if TYPE_CHECKING:
    from synthleak.report.compare.comparison import Compared


@click.command()
@click.argument(
    "folders", metavar="DIR DIR...", nargs=-1, required=True, type=click.Path(path_type=Path)
)
@click.option(
    "--out", type=click.Path(path_type=Path, dir_okay=False), help="Also write a page here."
)
@json_option
def compare(folders: tuple[Path, ...], out: Path | None, as_json: bool) -> None:
    """Put the finished audits in DIR DIR... side by side; the first is what others are held to.

    Verdicts, the figure of an attacker who chose beforehand with its chance ceiling, power, claims,
    and differences with intervals where two audits ask the same question: same records, same game,
    same attacker. Where they do not, it says why.

    \b
    Examples:
      synthleak compare runs/without-dp runs/with-dp
      synthleak compare runs/vendor-a runs/vendor-b --out compare.html
    """
    from synthleak.audit.result import compare as beside
    from synthleak.audit.status import open_finished

    if len(folders) < 2:
        raise UserError("one audit alone cannot be compared", "compare", "name two or more")
    named = zip(_names(folders), [open_finished(folder) for folder in folders], strict=True)
    found = beside(list(named))
    if out is not None:
        _write(found, out)
    if as_json:
        click.echo(json.dumps(_plain(asdict(found)), indent=1, ensure_ascii=False))
    else:
        _print(found)
        if out is not None:
            click.echo(f"see {out}")


def _names(folders: Sequence[Path]) -> list[str]:
    """Return the folders' own names, or whole paths where these are not different."""
    short = [folder.resolve().name for folder in folders]
    return short if len(set(short)) == len(short) else [str(folder) for folder in folders]


def _write(found: Compared, out: Path) -> None:
    from synthleak.core.store import cannot_write, write_whole
    from synthleak.report.compare.page import render_comparison

    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        write_whole(out, render_comparison(found))
    except OSError as error:
        raise cannot_write(out, error) from None


def _print(found: Compared) -> None:
    for line in found.audits:
        click.echo(f"{line.audit} ({line.corpus}, {line.design}): {line.headline}\n")
    shown = ("audit", "pool", "generator", "epsilon", "auc", "low", "high", "ceiling", "p_holm")
    rows = [asdict(line) for line in found.cells]
    print_table(
        [{key: row[key] for key in (*shown, "power", "claim", "verdict")} for row in rows],
        as_json=False,
        title="Cells: AUC of an attacker who chose beforehand",
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
            as_json=False,
            title="Differences of that AUC",
        )
    for reason in found.reasons:
        click.echo(f"not comparable: {reason}")
    for caution in found.cautions:
        click.echo(f"mind: {caution}")


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return "inf" if isinstance(value, float) and math.isinf(value) else value
