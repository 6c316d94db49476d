"""`synthleak explain`: which synthetic texts and spans drove a record's score."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from synthleak.cli.options import json_option
from synthleak.core.errors import UserError

if TYPE_CHECKING:
    from synthleak.explanations.explanation import Explanation, Match, ReleaseStory, SignalStory
    from synthleak.explanations.spans import Span


@click.command()
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@click.argument("record", metavar="ID")
@click.option(
    "--cell",
    metavar="POOL[/GENERATOR[/EPSILON]]",
    help="Which cell to look at.  [default: the strongest that has the record]",
)
@click.option(
    "--include-text",
    is_flag=True,
    help="Print the record and the synthetic texts too: keep what is printed confidential.",
)
@json_option
def explain(folder: Path, record: str, cell: str | None, include_text: bool, as_json: bool) -> None:
    """Say why the record ID scored as it did in the finished audit in DIR.

    For the cell's best proxy, and a lexical one: the releases with and without the record, and in
    those that speak loudest the synthetic texts (by release and row) and the spans that they share
    with the record, as character offsets. No text is printed unless you ask for it.

    \b
    Examples:
      synthleak explain runs/audit 00042
      synthleak explain runs/audit 00042 --cell outlier/ngram/inf --include-text
    """
    from synthleak.audit.status import open_finished
    from synthleak.explanations.explanation import explain as told

    pool, generator, epsilon = _parts(cell)
    found = told(
        open_finished(folder),
        record,
        pool=pool,
        generator=generator,
        epsilon=epsilon,
        include_text=include_text,
    )
    click.echo(_as_json(found) if as_json else "\n".join(_lines(found)))


def _parts(cell: str | None) -> tuple[str | None, str | None, float | None]:
    parts = cell.split("/") if cell else []
    if len(parts) > 3:
        raise UserError(f"{cell!r} is no cell", "--cell", "write POOL/GENERATOR/EPSILON")
    pool, generator, epsilon = (part or None for part in [*parts, "", "", ""][:3])
    try:
        budget = None if epsilon is None else float(epsilon.replace("∞", "inf"))
    except ValueError:
        raise UserError(f"{epsilon!r} is no budget", "--cell", "write a number, or inf") from None
    return pool, generator, budget


def _as_json(found: Explanation) -> str:
    """Write the whole explanation; keys of texts are there only if texts are."""

    def plain(value: object) -> object:
        if isinstance(value, dict):
            return {k: plain(v) for k, v in value.items() if not (k == "text" and v is None)}
        if isinstance(value, list | tuple):
            return [plain(item) for item in value]
        return "inf" if value == float("inf") else value

    return json.dumps(plain(asdict(found)), indent=1, ensure_ascii=False)


def _lines(found: Explanation) -> list[str]:
    lines = [
        f"record {found.record}: corpus {found.corpus}, pool {found.pool}, {found.generator},"
        f" ε = {found.epsilon:g} ({found.verdict})",
        f"in {found.releases_with} releases by its own coin, held against"
        f" {found.releases_without} without it",
    ]
    if found.text is not None:
        lines += ["", f"  {found.text}"]
    for story in found.signals:
        lines += ["", *_signal(story)]
    return lines


def _signal(story: SignalStory) -> list[str]:
    lines = [
        f"{story.proxy} in {story.scenario} ({story.view}; AUC {story.cell_auc:.3f} over the cell):"
        f" {story.meaning}"
    ]
    if story.mean_with is None or story.mean_without is None:
        lines.append("  there are no releases both with and without it: nothing to compare")
    else:
        beaten = (
            ""
            if story.record_auc is None
            else f"; AUC of the one over the other {story.record_auc:.3f}"
        )
        lines.append(
            f"  mean score with it {story.mean_with:.4g}, without {story.mean_without:.4g}{beaten}"
        )
    for release in story.releases:
        lines += _release(release)
    return lines


def _release(release: ReleaseStory) -> list[str]:
    held = "with it" if release.held else "without it, the loudest"
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
