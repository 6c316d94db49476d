"""`synthleak plan power`: the smallest leak that a design would find."""

from __future__ import annotations

from pathlib import Path

import click

from synthleak.cli.options import json_option, quiet_option, spec_argument
from synthleak.cli.output import print_table
from synthleak.core.engine.progress import Lines, Silent
from synthleak.core.errors import UserError


@click.command()
@spec_argument
@click.option("--auc", type=float, help="A leak to find: how many instances would it take?")
@click.option(
    "--power", type=float, default=0.8, show_default=True, help="The probability of finding it."
)
@quiet_option
@json_option
def power(spec: Path, auc: float | None, power: float, quiet: bool, as_json: bool) -> None:
    """Show the smallest leaks that SPEC's design would find, before any work starts.

    The game is played with releases that know nothing of the targets (records of R), and leaks of
    known size are planted: an AUC raised in one signal, or members that are copied. Each row shows
    the chance limit of an AUC, the smallest AUC and the smallest share of copied members (records,
    in a cohort) that are found with the power asked for, and the largest ε that the design could
    show. Where looks are declared ([game] looks), it also shows how many instances are played on
    average, at most, until leaks of AUC 0.7, 0.6 and 0.55 (or --auc) are found.

    \b
    Examples:
      synthleak plan power audit.toml
      synthleak plan power audit.toml --auc 0.65 --power 0.9
    """
    from synthleak.audit.setup import set_up, without_models
    from synthleak.core.spec import load_spec
    from synthleak.core.store import MemoryStore
    from synthleak.preflight.power import power_table

    if auc is not None and not 0.5 < auc <= 1:
        raise UserError(f"auc = {auc:g}", "--auc", "use a number above 0.5 and at most 1")
    if not 0 < power < 1:
        raise UserError(f"power = {power:g}", "--power", "use a number between 0 and 1")
    setup = without_models(set_up(load_spec(spec), MemoryStore()))
    progress = Silent() if quiet else Lines()
    print_table(power_table(setup, progress, auc=auc, power=power), as_json=as_json)
    if not as_json:
        click.echo("An empty cell: no leak of that kind would be found. Nothing was generated.")
