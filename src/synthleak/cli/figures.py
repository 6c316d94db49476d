"""`synthleak figures`: the figures of audits, as files."""

from __future__ import annotations

from pathlib import Path

import click

from synthleak.cli.options import PATH, folders_argument, trust_option
from synthleak.core.places import Place, write_place

FORMATS = ("svg", "png", "pdf", "json")


@click.command()
@folders_argument
@click.option("--out", type=PATH, help="Write files here.  [default: DIR/figures of the first DIR]")
@click.option(
    "--format",
    "formats",
    multiple=True,
    type=click.Choice(FORMATS),
    help="May be repeated; json is the Vega-Lite specification.  [default: svg]",
)
@click.option("--only", multiple=True, metavar="NAME", help="Only this figure; may be repeated.")
@click.option("--theme", type=click.Choice(("light", "dark")), default="light", show_default=True)
@click.option("--width", type=click.IntRange(240, 4000), default=760, show_default=True)
@click.option("--list", "listed", is_flag=True, help="List the figures with their descriptions.")
@trust_option
def figures(
    folders: tuple[Place, ...],
    out: Path | None,
    formats: tuple[str, ...],
    only: tuple[str, ...],
    theme: str,
    width: int,
    listed: bool,
) -> None:
    """Draw the figures of the finished audits in DIR...: of every cell, and of the study.

    They are the figures of the report: ROC curves with their null band and the claim, proxies with
    their chance limits, scenarios, prior attacks, sorted V with both bands, attributes, control
    gap, merged pools. Several DIRs are one study.

    \b
    Examples:
      synthleak figures runs/audit
      synthleak figures runs/audit --only roc --format png --out plots
      synthleak figures runs/psytar runs/eurlex --format pdf --only attributes
    """
    from synthleak.audit.status import open_finished
    from synthleak.report.figures.files import all_figures, draw

    found = all_figures([open_finished(folder).results for folder in folders], only)
    if listed:
        for name, figure in found.items():
            click.echo(f"{name}: {figure.alt}")
        return
    target = out or folders[0] / "figures"
    for name, figure in found.items():
        for form in formats or ("svg",):
            data = draw(figure, form, theme, width)  # type: ignore[arg-type]
            write_place(target / f"{name}.{form}", data)
    click.echo(f"{len(found)} figures in {target}")
