"""`synthleak report`: the report of a finished audit."""

from __future__ import annotations

from pathlib import Path

import click

from synthleak.cli.gate import Gate, gate_options
from synthleak.cli.options import FILE, folder_argument, trust_option
from synthleak.core.errors import UserError
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
@click.option(
    "--sign-off",
    metavar="[FILE]",
    is_flag=False,
    flag_value="",
    help="Write a page to sign and file instead: .html or .md.  [default: DIR/sign-off.html]",
)
@click.option("--by", metavar="NAME", help="Who signs off; left blank otherwise.")
@trust_option
@gate_options
def report(
    folder: Place,
    show: bool,
    include_text: bool,
    out: Path | None,
    sign_off: str | None,
    by: str | None,
    gate: Gate,
) -> None:
    """Write the report of the finished audit in DIR: one page that works offline.

    It holds ids and numbers, and no text of any record unless you ask for it. A page with texts is
    marked confidential and never replaces the other.

    \b
    Examples:
      synthleak report runs/audit --open
      synthleak report runs/audit --out audit.html
      synthleak report runs/audit --include-text
      synthleak report runs/audit --summary audit.md
      synthleak report runs/audit --sign-off --by "A. Officer"
    """
    from synthleak.audit.run import write_report
    from synthleak.audit.status import open_finished
    from synthleak.report.sign_off import check_sign_off_format

    if sign_off is None:
        if by is not None:
            raise UserError("nothing is signed", "--by", "add --sign-off")
        path = write_report(folder, out, include_text=include_text)
    else:
        if include_text or out is not None:
            option = "--include-text" if include_text else "--out"
            raise UserError("not possible with --sign-off", option, "write the report by itself")
        if sign_off:
            check_sign_off_format(sign_off)
        path = open_finished(folder).sign_off(sign_off or None, by=by)
    size = path.stat().st_size if isinstance(path, Path) else len(path.read_bytes())
    click.echo(f"{path} ({size / 1e6:.1f} MB)")
    if show:
        click.launch(str(path))
    if gate.is_set:
        gate.apply(open_finished(folder))
