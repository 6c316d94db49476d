"""`synthleak doctor`: what is installed, what is missing, and how to install it."""

from __future__ import annotations

from pathlib import Path

import click

from synthleak.cli.options import json_option
from synthleak.cli.output import print_json, print_table


@click.command()
@json_option
def doctor(as_json: bool) -> None:
    """Show what is installed and which extras and device are available.

    What is missing is shown with the command that installs it.
    """
    from synthleak.preflight.doctor import examine

    found = examine(Path.cwd())
    if as_json:
        print_json(found)
        return
    click.echo(f"synthleak {found['synthleak']}\n")
    print_table([found["machine"]])
    print_table([found["device"]])
    print_table(found["packages"], title="always needed")
    print_table(found["extras"], title="extras")
    if found["plugins"]:
        print_table(found["plugins"], title="plug-ins of other packages")
    missing = [row["package"] for row in found["packages"] if row["state"] != "ok"]
    advice = f"install or update: {', '.join(missing)}"
    click.echo(advice if missing else "everything needed is installed")
