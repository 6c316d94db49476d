"""`synthleak check`: audit the release you already have."""

from __future__ import annotations

import math
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from synthleak.cli.gate import Gate, gate_options
from synthleak.cli.options import (
    PATH,
    PLACE,
    How,
    engine_options,
    wait_option,
    wide_option,
    work_options,
)
from synthleak.cli.output import print_json, print_prose, print_table
from synthleak.cli.run import show
from synthleak.core.errors import UserError
from synthleak.core.places import Place
from synthleak.core.validation import name_of_file

if TYPE_CHECKING:
    from synthleak.audit.result import Audit

SHOWN = 10
"""Copies that are listed on the terminal; results/copies.csv holds them all."""


@click.command()
@click.option(
    "--members", metavar="FILE", type=PATH, required=True, help="The records it was made from."
)
@click.option(
    "--holdout", metavar="FILE", type=PATH, required=True, help="Records that were not used for it."
)
@click.option(
    "--release",
    metavar="FILE",
    type=PATH,
    required=True,
    multiple=True,
    help="The synthetic records.",
)
@click.option(
    "--reference",
    metavar="FILE",
    type=PATH,
    help="Other records of the same kind, for attacker S2.",
)
@click.option("--pool", multiple=True, metavar="RULE", help="Ask about some records only.")
@click.option(
    "--out",
    metavar="DIR",
    type=PLACE,
    help="The run folder, or a URL.  [default: runs/check-RELEASE]",
)
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
@click.option(
    "--max-records", type=int, help="At most this many records of a person.  [default: 10]"
)
@click.option("--epsilon", type=float, default=math.inf, help="The ε that the release claims.")
@click.option("--delta", type=float, help="The δ that it claims.")
@click.option(
    "--mechanism",
    multiple=True,
    metavar="SETTINGS",
    help="What adds its noise: 'mu=1', or 'sigma=1.1; rate=0.01; steps=900'.",
)
@click.option("--encoder", default="static", show_default=True, help="See: synthleak list encoders")
@click.option("--seed", type=int, default=0, show_default=True, help="Names all random draws.")
@click.option("--extend", is_flag=True, help="Continue in a folder whose files have changed.")
@click.option(
    "--include-text", is_flag=True, help="Print the texts of copied records: confidential."
)
@click.option("--show-text", is_flag=True, hidden=True, help="The old name of --include-text.")
@gate_options
@wide_option
@wait_option
@engine_options
@work_options
def check(
    release: tuple[Path, ...],
    pool: tuple[str, ...],
    id_field: str,
    include_text: bool,
    show_text: bool,
    wide: bool,
    gate: Gate,
    wait: bool,
    how: How,
    out: Place | None,
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
    from synthleak.checks.arguments import keys_named_as
    from synthleak.checks.check import check as audit_release

    named = _named(release)
    with keys_named_as("options"):
        audit = audit_release(
            release=dict(named),
            out=out or Path("runs") / "-".join(["check", *(name for name, _ in named)]),
            pool=pool or None,
            id=id_field,
            runtime=replace(how.runtime, wait=wait),
            progress=how.progress,
            **options,
        )
    if how.as_json:
        print_json(_summary(audit))
    elif not how.quiet:
        show(audit, how, wide=wide, also=_claim_lines(audit))
        _show_copies(audit, include_text or show_text)
        for remark in audit.remarks:
            print_prose(f"{remark.name}: {remark.text}")
    gate.apply(audit)


def _named(paths: tuple[Path, ...]) -> list[tuple[str, Path]]:
    """Name releases after their files."""
    names = [name_of_file(path, "release") for path in paths]
    for name in names:
        if names.count(name) > 1:
            raise UserError(f"two releases are called {name!r}", "--release", "rename one file")
    return list(zip(names, paths, strict=True))


def _claim_lines(audit: Audit) -> list[str]:
    """Return what the coins say of ε, with the name of each cell where there are several."""
    from synthleak.report.verdict import claim_line

    cells = audit.cell_results
    named = [(f"{one.name}: " if len(cells) > 1 else "", claim_line(one)) for one in cells]
    return [name + line for name, line in named if line]


def _show_copies(audit: Audit, with_text: bool) -> None:
    """Print the first copies, or with their texts all of them."""
    if not audit.copies:
        return
    texts = {record.id: record.text for record in audit.setup.corpus.records} if with_text else {}
    rows = [
        {
            "release": row.generator,
            "side": row.side,
            "record": row.record,
            "row": row.row,
            "kind": row.kind,
            "similarity": row.similarity,
            **({"text": texts[row.record]} if with_text else {}),
        }
        for row in (audit.copies if with_text else audit.copies[:SHOWN])
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
