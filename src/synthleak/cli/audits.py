"""Commands that audit: run, check, demo, status and adjudicate."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, replace
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from synthleak.cli.gate import Gate, gate_options
from synthleak.cli.options import (
    FILE,
    PATH,
    PLACE,
    How,
    engine_options,
    extend_option,
    folder_argument,
    json_option,
    out_option,
    spec_argument,
    stderr_option,
    trust_option,
    wait_option,
    wide_option,
    work_options,
)
from synthleak.cli.output import columns_of, print_json, print_prose, print_table
from synthleak.core.errors import UserError
from synthleak.core.locations import Location
from synthleak.core.validation import name_of_file

if TYPE_CHECKING:
    from synthleak.audit.adjudicate import Adjudication
    from synthleak.audit.result import Audit


BUILT_IN = ("ngram", "echo", "bystander", "constant")
"""Generators that stand in for the user's own."""


@click.command()
@spec_argument
@out_option
@extend_option
@click.option(
    "--committed",
    metavar="FILE",
    type=FILE,
    help="Refuse any other audit than the one that `plan commit` wrote to FILE; use its gate.",
)
@gate_options
@wide_option
@stderr_option
@wait_option
@engine_options
@work_options
def run(
    spec: Path,
    out: Location,
    extend: bool,
    committed: Path | None,
    wide: bool,
    gate: Gate,
    wait: bool,
    how: How,
) -> None:
    """Audit what SPEC describes and leave tables and a report in a run folder.

    Work that the folder already holds is not repeated: an interrupted run continues where it
    stopped, and a finished one has nothing to do. The table shows a row per cell; every number is
    in DIR/results, the report is DIR/report.html.

    \b
    Examples:
      synthleak run audit.toml --out runs/audit
      synthleak run audit.toml --out runs/audit --fail-if 'leak_found or claim_broken'
      synthleak run audit.toml --out runs/audit --summary audit.xml    JUnit, for CI systems
    """
    from synthleak.audit.commitment import read_commitment
    from synthleak.audit.run import run as audit_spec
    from synthleak.core.spec import load_spec

    if committed is not None:
        gate = gate.bound_to(read_commitment(committed))
    loaded = load_spec(spec)
    audit = audit_spec(
        loaded,
        out,
        extend=extend,
        committed=committed,
        runtime=how.runtime_of(loaded.spec.runtime, wait=wait),
        progress=how.progress,
    )
    show(audit, how, wide=wide)
    if not how.quiet and not how.as_json:
        _name_built_in(audit)
    gate.apply(audit)


def show(audit: Audit, how: How, *, wide: bool = False, also: Sequence[str] = ()) -> None:
    """Print the verdict and `also` these lines, then the cells, each number with its limit."""
    from synthleak.audit.summary import cell_overview

    if how.as_json:
        print_table([asdict(row) for row in audit.cells], as_json=True)
    elif not how.quiet:
        for line in (audit.headline, *also):
            print_prose(line)
        click.echo()
        if wide:
            print_table([asdict(row) for row in audit.cells], wide=True)
        else:
            print_table(cell_overview(audit.results.cells))


def _name_built_in(audit: Audit) -> None:
    """Say that the verdict is about a built-in generator, so long as the spec names no other."""
    kinds = {section.kind for section in audit.setup.spec.generator}
    if kinds <= {*BUILT_IN}:
        print_prose(
            f"This verdict is about the built-in generator {' and '.join(sorted(kinds))}, not"
            " yours: put yours into the spec (synthleak init --for command; docs/generators.md)."
        )


SHOWN_COPIES = 10
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
@click.option("--seed", type=int, default=0, show_default=True, help="Seed for all random draws.")
@click.option("--extend", is_flag=True, help="Continue in a folder whose files have changed.")
@click.option(
    "--include-text", is_flag=True, help="Print the texts of copied records: confidential."
)
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
    wide: bool,
    gate: Gate,
    wait: bool,
    how: How,
    out: Location | None,
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
    from synthleak.checks.check import keys_named_as

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
        _show_copies(audit, include_text)
        for remark in (audit.results.check or {})["remarks"]:
            print_prose(f"{remark['name']}: {remark['text']}")
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

    cells = audit.results.cells
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
        for row in (audit.copies if with_text else audit.copies[:SHOWN_COPIES])
    ]
    print_table(rows, title=f"copies ({len(audit.copies):,}: results/copies.csv)")


def _summary(audit: Audit) -> dict[str, Any]:
    about = audit.results.check or {}
    return {
        "headline": audit.headline,
        **{key: about[key] for key in ("blind", "declared", "remarks")},
        "copies": [asdict(row) for row in audit.copies],
        "cells": [asdict(row) for row in audit.cells],
    }


@click.command()
@click.option(
    "--out",
    metavar="DIR",
    type=PATH,
    default=Path("runs/demo"),
    show_default=True,
    help="The run folder.",
)
@click.option("--records", metavar="FILE", type=PATH, help="Only write the corpus, as JSON Lines.")
@wide_option
@work_options
def demo(out: Path, records: Path | None, wide: bool, how: How) -> None:
    """Run a whole audit on the built-in corpus and generator.

    The corpus is invented patient messages; the generator is a word-trigram model, without privacy
    and at ε = 8 and 1; the pools are outliers, rare labels and random controls. Every release tests
    every record of a pool, and records that leak are named. Takes a minute or two.
    """
    from synthleak.audit.run import run
    from synthleak.core.spec import load_spec

    if records is not None:
        click.echo(f"wrote {write_records(records):,} invented records to {records}")
        return
    spec = load_spec(Path(str(files("synthleak.cli").joinpath("templates/demo.toml"))))
    show(run(spec, out, runtime=how.runtime, progress=how.progress), how, wide=wide)
    if not how.quiet and not how.as_json:
        click.echo(f"Open {out / 'report.html'} in a browser. Then your own: synthleak init")


def write_records(path: Path) -> int:
    """Write the records of the demo to a file, to try other commands with; return how many."""
    from synthleak.core.errors import UserError
    from synthleak.core.whole_files import cannot_write, write_whole
    from synthleak.corpus.readers.demo import Demo
    from synthleak.preflight.split import json_lines

    if path.exists():
        raise UserError("the file already exists", str(path), "name another")
    rows = [{"id": r.id, "text": r.text, "labels": list(r.labels)} for r in Demo().read()]
    try:
        write_whole(path, json_lines(rows))
    except OSError as error:
        raise cannot_write(path, error) from None
    return len(rows)


@click.command()
@folder_argument
@trust_option
@json_option
def status(folder: Location, as_json: bool) -> None:
    """Show how far the audit in DIR is: releases and evidence per cell, and whether it finished.

    Works while the audit runs.
    """
    from synthleak.audit.finished import status as status_of

    state = status_of(folder)
    print_table(state.cells, as_json=as_json)
    if not as_json:
        click.echo(state.summary)


@click.command()
@folder_argument
@click.option("--list", "only_list", is_flag=True, help="Only list the flagged cells and why.")
@stderr_option
@trust_option
@wait_option
@work_options
def adjudicate(folder: Location, only_list: bool, wait: bool, how: How) -> None:
    """Settle the flagged cells of the finished audit in DIR by games with merged pools.

    A cell is flagged when the gap between its pool and the random controls excludes 0 after Holm.
    For those cells alone, the pool is joined with a control and the game is played again, so that
    both kinds of records are compared with the same non-members. New releases go into the same
    store; the results of the audit stay as they are, and results/adjudication.csv is added.

    \b
    Examples:
      synthleak adjudicate runs/audit --list
      synthleak adjudicate runs/audit
    """
    from synthleak.audit.adjudicate import adjudicate as settle
    from synthleak.audit.adjudicate import flagged

    if only_list:
        found = flagged(folder)
    else:
        found = settle(folder, runtime=replace(how.runtime, wait=wait), progress=how.progress)
    if how.as_json:
        rows = _flags(found) if only_list else [asdict(row) for row in found.rows]
        print_table(rows, as_json=True)
    elif not how.quiet:
        _show(found, only_list)


def _show(found: Adjudication, only_list: bool) -> None:
    if not found.flags:
        if only_list:
            click.echo("no cell is flagged")
        return
    print_table(_flags(found), title="flagged cells")
    if found.rows:
        print_table(_differences(found), title="both kinds in one pool")
    if only_list and found.waiting:
        click.echo(f"to settle them, {found.waiting:,} releases have to be made")


def _flags(found: Adjudication) -> list[dict[str, Any]]:
    return [
        {
            **{name: getattr(flag.cell, name) for name in ("pool", "generator", "epsilon")},
            "merged with": flag.control or "(every random pool shares records with it)",
            "why": flag.why,
        }
        for flag in found.flags
    ]


def _differences(found: Adjudication) -> list[dict[str, Any]]:
    """Show the scenario of each game in which the whole merged pool leaks most."""
    from synthleak.analyses.gaps import SHOWN

    best: dict[tuple[str, str, float], float] = {}
    for row in found.rows:
        game = (row.pool, row.generator, row.epsilon)
        best[game] = max(best.get(game, 0.0), row.pool_auc)
    strongest = [r for r in found.rows if r.pool_auc == best[r.pool, r.generator, r.epsilon]]
    return columns_of(strongest, SHOWN)
