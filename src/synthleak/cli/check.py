"""`synthleak check`: audit the release you already have."""

from __future__ import annotations

import math
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from synthleak.cli.options import PATH, How, gate_option, work_options
from synthleak.cli.output import print_json, print_table
from synthleak.cli.run import apply_gate, gate_of, show
from synthleak.core.errors import UserError

if TYPE_CHECKING:
    from synthleak.audit.result import Audit

SHOWN = 10
"""Copies that are listed on the terminal; results/copies.csv holds them all."""


@click.command()
@click.option("--members", type=PATH, required=True, help="The records it was made from.")
@click.option("--holdout", type=PATH, required=True, help="Records that were not used for it.")
@click.option("--release", type=PATH, required=True, multiple=True, help="The synthetic records.")
@click.option("--reference", type=PATH, help="Other records of the same kind, for attacker S2.")
@click.option("--pool", multiple=True, metavar="RULE", help="Ask about some records only.")
@click.option("--out", type=PATH, help="The run folder.  [default: runs/check-RELEASE]")
@click.option(
    "--random-split", is_flag=True, help="Declare a uniform random split, made before the release."
)
@click.option("--coins", is_flag=True, help="Declare a recorded fair coin for every record.")
@click.option(
    "--insist", is_flag=True, help="Show numbers, without a verdict, even if the split is unfair."
)
@click.option("--text", default="text", show_default=True, help="The field of the text.")
@click.option("--release-text", help="The field of the text in the release, if it differs.")
@click.option("--id", "id_field", default="id", show_default=True, help="The field of the id.")
@click.option("--labels", default="labels", show_default=True, help="The field of the labels.")
@click.option("--group", default="group", show_default=True, help="The field of the person.")
@click.option(
    "--unit",
    type=click.Choice(["record", "person"]),
    default="record",
    show_default=True,
    help="Ask about records, or about persons with all their records.",
)
@click.option("--max-records", type=int, help="Of a person, at most so many.  [default: 10]")
@click.option("--epsilon", type=float, default=math.inf, help="The ε that the release claims.")
@click.option("--delta", type=float, help="The δ that it claims.")
@click.option("--encoder", default="static", show_default=True, help="synthleak list encoders")
@click.option("--seed", type=int, default=0, show_default=True)
@click.option("--extend", is_flag=True, help="Continue in a folder whose files have changed.")
@click.option("--show-text", is_flag=True, help="Print the texts of copied records.")
@gate_option
@work_options
def check(
    release: tuple[Path, ...],
    pool: tuple[str, ...],
    id_field: str,
    show_text: bool,
    fail_if: str | None,
    how: How,
    out: Path | None,
    **options: Any,
) -> None:
    """Audit an existing release, without its generator.

    Members and holdout must be a uniform random split that was made before the release. First a
    classifier that never sees the release tries to tell them apart; if it can, the check stops.
    Then copies are listed, 32 proxies and two prior attacks observe every record, and one verdict
    is given next to what chance alone would give. Files: .jsonl, .csv, .tsv, .txt, plain or .gz,
    .parquet, .arrow.

    \b
    Examples:
      synthleak check --members train.jsonl --holdout held.jsonl --release synthetic.jsonl \\
        --random-split
      synthleak check ... --reference other.jsonl --pool all --pool 'outlier: percentile=95'
      synthleak check ... --text body --release-text output --group patient --unit person
    """
    from synthleak.checks.check import check as audit_release

    gate = gate_of(fail_if)
    named = _named(release)
    audit = audit_release(
        release=dict(named),
        out=out or Path("runs") / "-".join(["check", *(name for name, _ in named)]),
        pool=pool or None,
        id=id_field,
        runtime=how.runtime,
        progress=how.progress,
        **options,
    )
    if how.as_json:
        print_json(_summary(audit))
    elif not how.quiet:
        show(audit, how)
        _show_copies(audit, show_text)
    apply_gate(gate, audit)


def _named(paths: tuple[Path, ...]) -> list[tuple[str, Path]]:
    """Name releases after their files."""
    names = [path.name.partition(".")[0] for path in paths]
    for name in names:
        if names.count(name) > 1:
            raise UserError(f"two releases are called {name!r}", "--release", "rename one file")
    return list(zip(names, paths, strict=True))


def _show_copies(audit: Audit, show_text: bool) -> None:
    """Print what was found in the files, then the copies."""
    for remark in audit.remarks:
        click.echo(f"{remark.name}: {remark.text}")
    if not audit.copies:
        return
    texts = {record.id: record.text for record in audit.setup.corpus.records} if show_text else {}
    rows = [
        {
            "release": row.generator,
            "side": row.side,
            "record": row.record,
            "row": row.row,
            "kind": row.kind,
            "similarity": row.similarity,
            **({"text": texts[row.record]} if show_text else {}),
        }
        for row in (audit.copies if show_text else audit.copies[:SHOWN])
    ]
    print_table(rows, title=f"copies ({len(audit.copies):,}: results/copies.csv)")


def _summary(audit: Audit) -> dict[str, Any]:
    assert audit.preconditions is not None
    return {
        "headline": audit.headline,
        "blind": asdict(audit.preconditions.blind),
        "declared": audit.preconditions.declared,
        "remarks": [asdict(remark) for remark in audit.remarks],
        "copies": [asdict(row) for row in audit.copies],
        "cells": [asdict(row) for row in audit.cells],
    }
