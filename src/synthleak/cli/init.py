"""`synthleak init`: a commented spec to start from."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

import click

from synthleak.errors import UserError


@click.command()
@click.argument("path", type=click.Path(path_type=Path), default=Path("audit.toml"))
@click.option(
    "--preset",
    type=click.Choice(["psytar", "dmsafn", "n2c2", "eurlex"]),
    help="The corpus, encoder and pools of a published study instead.",
)
@click.option("--force", is_flag=True, help="Replace a file that is there.")
def init(path: Path, preset: str | None, force: bool) -> None:
    """Write a commented spec to PATH (audit.toml unless you say otherwise)."""
    if path.exists() and not force:
        raise UserError("the file is there", str(path), "name another, or add --force")
    template = f"templates/presets/{preset}.toml" if preset else "templates/init.toml"
    text = files("synthleak.cli").joinpath(template).read_text(encoding="utf-8")
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UserError(f"cannot write ({error.strerror})", str(path)) from None
    click.echo(f"wrote {path}: set corpus.path, then synthleak run {path} --out runs/{path.stem}")
