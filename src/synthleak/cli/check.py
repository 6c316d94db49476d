"""`synthleak check`: audit the release you already have."""

from __future__ import annotations

import json
import math
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from synthleak.cli.options import (
    json_option,
    progress_for,
    quiet_option,
    runtime_for,
    workers_option,
)
from synthleak.cli.output import print_table
from synthleak.cli.run import EXIT_FAILED, show
from synthleak.core.errors import UserError

if TYPE_CHECKING:
    from synthleak.audit.result import Audit

SHOWN = 10
"""Copies, and members, that are listed on the terminal; tables hold them all."""

file = click.Path(path_type=Path)


@click.command()
@click.option("--members", type=file, required=True, help="The records it was made from.")
@click.option("--holdout", type=file, required=True, help="Records that it never saw.")
@click.option("--release", type=file, required=True, multiple=True, help="The synthetic records.")
@click.option("--reference", type=file, help="Other records of the same kind, for attacker S2.")
@click.option("--pool", multiple=True, metavar="RULE", help="Ask about some records only.")
@click.option("--out", type=file, help="The folder; runs/check-RELEASE if none is named.")
@click.option("--random-split", is_flag=True, help="Declare a uniform random split, made before.")
@click.option("--coins", is_flag=True, help="Declare a recorded fair coin for every record.")
@click.option("--insist", is_flag=True, help="Show figures of an unfair split, without a verdict.")
@click.option("--text", default="text", show_default=True, help="The field of the text.")
@click.option("--release-text", help="The field of the text in the release, if it has another.")
@click.option("--id", "id_field", default="id", show_default=True, help="The field of the id.")
@click.option("--labels", default="labels", show_default=True, help="The field of the labels.")
@click.option("--group", default="group", show_default=True, help="The field of the person.")
@click.option("--epsilon", type=float, default=math.inf, help="The ε that the release claims.")
@click.option("--delta", type=float, help="The δ that it claims.")
@click.option("--encoder", default="static", show_default=True, help="synthleak list encoders")
@click.option("--seed", type=int, default=0, show_default=True)
@click.option("--extend", is_flag=True, help="Go on in a folder whose files have changed.")
@click.option("--show-text", is_flag=True, help="Print the texts of copied records.")
@click.option("--fail-if", metavar="CONDITION", help="Exit 1 if a row of cells.csv satisfies this.")
@workers_option
@quiet_option
@json_option
def check(
    release: tuple[Path, ...],
    pool: tuple[str, ...],
    id_field: str,
    show_text: bool,
    fail_if: str | None,
    workers: int,
    quiet: bool,
    as_json: bool,
    out: Path | None,
    **options: Any,
) -> None:
    """Audit a release that is already there, without its generator.

    Members and holdout must be a uniform random split that was made before the release. A
    classifier that never sees the release is asked first: if it tells them apart, the check stops.
    Then copies are listed, 32 proxies and two prior attacks look at every record, and one verdict
    is given, with its null. Files: .jsonl, .csv, .tsv, .txt, plain or .gz, .parquet, .arrow.

    \b
    Examples:
      synthleak check --members train.jsonl --holdout held.jsonl --release synthetic.jsonl \\
        --random-split
      synthleak check ... --reference other.jsonl --pool all --pool 'outlier: percentile=95'
      synthleak check ... --text body --release-text output --group patient
    """
    from synthleak.audit.gate import failing, parse_gate
    from synthleak.checks.check import check as walk

    gate = None if fail_if is None else parse_gate(fail_if)
    named = _named(release)
    audit = walk(
        release=dict(named),
        out=out or Path("runs") / "-".join(["check", *(name for name, _ in named)]),
        pool=pool or None,
        id=id_field,
        runtime=runtime_for(workers),
        progress=progress_for(quiet),
        **options,
    )
    if as_json:
        click.echo(json.dumps(_told(audit), indent=1, ensure_ascii=False))
    elif not quiet:
        _tell(audit, show_text)
        show(audit, quiet=False, as_json=False)
    failed = [] if gate is None else failing(gate, audit.cells)
    for row in failed:
        place = f"{row.pool}, {row.generator}, {row.scenario}"
        click.echo(f"synthleak: --fail-if holds in {place}", err=True)
    if failed:
        sys.exit(EXIT_FAILED)


def _named(paths: tuple[Path, ...]) -> list[tuple[str, Path]]:
    """Name releases after their files."""
    names = [path.name.partition(".")[0] for path in paths]
    for name in names:
        if names.count(name) > 1:
            raise UserError(f"two releases are called {name!r}", "--release", "rename one file")
    return list(zip(names, paths, strict=True))


def _tell(audit: Audit, show_text: bool) -> None:
    """Print copies first, then what was found in the files and what the verdict rests on."""
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
    print_table(rows, as_json=False, title=f"copies ({len(audit.copies):,}: results/copies.csv)")


def _told(audit: Audit) -> dict[str, Any]:
    from synthleak.core.identity import plain

    assert audit.preconditions is not None
    told: dict[str, Any] = plain(
        {
            "headline": audit.headline,
            "blind": asdict(audit.preconditions.blind),
            "declared": audit.preconditions.declared,
            "remarks": [asdict(remark) for remark in audit.remarks],
            "copies": [asdict(row) for row in audit.copies],
            "cells": [asdict(row) for row in audit.cells],
        }
    )
    return told
