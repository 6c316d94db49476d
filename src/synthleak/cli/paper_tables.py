"""`synthleak tables`: the tables of a study, in the layouts of the study, as files or on screen."""

from __future__ import annotations

from pathlib import Path

import click

from synthleak.cli.options import PATH, folders_argument, trust_option
from synthleak.core.places import Place, write_place

FORMATS = ("csv", "md", "latex")


@click.command("tables")
@folders_argument
@click.option("--out", type=PATH, help="Write files here; else print.")
@click.option("--only", multiple=True, metavar="NAME", help="Only this table; may be repeated.")
@click.option(
    "--format",
    "formats",
    multiple=True,
    type=click.Choice(FORMATS),
    help="May be repeated.  [default: all with --out, md without]",
)
@trust_option
def tables(
    folders: tuple[Place, ...], out: Path | None, only: tuple[str, ...], formats: tuple[str, ...]
) -> None:
    """Write or print the tables of the finished audits in DIR..., joined into one study.

    Main tables per generator with and without intervals, rare pools, prior attacks, control gap,
    merged pools, distribution of vulnerability, attributes, selection rules, consistency across
    generators, the meta-classifier, corpora, pools and proxy families. Each number is shown next
    to what chance alone would give. A table whose inputs are missing says in one line what it
    needs. The format latex also writes tables.tex, a document with all tables.

    \b
    Examples:
      synthleak tables runs/psytar runs/eurlex --out tables
      synthleak tables runs/audit --only main
    """
    from synthleak.audit.status import open_finished
    from synthleak.paper.tables.gather import source_of
    from synthleak.paper.tables.write import check_names, files, make_tables

    check_names(only)
    made = make_tables(source_of([open_finished(folder) for folder in folders]), only)
    for name, reason in made.unavailable.items():
        click.echo(f"{name}: {reason}", err=True)
    texts = files(made, formats or (FORMATS if out is not None else ("md",)))
    if out is None:
        click.echo("\n".join(texts.values()))
        return
    for name, text in texts.items():
        write_place(out / name, text.encode())
    click.echo(f"{len(made.tables)} tables in {out}", err=True)
