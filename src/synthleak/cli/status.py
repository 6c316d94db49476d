"""`synthleak status`: how far a run is."""

from __future__ import annotations

from pathlib import Path

import click

from synthleak.cli.options import json_option
from synthleak.cli.output import print_table


@click.command()
@click.argument("folder", type=click.Path(path_type=Path))
@json_option
def status(folder: Path, as_json: bool) -> None:
    """Show how far the audit in FOLDER is: releases and evidence per cell, and whether it ended.

    May be asked while the audit runs.
    """
    from synthleak.audit.status import status

    state = status(folder)
    print_table(state.cells, as_json=as_json)
    if not as_json:
        click.echo(state.summary)
