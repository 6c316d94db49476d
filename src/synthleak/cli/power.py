"""`synthleak plan power`: the smallest leak that a design would find."""

from __future__ import annotations

from pathlib import Path

import click

from synthleak.cli.options import json_option
from synthleak.cli.tables import print_table
from synthleak.errors import UserError


@click.command()
@click.argument("spec", type=click.Path(path_type=Path))
@click.option("--auc", type=float, help="A leak to be found: how many instances would it take?")
@click.option("--power", type=float, default=0.8, show_default=True, help="How often it is found.")
@json_option
def power(spec: Path, auc: float | None, power: float, as_json: bool) -> None:
    """Show the smallest leak that SPEC's design would find, before anything is spent.

    The design's own sampler plays on scores that know nothing: the best of all signals stays below
    the chance ceiling in 95 of 100 games, and an AUC of the size shown passes it with the power
    asked for. Evidence lies between the two rows of a pool.

    \b
    Examples:
      synthleak plan power audit.toml
      synthleak plan power audit.toml --auc 0.65 --power 0.9
    """
    from synthleak.ahead.power import power_table
    from synthleak.spec import load_spec
    from synthleak.store import MemoryStore
    from synthleak.workbench import set_up

    if auc is not None and not 0.5 < auc <= 1:
        raise UserError(f"auc = {auc:g}", "--auc", "use a number above 0.5 and at most 1")
    if not 0 < power < 1:
        raise UserError(f"power = {power:g}", "--power", "use a number between 0 and 1")
    bench = set_up(load_spec(spec), MemoryStore())
    print_table(power_table(bench, auc=auc, power=power), as_json=as_json)
    if not as_json:
        click.echo(
            "An empty cell: no AUC of one signal alone would do. Nothing was generated;"
            " scores were simulated."
        )
