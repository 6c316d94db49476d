"""`synthleak explain`: which synthetic texts and spans drove a record's score."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from synthleak.cli.options import folder_argument, json_option, trust_option
from synthleak.cli.output import print_json
from synthleak.core.errors import UserError
from synthleak.core.places import Place
from synthleak.core.unit import counted

if TYPE_CHECKING:
    from synthleak.explanations.explanation import Explanation, Match, ReleaseStory, SignalStory
    from synthleak.explanations.spans import Span


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
    folder: Place, record: str, cell: str | None, include_text: bool, as_json: bool
) -> None:
    """Explain the score of the record ID in the finished audit in DIR.

    Shows what the cell's best proxy and a lexical one saw in the releases with and without the
    record. For the releases with the highest scores it lists the synthetic texts, by release and
    row, and the spans that they share with the record, as character offsets. No text is printed
    unless you ask for it.

    \b
    Examples:
      synthleak explain runs/audit 00042
      synthleak explain runs/audit 00042 --cell outlier/ngram/inf --include-text
    """
    from synthleak.audit.status import open_finished
    from synthleak.explanations.explanation import explain as explain_record

    pool, generator, epsilon = _parts(cell)
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


def _parts(cell: str | None) -> tuple[str | None, str | None, float | None]:
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
        lines.append(f"    row {match.row}: {release.measure} {match.value:.3f}; {_shared(match)}")
        if match.text is not None:
            lines.append(f"      {match.text}")
    return lines


def _shared(match: Match) -> str:
    overlap = match.overlap
    parts = []
    if overlap.longest is not None:
        span = overlap.longest
        parts.append(
            f"longest stretch {span.length} characters (record {span.start}–{span.end},"
            f" row {span.other_start}–{span.other_end})"
        )
    parts.append(f"5-grams {overlap.gram_share:.0%}")
    if overlap.bigrams:
        parts.append(f"rare word pairs {overlap.bigram_share:.0%} ({_places(overlap.bigrams)})")
    if overlap.entities:
        parts.append(f"entities {overlap.entity_share:.0%} ({_places(overlap.entities)})")
    return "; ".join(parts)


def _places(spans: Iterable[Span]) -> str:
    """Write stretches of the record; those that touch are one."""
    joined: list[list[int]] = []
    for start, end in sorted((span.start, span.end) for span in spans):
        if joined and start <= joined[-1][1]:
            joined[-1][1] = max(end, joined[-1][1])
        else:
            joined.append([start, end])
    return ", ".join(f"{start}–{end}" for start, end in joined)
