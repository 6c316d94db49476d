"""`synthleak init`: a commented spec to start from."""

from __future__ import annotations

import shlex
from importlib.resources import files
from pathlib import Path

import click

from synthleak.cli.options import PATH
from synthleak.core.errors import UserError

FIRST = {
    "check": "corpus.members, corpus.holdout and generator.path",
    "command": "corpus.path and generator.argv",
}
"""The keys to set before anything else; of other templates it is the path of the corpus."""


@click.command()
@click.argument("path", type=PATH, default=Path("audit.toml"))
@click.option(
    "--for",
    "situation",
    type=click.Choice(["lone", "cohort", "command", "vendor", "check"]),
    default="lone",
    show_default=True,
    help="One record at a time; every record at once; your own program; a generator elsewhere;"
    " an existing release.",
)
@click.option(
    "--preset",
    type=click.Choice(["psytar", "dmsafn", "n2c2", "eurlex"]),
    help="The corpus, encoder and pools of a published study instead.",
)
@click.option("--force", is_flag=True, help="Overwrite an existing file.")
def init(path: Path, situation: str, preset: str | None, force: bool) -> None:
    """Write a commented spec to PATH (default: audit.toml).

    \b
    Examples:
      synthleak init                       audit a generator, one record at a time
      synthleak init --for cohort          which records leak: every release tests all of them
      synthleak init --for command         your own generator: a program that reads and writes files
      synthleak init --for vendor          the generator runs elsewhere; files go back and forth
      synthleak init --for check           one release, the records behind it, and a holdout
    """
    if path.exists() and not force:
        raise UserError("the file already exists", str(path), "use --force to overwrite it")
    if preset:
        template = files("synthleak.paper").joinpath(f"presets/{preset}.toml")
    else:
        template = files("synthleak.cli").joinpath(f"templates/{situation}.toml")
    text = template.read_text(encoding="utf-8")
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UserError(f"cannot write ({error.strerror})", str(path)) from None
    first = FIRST.get("" if preset else situation, "corpus.path")
    command = shlex.join(["synthleak", "run", str(path), "--out", f"runs/{path.stem}"])
    click.echo(f"wrote {path}: set {first}, then {command}")
