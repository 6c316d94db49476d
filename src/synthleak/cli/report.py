"""`synthleak report`: the report of a finished audit."""

from __future__ import annotations

from pathlib import Path

import click

from synthleak.cli.gate import Gate, gate_options
from synthleak.cli.options import FILE, folder_argument, trust_option
from synthleak.core.places import Place


@click.command()
@folder_argument
@click.option("--open", "show", is_flag=True, help="Open the page in a browser.")
@click.option(
    "--include-text",
    is_flag=True,
    help="Put the texts of the pools' records into the page, and mark it confidential.",
)
@click.option(
    "--out",
    type=FILE,
    help="Where to write it.  [default: DIR/report.html, or DIR/report-confidential.html]",
)
@trust_option
@gate_options
def report(folder: Place, show: bool, include_text: bool, out: Path | None, gate: Gate) -> None:
    """Write the report of the finished audit in DIR: one page that works offline.

    It holds ids and numbers, and no text of any record unless you ask for it. A page with texts is
    marked confidential and never replaces the other.

    \b
    Examples:
      synthleak report runs/audit --open
      synthleak report runs/audit --out audit.html
      synthleak report runs/audit --include-text
      synthleak report runs/audit --summary audit.md
    """
    from synthleak.audit.run import write_report
    from synthleak.audit.status import open_finished

    path = write_report(folder, out, include_text=include_text)
    size = path.stat().st_size if isinstance(path, Path) else len(path.read_bytes())
    click.echo(f"{path} ({size / 1e6:.1f} MB)")
    if show:
        click.launch(str(path))
    if gate.is_set:
        gate.apply(open_finished(folder))
