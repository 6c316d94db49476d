"""`synthleak split`: a random split, made before a release."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from synthleak.cli.options import PATH, json_option
from synthleak.cli.output import check_command, print_json
from synthleak.core.unit import counted


@click.command()
@click.argument("data", type=PATH)
@click.option("--out", type=PATH, required=True, help="A new folder.")
@click.option(
    "--holdout",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    default=0.5,
    show_default=True,
    help="Share of the records that is held back.",
)
@click.option(
    "--reference",
    type=click.FloatRange(0, 1, max_open=True),
    default=0.0,
    show_default=True,
    help="Share that an attacker may know, for attacker S2.",
)
@click.option("--text", default="text", show_default=True, help="The field of the text.")
@click.option("--id", "id_field", default="id", show_default=True, help="The field of the id.")
@click.option("--group", default="group", show_default=True, help="The field of the person.")
@click.option("--seed", type=click.IntRange(0), help="Drawn and recorded if not given.")
@json_option
def split(
    data: Path,
    out: Path,
    holdout: float,
    reference: float,
    text: str,
    id_field: str,
    group: str,
    seed: int | None,
    as_json: bool,
) -> None:
    """Split the records in DATA at random, before a release is made from some of them.

    Make the release from OUT/members.jsonl alone. `synthleak check` then asks whether it tells
    members from the records of OUT/holdout.jsonl. All records of a person stay on one side. Of
    repeated texts the first is kept.

    \b
    Examples:
      synthleak split records.jsonl --out split
      synthleak split notes.csv --out split --holdout 0.3 --reference 0.2 --group patient
    """
    from synthleak.preflight.split import write_split

    made = write_split(
        data,
        out,
        holdout=holdout,
        reference=reference,
        fields={"id": id_field, "text": text, "group": group},
        seed=seed,
    )
    if as_json:
        print_json({**asdict(made), "folder": str(out)})
        return
    of = f" of {counted(made.groups, 'group')}" if made.groups else ""
    known = f", {made.reference:,} for reference" * bool(made.reference)
    again = f"; left out: {counted(made.repeated, 'repeated text')}" * bool(made.repeated)
    click.echo(f"{made.members:,} members, {made.holdout:,} held back{known}{of}{again}")
    click.echo(f"make a release from {out / 'members.jsonl'}, then")
    files = ["members", "holdout", *["reference"] * bool(made.reference)]
    fields = {"text": text, "id": id_field, "group": group}
    click.echo(f"  {check_command('--random-split', out, files, fields)} --release SYNTHETIC")
