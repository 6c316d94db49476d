"""`synthleak corpus`: what a spec reads, and what its pools select."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from synthleak.cli.options import json_option, spec_argument
from synthleak.cli.output import print_json, print_table

if TYPE_CHECKING:
    from synthleak.corpus.statistics import Combination
    from synthleak.preflight.survey import Survey

TOP, TAIL = 8, 4


@click.command()
@spec_argument
@json_option
def corpus(spec: Path, as_json: bool) -> None:
    """Show the corpus that SPEC reads and the pools that its rules select.

    Records, labels, lengths, duplicates and near-duplicates, label combinations, pool sizes and how
    much pools overlap. No text of a record is shown, and nothing is written.
    """
    from synthleak.preflight.survey import survey

    found = survey(spec)
    if as_json:
        print_json(asdict(found))
        return
    print_table(_figures(found), title=found.description or found.name)
    print_table(_combinations(found.combinations), title="label combinations")
    print_table([asdict(band) for band in found.frequencies], title="how rare")
    print_table(found.pools, title="pools")
    if found.overlaps:
        print_table([asdict(o) for o in found.overlaps], title="overlaps")


def _figures(found: Survey) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = [
        {"figure": name.replace("_", " "), "value": value, "how": ""}
        for name, value in asdict(found.statistics).items()
    ]
    for row in rows:
        if row["figure"].startswith("tokens"):
            row["how"] = found.tokenizer
    near = found.near_duplicates
    rows.append(
        {
            "figure": "near-duplicates",
            "value": "not looked for" if near.records is None else near.records,
            "how": f"cosine ≥ {near.cosine:g} to another record, encoder {near.encoder}",
        }
    )
    return rows


def _combinations(ranked: tuple[Combination, ...]) -> list[dict[str, Any]]:
    """Return the head and the end of the list: the end is where the rare pools are."""
    rows = [{"labels": " + ".join(c.labels) or "(none)", "records": c.records} for c in ranked]
    hidden = len(rows) - TOP - TAIL
    if hidden <= 0:
        return rows
    return [*rows[:TOP], {"labels": f"... {hidden} more ...", "records": None}, *rows[-TAIL:]]
