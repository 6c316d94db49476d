"""`synthleak purge`: remove private text and releases from a run folder."""

from __future__ import annotations

from dataclasses import asdict

import click

from synthleak.cli.options import folder_argument, json_option, wait_option
from synthleak.cli.output import print_table
from synthleak.core.places import Place


@click.command()
@folder_argument
@click.option("--yes", is_flag=True, help="Remove the files. Without it they are only listed.")
@wait_option
@json_option
def purge(folder: Place, yes: bool, wait: bool, as_json: bool) -> None:
    """Remove texts, releases and vectors from the run folder DIR; results stay verifiable.

    Tables, report, evidence and the hashes and claims of releases stay, so that `status`, `report`
    and `verify` go on working. `explain` no longer works: it needs the releases. Ids of records
    stay in the tables. Files are deleted, not overwritten; the corpus is not touched.

    \b
    Examples:
      synthleak purge runs/audit          list what would be removed
      synthleak purge runs/audit --yes
    """
    from synthleak.audit.purge import purge as purge_run
    from synthleak.audit.purge import removable

    found = purge_run(folder, wait=wait) if yes else removable(folder)
    if found or as_json:
        print_table([asdict(item) for item in found], as_json=as_json)
    if not as_json:
        done = "removed" if yes else "nothing was removed: add --yes"
        click.echo(done if found else "nothing to remove")
