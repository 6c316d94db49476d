"""Commands that read a finished audit: report, explain, compare, analyse, verify and others."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from synthleak.cli.options import Gate, How, command
from synthleak.cli.output import EXIT_FAILED, columns_of, print_json, print_prose, print_table
from synthleak.core.cell import counted, format_epsilon
from synthleak.core.engine.progress import Silent
from synthleak.core.errors import UserError
from synthleak.core.locations import Location, write_file

if TYPE_CHECKING:
    from synthleak.explanations import Explanation
    from synthleak.report.compare import Compared


@command("report")
def report(
    folder: Location,
    show: bool,
    include_text: bool,
    out: Path | None,
    sign_off: str | None,
    by: str | None,
    card: Path | None,
    gate: Gate,
) -> None:
    from synthleak.audit.finished import open_finished, write_report
    from synthleak.report.sign_off import check_sign_off_format

    if card is not None:
        _write_card(folder, card, [include_text, out is not None, sign_off is not None, show])
        return
    if sign_off is None:
        if by is not None:
            raise UserError("nothing is signed", "--by", "add --sign-off")
        path = write_report(folder, out, include_text=include_text)
    else:
        if include_text or out is not None:
            option = "--include-text" if include_text else "--out"
            raise UserError("not possible with --sign-off", option, "write the report by itself")
        if sign_off:
            check_sign_off_format(sign_off)
        path = open_finished(folder).sign_off(sign_off or None, by=by)
    size = path.stat().st_size if isinstance(path, Path) else len(path.read_bytes())
    click.echo(f"{path} ({size / 1e6:.1f} MB)")
    if show:
        click.launch(str(path))
    if gate.is_set:
        gate.apply(open_finished(folder))


def _write_card(folder: Location, path: Path, others: Sequence[bool]) -> None:
    from synthleak.audit.finished import open_finished
    from synthleak.audit.summary import CARDS, card, check_format

    if any(others):
        raise UserError("a card is written by itself", "--card", "leave out the other options")
    check_format(path, "--card", CARDS)
    write_file(path, card(open_finished(folder), path.suffix))
    click.echo(str(path))


@command("explain")
def explain(
    folder: Location, record: str, cell: str | None, include_text: bool, as_json: bool
) -> None:
    from synthleak.audit.finished import open_finished
    from synthleak.explanations import explain as explain_record

    pool, generator, epsilon = _cell_parts(cell)
    explanation = explain_record(
        open_finished(folder),
        record,
        pool=pool,
        generator=generator,
        epsilon=epsilon,
        include_text=include_text,
    )
    if as_json:
        print_json(asdict(explanation, dict_factory=_without_missing_text))
    else:
        click.echo("\n".join(lines_of(explanation)))


def _cell_parts(cell: str | None) -> tuple[str | None, str | None, float | None]:
    parts = cell.split("/") if cell else []
    if len(parts) > 3:
        raise UserError(f"not a cell: {cell!r}", "--cell", "write POOL/GENERATOR/EPSILON")
    pool, generator, epsilon = (part or None for part in [*parts, "", "", ""][:3])
    try:
        budget = None if epsilon is None else float(epsilon.replace("∞", "inf"))
    except ValueError:
        raise UserError(f"not an ε: {epsilon!r}", "--cell", "write a number, or inf") from None
    return pool, generator, budget


def _without_missing_text(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """Leave the key `text` out where no text was asked for."""
    return {key: value for key, value in pairs if not (key == "text" and value is None)}


def lines_of(explanation: Explanation) -> list[str]:
    from synthleak.report.writing import filled

    text = filled("explanation.txt", e=explanation, counted=counted, inf=math.inf)
    return text.decode().rstrip("\n").split("\n")


@command("compare")
def compare(folders: tuple[Location, ...], out: Path | None, as_json: bool) -> None:
    from synthleak.audit.finished import compare as compare_audits
    from synthleak.report.compare import render_comparison

    compared = compare_audits(folders)
    if out is not None:
        write_file(out, render_comparison(compared))
    if as_json:
        print_json(asdict(compared))
    else:
        _print_compared(compared)
        if out is not None:
            click.echo(f"see {out}")


def _print_compared(compared: Compared) -> None:
    print_prose(compared.conclusion)
    click.echo()
    for line in compared.audits:
        print_prose(f"{line.audit}: {line.headline}")
        click.echo()
    print_table(
        [
            {
                "audit": line.audit,
                "pool": line.pool,
                "generator": line.generator,
                "ε": format_epsilon(line.epsilon),
                "verdict": line.badge,
                "AUC": line.auc,
                "low": line.low,
                "high": line.high,
                "chance limit": line.ceiling,
                "p": line.p_holm,
                "claim": line.claim,
            }
            for line in compared.cells
        ],
        title="Cells: AUC of an attacker who fixed the method in advance",
    )
    if compared.differences:
        print_table(
            [
                {
                    "pool": line.pool,
                    "first": f"{line.first}: {line.first_cell}",
                    "second": f"{line.second}: {line.second_cell}",
                    "result": line.result,
                    "second - first": line.difference,
                    "low": line.low,
                    "high": line.high,
                    "p_holm": line.p_holm,
                    "same plan": "yes" if line.paired else "no",
                }
                for line in compared.differences
            ],
            title="Differences of that AUC",
        )
    for reason in compared.reasons:
        print_prose(f"not comparable: {reason}")
    for caution in compared.cautions:
        print_prose(f"note: {caution}")


FIRST_ROWS = 20
"""Rows of a table that are printed unless it is asked for by name."""


@command("analyse")
def analyse(
    folders: tuple[Location, ...],
    only: tuple[str, ...],
    also: tuple[str, ...],
    out: Path | None,
    how: How,
) -> None:
    from synthleak.audit.finished import analyse as run
    from synthleak.report.tables import outcome_files

    progress = Silent() if how.as_json else how.progress
    outcomes = run(folders, only=only, also=also, runtime=how.runtime, progress=progress)
    if out is not None:
        for name, data in outcome_files(outcomes).items():
            write_file(out / name, data)
    if how.as_json:
        print_json(
            {
                outcome.name: {
                    "rows": [asdict(row) for row in outcome.rows],
                    "lacks": outcome.unavailable,
                }
                for outcome in outcomes
            }
        )
    elif not how.quiet:
        for outcome in outcomes:
            show_outcome(outcome, every=bool(only))


def show_outcome(outcome: Any, *, every: bool) -> None:
    """Print the main columns of an analysis, or what it needs to run."""
    from synthleak.analyses.analysis import analyses

    if outcome.unavailable is not None:
        click.echo(f"{outcome.name}: {outcome.unavailable}")
        return
    entry = analyses.get(outcome.name)
    rows = outcome.rows if every else outcome.rows[:FIRST_ROWS]
    columns = entry.plugin.shown or tuple(asdict(rows[0]) if rows else ())
    print_table(columns_of(rows, columns), title=f"{outcome.name}: {entry.summary}")
    if len(rows) < len(outcome.rows):
        click.echo(f"… and {len(outcome.rows) - len(rows):,} more rows: --only {outcome.name}\n")


@command("figures")
def figures(
    folders: tuple[Location, ...],
    out: Path | None,
    formats: tuple[str, ...],
    only: tuple[str, ...],
    theme: str,
    width: int,
    listed: bool,
) -> None:
    from synthleak.audit.finished import open_finished
    from synthleak.report.figures.all_figures import all_figures, draw

    by_name = all_figures([open_finished(folder).results for folder in folders], only)
    if listed:
        for name, figure in by_name.items():
            click.echo(f"{name}: {figure.alt}")
        return
    target = out or folders[0] / "figures"
    for name, figure in by_name.items():
        for form in formats or ("svg",):
            data = draw(figure, form, theme, width)  # type: ignore[arg-type]
            write_file(target / f"{name}.{form}", data)
    click.echo(f"{counted(len(by_name), 'figure')} in {target}")


@command("tables")
def tables(
    folders: tuple[Location, ...], out: Path | None, only: tuple[str, ...], formats: tuple[str, ...]
) -> None:
    from synthleak.audit.finished import open_finished
    from synthleak.paper.tables.source import source_of
    from synthleak.paper.tables.write import FORMATS, check_names, files, make_tables

    check_names(only)
    made_tables = make_tables(source_of([open_finished(folder) for folder in folders]), only)
    for name, reason in made_tables.unavailable.items():
        click.echo(f"{name}: {reason}", err=True)
    formats = formats or (tuple(FORMATS) if out is not None else ("md",))
    # A document of some tables would replace that of all of them.
    texts = files(made_tables, formats, whole=not only)
    if out is None:
        click.echo("\n".join(texts.values()))
        return
    for name, text in texts.items():
        write_file(out / name, text.encode())
    click.echo(f"{counted(len(made_tables.tables), 'table')} in {out}", err=True)


@command("verify")
def verify(
    folder: Location,
    replay: int,
    draw: int | None,
    signed: Path | None,
    committed: str | None,
    as_json: bool,
) -> None:
    import secrets

    from synthleak.audit.verify import UNCHECKED
    from synthleak.audit.verify import verify as verify_run

    draw = secrets.randbelow(2**31) if draw is None else draw
    verification = verify_run(folder, replay=replay, draw=draw, signed=signed, committed=committed)
    if as_json:
        print_json({"verified": verification.verified, **asdict(verification)})
    else:
        print_table([asdict(finding) for finding in verification.findings])
        again = f" ({counted(replay, 'unit')} of draw {draw} made again)" if replay else ""
        left = sum(finding.outcome == UNCHECKED for finding in verification.findings)
        more = f", {left} of {len(verification.findings)} not checked" if left else ""
        click.echo(("verified" if verification.verified else "differs") + again + more)
    if not verification.verified:
        sys.exit(EXIT_FAILED)


@command("purge")
def purge(folder: Location, yes: bool, wait: bool, as_json: bool) -> None:
    from synthleak.audit.purge import purge as purge_run
    from synthleak.audit.purge import removable

    items = purge_run(folder, wait=wait) if yes else removable(folder)
    if items or as_json:
        print_table([asdict(item) for item in items], as_json=as_json)
    if not as_json:
        done = "removed" if yes else "nothing was removed: add --yes"
        click.echo(done if items else "nothing to remove")
