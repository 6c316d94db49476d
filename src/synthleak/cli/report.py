"""`synthleak report`: the page of a finished audit."""

from __future__ import annotations

from pathlib import Path

import click


@click.command()
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@click.option("--open", "show", is_flag=True, help="Open the page in a browser.")
@click.option(
    "--include-text",
    is_flag=True,
    help="Put the texts of the pools' records into the page, and mark it confidential.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Where to write it.  [default: DIR/report.html, or DIR/report-confidential.html]",
)
def report(folder: Path, show: bool, include_text: bool, out: Path | None) -> None:
    """Write the page of the finished audit in DIR: one file that works offline.

    It holds ids and figures, and no text of any record unless you ask for it. A page with texts is
    marked confidential and never takes the place of the other.

    \b
    Examples:
      synthleak report runs/audit --open
      synthleak report runs/audit --out audit.html
      synthleak report runs/audit --include-text
    """
    from synthleak.audit.run import write_report

    path = write_report(folder, out, include_text=include_text)
    click.echo(f"{path} ({path.stat().st_size / 1e6:.1f} MB)")
    if show:
        click.launch(str(path))
