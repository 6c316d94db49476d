"""Commands that audit: run, check, demo, status and adjudicate."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from synthleak.cli.options import Gate, How, command
from synthleak.cli.output import columns_of, print_json, print_prose, print_table, terminal_width
from synthleak.core.cell import counted
from synthleak.core.errors import UserError
from synthleak.core.locations import Location, local
from synthleak.core.validation import name_of_file

if TYPE_CHECKING:
    from synthleak.audit.adjudicate import Adjudication
    from synthleak.audit.result import Audit


BUILT_IN = ("ngram", "echo", "bystander", "constant")
"""Generators that stand in for the user's own."""


@command("run")
def run(
    spec: Path,
    out: Location,
    extend: bool,
    committed: Path | None,
    wide: bool,
    keep_failed: bool,
    gate: Gate,
    wait: bool,
    how: How,
) -> None:
    from synthleak.audit.commitment import read_commitment
    from synthleak.audit.folder import FAILED
    from synthleak.audit.run import run as audit_spec
    from synthleak.core.spec import load_spec

    if keep_failed:  # workers have it too
        folder = local(out, "run --keep-failed", "name a run folder on this machine")
        os.environ["SYNTHLEAK_KEEP_FAILED"] = str(folder.absolute() / FAILED)
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


NARROW = 96
"""A terminal too narrow for all columns of the cells."""


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
            rows = cell_overview(audit.results.cells)
            if 0 < (terminal_width() or 0) < NARROW:  # the headline says what was disclosed
                rows = [{k: v for k, v in row.items() if "disclosed" not in k} for row in rows]
            print_table(rows)


def _name_built_in(audit: Audit) -> None:
    """Say that the verdict is about a built-in generator, so long as the spec names no other."""
    kinds = {section.kind for section in audit.setup.spec.generator}
    if kinds <= {*BUILT_IN}:
        print_prose(
            f"This verdict is about the built-in generator {' and '.join(sorted(kinds))}, not"
            " yours: put yours into the spec (synthleak init --for command; docs/generators.md)."
        )


SHOWN = 10
"""Copies, and disclosures, that are listed on the terminal; `results/` holds them all."""


@command("check")
def check(
    release: tuple[Path, ...],
    pool: tuple[str, ...],
    include_text: bool,
    wide: bool,
    caveats: bool,
    gate: Gate,
    wait: bool,
    how: How,
    out: Location | None,
    sizes: str | None,
    **options: Any,
) -> None:
    from synthleak.checks.check import check as audit_release
    from synthleak.checks.check import keys_named_as

    named = _named(release)
    with keys_named_as("options"):
        audit = audit_release(
            release=dict(named),
            out=out or Path("runs") / "-".join(["check", *(name for name, _ in named)]),
            pool=pool or None,
            sizes=_shares(sizes),
            runtime=replace(how.runtime, wait=wait),
            progress=how.progress,
            **options,
        )
    if how.as_json:
        print_json(_summary(audit))
    elif not how.quiet:
        show(audit, how, wide=wide, also=_claim_lines(audit))
        _show_printed(audit, include_text)
        _show_caveats((audit.results.check or {})["remarks"], every=caveats)
    gate.apply(audit)


def _shares(written: str | None) -> list[float] | None:
    """Read the shares of a release, written with commas between them."""
    if written is None:
        return None
    try:
        return [float(share) for share in written.split(",") if share.strip()]
    except ValueError:
        remedy = "write shares below 1 with commas, such as 0.0625,0.25"
        raise UserError(f"{written!r} holds what is no number", "--sizes", remedy) from None


def _named(paths: tuple[Path, ...]) -> list[tuple[str, Path]]:
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


def _show_printed(audit: Audit, with_text: bool) -> None:
    """Print the first copies, and disclosures beyond chance; or with their texts all of them."""
    from synthleak.analyses.copies import exceeds_chance

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
    if rows:
        print_table(rows, title=f"copies ({len(audit.copies):,}: results/copies.csv)")
    beyond = {row.generator for row in audit.cells if exceeds_chance(row.disclosed_p)}
    copied = {(row.generator, row.record) for row in audit.copies}
    others = [row for row in audit.disclosures if (row.generator, row.record) not in copied]
    told = [row for row in others if with_text or row.generator in beyond]
    rows = [
        {
            "release": row.generator,
            **{
                name: getattr(row, name)
                for name in ("side", "record", "row", "kind", "length", "q_value")
            },
            **({"text": texts[row.record][row.start : row.end]} if with_text else {}),
        }
        for row in (told if with_text else told[:SHOWN])
    ]
    if rows:
        title = f"disclosures, copies aside ({len(told):,}: results/disclosures.csv)"
        print_table(rows, title=title)


SHOWN_CAVEATS = 2


def _show_caveats(remarks: Sequence[Mapping[str, Any]], *, every: bool) -> None:
    """Print the first caveats, which are the most important ones, or all."""
    shown = remarks if every else remarks[:SHOWN_CAVEATS]
    for remark in shown:
        print_prose(f"{remark['name']}: {remark['text']}")
    if hidden := dict.fromkeys(remark["name"] for remark in remarks[len(shown) :]):
        print_prose(f"More with --caveats: {', '.join(hidden)}.")


def _summary(audit: Audit) -> dict[str, Any]:
    about = audit.results.check or {}
    return {
        "headline": audit.headline,
        **{key: about[key] for key in ("blind", "declared", "remarks")},
        "copies": [asdict(row) for row in audit.copies],
        "disclosures": [asdict(row) for row in audit.disclosures],
        "cells": [asdict(row) for row in audit.cells],
    }


@command("demo")
def demo(out: Path, records: Path | None, wide: bool, how: How) -> None:
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
    from synthleak.core.whole_files import write_whole, writing
    from synthleak.corpus.readers.demo import Demo
    from synthleak.preflight.split import json_lines

    if path.exists():
        raise UserError("the file already exists", str(path), "name another")
    rows = [{"id": r.id, "text": r.text, "labels": list(r.labels)} for r in Demo().read()]
    with writing(path):
        write_whole(path, json_lines(rows))
    return len(rows)


@command("status")
def status(folder: Location, as_json: bool) -> None:
    from synthleak.audit.finished import status as status_of

    state = status_of(folder)
    print_table(state.cells, as_json=as_json)
    if not as_json:
        click.echo(state.summary)


@command("adjudicate")
def adjudicate(folder: Location, only_list: bool, wait: bool, how: How) -> None:
    from synthleak.audit.adjudicate import adjudicate as settle
    from synthleak.audit.adjudicate import flagged

    if only_list:
        settled = flagged(folder)
    else:
        settled = settle(folder, runtime=replace(how.runtime, wait=wait), progress=how.progress)
    if how.as_json:
        rows = _flags(settled) if only_list else [asdict(row) for row in settled.rows]
        print_table(rows, as_json=True)
    elif not how.quiet:
        _show(settled, only_list)


def _show(adjudication: Adjudication, only_list: bool) -> None:
    if not adjudication.flags:
        if only_list:
            click.echo("no cell is flagged")
        return
    print_table(_flags(adjudication), title="flagged cells")
    if adjudication.rows:
        print_table(_differences(adjudication), title="both kinds in one pool")
    if only_list and adjudication.waiting:
        click.echo(f"to settle them, {counted(adjudication.waiting, 'more release')} must be made")


def _flags(adjudication: Adjudication) -> list[dict[str, Any]]:
    return [
        {
            **{name: getattr(flag.cell, name) for name in ("pool", "generator", "epsilon")},
            "merged with": flag.control or "(every random pool shares records with it)",
            "why": flag.why,
        }
        for flag in adjudication.flags
    ]


def _differences(adjudication: Adjudication) -> list[dict[str, Any]]:
    """Show the scenario of each game in which the whole merged pool leaks most."""
    from synthleak.analyses.gaps import SHOWN

    best: dict[tuple[str, str, float], float] = {}
    for row in adjudication.rows:
        game = (row.pool, row.generator, row.epsilon)
        best[game] = max(best.get(game, 0.0), row.pool_auc)
    strongest = [r for r in adjudication.rows if r.pool_auc == best[r.pool, r.generator, r.epsilon]]
    return columns_of(strongest, SHOWN)
