"""`synthleak status`: how far a run is."""

from __future__ import annotations

import click

from synthleak.cli.options import folder_argument, json_option, trust_option
from synthleak.cli.output import print_table
from synthleak.core.places import Place


@click.command()
@folder_argument
@trust_option
@json_option
def status(folder: Place, as_json: bool) -> None:
    """Show how far the audit in DIR is: releases and evidence per cell, and whether it finished.

    Works while the audit runs.
    """
    from synthleak.audit.status import status as status_of

    state = status_of(folder)
    print_table(state.cells, as_json=as_json)
    if not as_json:
        click.echo(state.summary)
