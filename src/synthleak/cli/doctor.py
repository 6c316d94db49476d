"""`synthleak doctor`: what is installed, what is missing, and what would mend it."""

from __future__ import annotations

import json
from pathlib import Path

import click

from synthleak.cli.options import json_option
from synthleak.cli.output import print_table


@click.command()
@json_option
def doctor(as_json: bool) -> None:
    """Say what is installed, which extras and device there are, and what is missing.

    Whatever is missing is shown with the command that would install it.
    """
    from synthleak.preflight.doctor import examine

    found = examine(Path.cwd())
    if as_json:
        click.echo(json.dumps(found, indent=1))
        return
    click.echo(f"synthleak {found['synthleak']}\n")
    print_table([found["machine"]], as_json=False)
    print_table([found["device"]], as_json=False)
    print_table(found["packages"], as_json=False, title="always needed")
    print_table(found["extras"], as_json=False, title="extras")
    if found["plugins"]:
        print_table(found["plugins"], as_json=False, title="plug-ins of other packages")
    missing = [row["package"] for row in found["packages"] if row["state"] != "ok"]
    click.echo(
        f"not well: {', '.join(missing)} must be installed"
        if missing
        else "all that is needed is there"
    )
