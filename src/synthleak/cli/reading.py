"""Commands that read a finished audit: report, explain, compare, analyse, verify and others."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from synthleak.cli.gate import Gate, gate_options
from synthleak.cli.options import (
    EXIT_FAILED,
    FILE,
    PATH,
    PLACE,
    How,
    folder_argument,
    folders_argument,
    json_option,
    trust_option,
    wait_option,
    work_options,
)
from synthleak.cli.output import columns_of, print_json, print_prose, print_table
from synthleak.core.cell import counted
from synthleak.core.engine.progress import Silent
from synthleak.core.errors import UserError
from synthleak.core.locations import Location, write_file

if TYPE_CHECKING:
    from synthleak.explanations import Explanation, Match, ReleaseStory, SignalStory
    from synthleak.report.compare import Compared


@click.command()
@folder_argument
@click.option("--open", "show", is_flag=True, help="Open the page in a browser.")
@click.option(
    "--include-text",
    is_flag=True,
    help="Put the texts of the pools' records into the page, and mark it confidential.",
)
@click.option(
    "--out",
    type=FILE,
    help="Where to write it.  [default: DIR/report.html, or DIR/report-confidential.html]",
)
@click.option(
    "--sign-off",
    metavar="[FILE]",
    is_flag=False,
    flag_value="",
    help="Write a page to sign and file instead: .html or .md.  [default: DIR/sign-off.html]",
)
@click.option("--by", metavar="NAME", help="Who signs off; left blank otherwise.")
@trust_option
@gate_options
def report(
    folder: Location,
    show: bool,
    include_text: bool,
    out: Path | None,
    sign_off: str | None,
    by: str | None,
    gate: Gate,
) -> None:
    """Write the report of the finished audit in DIR: one page that works offline.

    It holds ids and numbers, and no text of any record unless you ask for it. A page with texts is
    marked confidential and never replaces the other.

    \b
    Examples:
      synthleak report runs/audit --open
      synthleak report runs/audit --out audit.html
      synthleak report runs/audit --include-text
      synthleak report runs/audit --summary audit.md
      synthleak report runs/audit --sign-off --by "A. Officer"
    """
    from synthleak.audit.finished import open_finished, write_report
    from synthleak.report.sign_off import check_sign_off_format

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


@click.command()
@folder_argument
@click.argument("record", metavar="ID")
@click.option(
    "--cell",
    metavar="POOL[/GENERATOR[/EPSILON]]",
    help="Which cell to look at.  [default: the strongest that has the record]",
)
@click.option(
    "--include-text",
    is_flag=True,
    help="Also print the record and the synthetic texts: keep the output confidential.",
)
@trust_option
@json_option
def explain(
    folder: Location, record: str, cell: str | None, include_text: bool, as_json: bool
) -> None:
    """Explain the score of the record ID in the finished audit in DIR.

    Shows which signal recognised the record, and how it and a lexical one score the releases with
    and without the record. For the releases with the highest scores it lists the synthetic texts
    most like the record, by release and row, and the longest passage that they share, as character
    offsets. No text is printed unless you ask for it.

    \b
    Examples:
      synthleak explain runs/audit 00042
      synthleak explain runs/audit 00042 --cell outlier/ngram/inf --include-text
    """
    from synthleak.audit.finished import open_finished
    from synthleak.explanations import explain as explain_record

    pool, generator, epsilon = _cell_parts(cell)
    found = explain_record(
        open_finished(folder),
        record,
        pool=pool,
        generator=generator,
        epsilon=epsilon,
        include_text=include_text,
    )
    if as_json:
        print_json(asdict(found, dict_factory=_without_missing_text))
    else:
        click.echo("\n".join(lines_of(found)))


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


def lines_of(found: Explanation) -> list[str]:
    """Write an explanation for a terminal."""
    unstated = found.member is not None and math.isinf(found.epsilon)
    budget = "no ε stated" if unstated else f"ε = {found.epsilon:g}"
    lines = [
        f"record {found.record}: corpus {found.corpus}, pool {found.pool}, {found.generator},"
        f" {budget} ({found.verdict})",
        _membership(found),
    ]
    if found.text is not None:
        lines += ["", f"  {found.text}"]
    for story in found.signals:
        lines += ["", *_signal(story, found.member)]
    return lines


def _membership(found: Explanation) -> str:
    if found.member is None:
        return (
            f"in {counted(found.releases_with, 'release')} by its own coin, compared with"
            f" {found.releases_without} without it"
        )
    role = "a member: the release was made from it"
    if not found.member:
        role = "held out: the release was made without it"
    return role + ", by its own coin" * found.coin


def _signal(story: SignalStory, member: bool | None) -> list[str]:
    lines = [
        f"{story.proxy} in {story.scenario} ({story.view}; AUC {story.cell_auc:.3f} over the cell):"
        f" {story.meaning}"
    ]
    if story.mean_with is not None and story.mean_without is not None:
        beaten = (
            ""
            if story.record_auc is None
            else f"; AUC of the one over the other {story.record_auc:.3f}"
        )
        lines.append(
            f"  mean score with it {story.mean_with:.4g}, without {story.mean_without:.4g}{beaten}"
        )
    elif member is None:  # a check has one release, which is with or without the record
        lines.append("  needs releases with and without this record")
    for release in story.releases:
        lines += _release(release, member)
    return lines


def _release(release: ReleaseStory, member: bool | None) -> list[str]:
    held = "with it" if release.held else "without it" + ", the highest" * (member is None)
    lines = [f"  {release.release} ({held}): score {release.score:.4g}, value {release.value:.4g}"]
    for match in release.matches:
        lines.append(f"    row {match.row}: similarity {match.similarity:.3f}{_shared(match)}")
        if match.text is not None:
            lines.append(f"      {match.text}")
    return lines


def _shared(match: Match) -> str:
    span = match.longest
    if span is None:
        return ""
    return (
        f"; longest passage in common {span.end - span.start} characters"
        f" (record {span.start}–{span.end}, row {span.other_start}–{span.other_end})"
    )


COMPARED = (
    *("audit", "pool", "generator", "epsilon", "auc", "low", "high", "ceiling", "p_holm"),
    *("power", "claim", "verdict"),
)


@click.command()
@click.argument("folders", metavar="DIR DIR...", nargs=-1, required=True, type=PLACE)
@click.option("--out", type=FILE, help="Also write a page to this file.")
@trust_option
@json_option
def compare(folders: tuple[Location, ...], out: Path | None, as_json: bool) -> None:
    """Compare the finished audits in DIR DIR...; the first one is the baseline.

    Shows verdicts, the AUC of an attacker who fixed the method in advance with its chance limit,
    power and claims. Differences come with intervals where two audits ask the same question: same
    records, same game, same attacker. Where they do not, it says why.

    \b
    Examples:
      synthleak compare runs/without-dp runs/with-dp
      synthleak compare runs/vendor-a runs/vendor-b --out compare.html
    """
    from synthleak.audit.finished import compare as compare_audits
    from synthleak.report.compare import render_comparison

    found = compare_audits(folders)
    if out is not None:
        write_file(out, render_comparison(found))
    if as_json:
        print_json(asdict(found))
    else:
        _print_compared(found)
        if out is not None:
            click.echo(f"see {out}")


def _print_compared(found: Compared) -> None:
    for line in found.audits:
        print_prose(f"{line.audit} ({line.corpus}, {line.design}): {line.headline}")
        click.echo()
    print_table(
        columns_of(found.cells, COMPARED),
        title="Cells: AUC of an attacker who fixed the method in advance",
    )
    if found.differences:
        print_table(
            [
                {
                    "pool": line.pool,
                    "first": f"{line.first}: {line.first_cell}",
                    "second": f"{line.second}: {line.second_cell}",
                    "second - first": line.difference,
                    "low": line.low,
                    "high": line.high,
                    "p_holm": line.p_holm,
                    "same plan": "yes" if line.paired else "no",
                }
                for line in found.differences
            ],
            title="Differences of that AUC",
        )
    for reason in found.reasons:
        print_prose(f"not comparable: {reason}")
    for caution in found.cautions:
        print_prose(f"note: {caution}")


FIRST_ROWS = 20
"""Rows of a table that are printed unless it is asked for by name."""


@click.command()
@folders_argument
@click.option("--only", multiple=True, metavar="NAME", help="Only this analysis; may be repeated.")
@click.option("--also", multiple=True, metavar="NAME", help="Also run a slow analysis: meta.")
@click.option("--out", type=PATH, help="Write all rows to this folder, as CSV and Parquet.")
@trust_option
@work_options
def analyse(
    folders: tuple[Location, ...],
    only: tuple[str, ...],
    also: tuple[str, ...],
    out: Path | None,
    how: How,
) -> None:
    """Analyse the audits in DIR...: who carries the leakage, and could it be predicted?

    Several folders are joined into one study, so that p-values are adjusted over the pools of all
    corpora together. Nothing is generated or observed again. `synthleak list analyses` names the
    analyses; one that cannot run says in a line what it needs. Tables show their main columns; with
    --only all rows are printed, and --out writes every row and column.

    \b
    Examples:
      synthleak analyse runs/audit
      synthleak analyse runs/psytar runs/eurlex --out study
      synthleak analyse runs/audit --only meta
    """
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


FIGURE_FORMATS = ("svg", "png", "pdf", "json")


@click.command()
@folders_argument
@click.option("--out", type=PATH, help="Write files here.  [default: DIR/figures of the first DIR]")
@click.option(
    "--format",
    "formats",
    multiple=True,
    type=click.Choice(FIGURE_FORMATS),
    help="May be repeated; json is the Vega-Lite specification.  [default: svg]",
)
@click.option("--only", multiple=True, metavar="NAME", help="Only this figure; may be repeated.")
@click.option("--theme", type=click.Choice(("light", "dark")), default="light", show_default=True)
@click.option("--width", type=click.IntRange(240, 4000), default=760, show_default=True)
@click.option("--list", "listed", is_flag=True, help="List the figures with their descriptions.")
@trust_option
def figures(
    folders: tuple[Location, ...],
    out: Path | None,
    formats: tuple[str, ...],
    only: tuple[str, ...],
    theme: str,
    width: int,
    listed: bool,
) -> None:
    """Draw the figures of the finished audits in DIR...: of every cell, and of the study.

    They are the figures of the report: ROC curves with their null band and the claim, proxies with
    their chance limits, scenarios, prior attacks, sorted V with both bands, attributes, control
    gap, merged pools. Several DIRs are one study.

    \b
    Examples:
      synthleak figures runs/audit
      synthleak figures runs/audit --only roc --format png --out plots
      synthleak figures runs/psytar runs/eurlex --format pdf --only attributes
    """
    from synthleak.audit.finished import open_finished
    from synthleak.report.figures.all_figures import all_figures, draw

    found = all_figures([open_finished(folder).results for folder in folders], only)
    if listed:
        for name, figure in found.items():
            click.echo(f"{name}: {figure.alt}")
        return
    target = out or folders[0] / "figures"
    for name, figure in found.items():
        for form in formats or ("svg",):
            data = draw(figure, form, theme, width)  # type: ignore[arg-type]
            write_file(target / f"{name}.{form}", data)
    click.echo(f"{len(found)} figures in {target}")


TABLE_FORMATS = ("csv", "md", "latex")


@click.command("tables")
@folders_argument
@click.option("--out", type=PATH, help="Write files here; else print.")
@click.option("--only", multiple=True, metavar="NAME", help="Only this table; may be repeated.")
@click.option(
    "--format",
    "formats",
    multiple=True,
    type=click.Choice(TABLE_FORMATS),
    help="May be repeated.  [default: all with --out, md without]",
)
@trust_option
def tables(
    folders: tuple[Location, ...], out: Path | None, only: tuple[str, ...], formats: tuple[str, ...]
) -> None:
    """Write or print the tables of the finished audits in DIR..., joined into one study.

    Main tables per generator with and without intervals, rare pools, prior attacks, control gap,
    merged pools, distribution of vulnerability, attributes, selection rules, consistency across
    generators, the meta-classifier, corpora, pools and proxy families. Each number is shown next
    to what chance alone would give. A table whose inputs are missing says in one line what it
    needs. The format latex also writes tables.tex, a document with all tables.

    \b
    Examples:
      synthleak tables runs/psytar runs/eurlex --out tables
      synthleak tables runs/audit --only main
    """
    from synthleak.audit.finished import open_finished
    from synthleak.paper.tables.source import source_of
    from synthleak.paper.tables.write import check_names, files, make_tables

    check_names(only)
    made = make_tables(source_of([open_finished(folder) for folder in folders]), only)
    for name, reason in made.unavailable.items():
        click.echo(f"{name}: {reason}", err=True)
    texts = files(made, formats or (TABLE_FORMATS if out is not None else ("md",)))
    if out is None:
        click.echo("\n".join(texts.values()))
        return
    for name, text in texts.items():
        write_file(out / name, text.encode())
    click.echo(f"{len(made.tables)} tables in {out}", err=True)


@click.command()
@folder_argument
@click.option(
    "--replay",
    metavar="K",
    type=click.IntRange(min=0),
    default=0,
    help="Make K units again, drawn at random: releases, evidence and measurements in turn.",
)
@click.option(
    "--draw", type=click.IntRange(min=0), help="Draw the units of an earlier verification again."
)
@click.option(
    "--signed",
    metavar="PAGE",
    type=click.Path(path_type=Path),
    help="Compare with a sign-off that was filed. [default: DIR/sign-off.html, if it is there]",
)
@click.option(
    "--committed",
    metavar="FILE_OR_HASH",
    help="Compare with what `plan commit` wrote, or printed.  [default: DIR/commitment.json]",
)
@trust_option
@json_option
def verify(
    folder: Location,
    replay: int,
    draw: int | None,
    signed: Path | None,
    committed: str | None,
    as_json: bool,
) -> None:
    """Verify the finished audit in DIR: spec, versions, seeds, hashes and tables. Writes nothing.

    Files are compared with their hashes; pools and plans are drawn again from the seed, and tables
    made again from the stored evidence. Spec and tables are compared with the sign-off, settings,
    records, plan and coins with the commitment, whose gate is applied. With --replay, K units are
    made again and compared byte by byte. Language models give other bytes on other machines, so
    only key, claim and shape of their releases are compared. Exit code 0 if nothing differs, 1 if
    something does, 2 if DIR is not a finished audit.

    \b
    Examples:
      synthleak verify runs/audit
      synthleak verify runs/audit --replay 20
      synthleak verify runs/audit --signed filed/2026-11.md
      synthleak verify runs/audit --committed audit.commitment.json
    """
    import secrets

    from synthleak.audit.verify import UNCHECKED
    from synthleak.audit.verify import verify as verify_run

    draw = secrets.randbelow(2**31) if draw is None else draw
    found = verify_run(folder, replay=replay, draw=draw, signed=signed, committed=committed)
    if as_json:
        print_json({"verified": found.verified, **asdict(found)})
    else:
        print_table([asdict(finding) for finding in found.findings])
        again = f" ({replay} units of draw {draw} made again)" if replay else ""
        left = sum(finding.outcome == UNCHECKED for finding in found.findings)
        more = f", {left} of {len(found.findings)} not checked" if left else ""
        click.echo(("verified" if found.verified else "differs") + again + more)
    if not found.verified:
        sys.exit(EXIT_FAILED)


@click.command()
@folder_argument
@click.option("--yes", is_flag=True, help="Remove the files. Without it they are only listed.")
@wait_option
@json_option
def purge(folder: Location, yes: bool, wait: bool, as_json: bool) -> None:
    """Remove texts, releases and vectors from the run folder DIR; results stay verifiable.

    Tables, report, evidence and the hashes and claims of releases stay, so that `status`, `report`
    and `verify` go on working. `explain` no longer works: it needs the releases. Ids of records
    stay in the tables. Files are deleted, not overwritten; the corpus is not touched.

    \b
    Examples:
      synthleak purge runs/audit          list what would be removed
      synthleak purge runs/audit --yes
    """
    from synthleak.audit.purge import purge as purge_run
    from synthleak.audit.purge import removable

    found = purge_run(folder, wait=wait) if yes else removable(folder)
    if found or as_json:
        print_table([asdict(item) for item in found], as_json=as_json)
    if not as_json:
        done = "removed" if yes else "nothing was removed: add --yes"
        click.echo(done if found else "nothing to remove")
