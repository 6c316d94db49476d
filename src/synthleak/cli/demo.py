"""`synthleak demo`: a whole audit that needs no file."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

import click

from synthleak.cli.options import (
    json_option,
    progress_for,
    quiet_option,
    runtime_for,
    workers_option,
)
from synthleak.cli.run import show


@click.command()
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default=Path("runs/demo"),
    show_default=True,
    help="The run folder.",
)
@workers_option
@quiet_option
@json_option
def demo(out: Path, workers: int, quiet: bool, as_json: bool) -> None:
    """Run a whole audit on the built-in corpus and generator.

    Patient messages that nobody wrote, a word-trigram generator without privacy and at ε = 4 and 1,
    and three pools: outliers, rare labels, random controls. Takes a minute or two.
    """
    from synthleak.audit.run import run as walk
    from synthleak.core.spec import load_spec

    spec = load_spec(Path(str(files("synthleak.cli").joinpath("templates/demo.toml"))))
    audit = walk(spec, out, runtime=runtime_for(workers), progress=progress_for(quiet))
    show(audit, quiet=quiet, as_json=as_json)
    if not quiet and not as_json:
        click.echo(f"Open {out / 'report.html'} in a browser.")
