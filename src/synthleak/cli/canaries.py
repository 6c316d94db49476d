"""`synthleak canaries`: canaries with recorded coins, for a data owner who trains once."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from synthleak.cli.options import PATH, json_option
from synthleak.cli.output import check_command, print_json


@click.command()
@click.option("--data", type=PATH, required=True, help="The records that will be trained on.")
@click.option("--out", type=PATH, required=True, help="A new folder.")
@click.option("--auxiliary", type=PATH, help="Write canaries from these records, not trained on.")
@click.option(
    "--size", type=click.IntRange(2), default=60, show_default=True, help="How many canaries."
)
@click.option(
    "--prefix",
    type=click.FloatRange(0, 1),
    default=0.6,
    show_default=True,
    help="Share of ordinary words.",
)
@click.option(
    "--words",
    type=click.IntRange(2, 1000),
    help="Words per canary.  [default: the median of the records]",
)
@click.option("--text", default="text", show_default=True, help="The field of the text.")
@click.option("--id", "id_field", default="id", show_default=True, help="The field of the id.")
@click.option("--labels", default="labels", show_default=True, help="The field of the labels.")
@click.option("--seed", type=click.IntRange(0), help="Drawn and recorded if not given.")
@json_option
def canaries(
    data: Path,
    out: Path,
    auxiliary: Path | None,
    size: int,
    prefix: float,
    words: int | None,
    text: str,
    id_field: str,
    labels: str,
    seed: int | None,
    as_json: bool,
) -> None:
    """Write canaries and toss a coin for each, before a model is trained.

    Train on OUT/train.jsonl, once, and make one release. `synthleak check --coins` then tells
    whether it gives the canaries away, and bounds ε from below. Keep OUT secret until then: a
    generator whose maker knows the coins can no longer be tested. Without --auxiliary a tenth of
    the data is held back.

    \b
    Examples:
      synthleak canaries --data records.jsonl --out canaries --size 200
      synthleak check --coins --members canaries/members.jsonl --holdout canaries/holdout.jsonl \\
        --release synthetic.jsonl --reference canaries/reference.jsonl --epsilon 1 --delta 1e-6
    """
    from synthleak.preflight.canaries import write_canaries

    made = write_canaries(
        data,
        out,
        auxiliary=auxiliary,
        size=size,
        prefix=prefix,
        words=words,
        fields={"id": id_field, "text": text, "labels": labels},
        seed=seed,
    )
    if as_json:
        print_json({**asdict(made), "folder": str(made.folder)})
        return
    held = f"; {made.held_back:,} records were held back for their words" * bool(made.held_back)
    click.echo(
        f"{made.members + made.holdout:,} canaries, {made.members:,} of which joined"
        f" {made.trained - made.members:,} records{held}"
    )
    click.echo(f"train on {out / 'train.jsonl'}, then")
    files = ["members", "holdout", "reference"]
    fields = {"text": text, "id": id_field, "labels": labels}
    command = check_command("--coins", out, files, fields)
    click.echo(f"  {command} --release SYNTHETIC --epsilon E --delta D")
