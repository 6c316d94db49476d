"""The verdict in words: what a reader may conclude, and what not (docs/method.md §8).

The order is that of a reader's questions: does it leak, whom, what shows it, what does an attacker
gain who could not search. Terminal, page, notebook and JSON show these words and no others.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from operator import attrgetter

from synthleak.analyses.ladder import MODEL
from synthleak.core.cell import CANNOT_SAY, FOUND, LEVEL, NONE_FOUND, counted_cells, noun
from synthleak.evidence.table import record_name
from synthleak.metrics.verdict_statistics import BY_NAME
from synthleak.report.results import CellResult

COUNTED = "Under add/remove this may be no more than the number of records."
"""Said where an instance without the target has a record less."""
NOBODY = "Canaries are written for the test: a worst case, and nobody's record."
CHANNELS = {
    "marker_character": "A character that only one record had came through: look at the tokenizer.",
    "marker_word": "A word that only one record had came through: look at the vocabulary.",
    "marker_length": "How long one record is came through: look at the limit of lengths.",
    "marker_label": "A class that only one record had came through: look at the set of labels.",
}
"""What a leak of marks says of the generator, by the proxy that sees it (docs/canaries.md)."""
NO_PROOF = "This does not prove that nothing leaks."
UNDECLARED = (
    "This holds if members and holdout are a uniform random split, made before the release:"
    " nobody has declared that."
)


def sentence(result: CellResult) -> str:
    """Say what was found in a cell: the verdict, the people, what decided it, what is gained."""
    return " ".join(_sentences(result))


def _sentences(result: CellResult) -> list[str]:
    return [capital(f"{result.verdict}."), *details(result)]


def details(result: CellResult) -> list[str]:
    """Return the sentences behind a verdict: the people, what decided it, what is gained."""
    verdict = result.verdict
    if verdict.kind == CANNOT_SAY:
        return _there(_copied(result))
    if verdict.leaks:
        said = _there(
            _look(result),
            size_line(result),
            _people(result),
            _decided_by(result),
            _channel(result),
            _gain(result),
            one_release_line(result) if result.sizes else None,
        )
        return said + [COUNTED] * result.counted + [NOBODY] * result.canaries
    said = [*_there(_look(result), size_line(result), _copied(result)), _missed([result])]
    return [*said, *_there(_gain(result)), NO_PROOF]


BESIDE = {
    "S2": "raw records of the same kind",
    "S3": "releases that its generator made from other records",
}
"""What an attacker has beside the release."""
ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth")


def size_line(result: CellResult) -> str | None:
    """Say up to how many texts nothing was found (docs/method.md §4.7).

    Args:
        result: A cell; one whose releases were looked at in one size has no such line.
    """
    sizes = sorted({row.release_size or 0 for row in result.sizes})
    if len(sizes) < 2 or result.verdict.kind == CANNOT_SAY:
        return None
    if result.sizes[0].leaks_from is None:
        return f"Nothing was found in up to {sizes[-1]:,} texts."
    return _told_from([result])


def _told_from(leaking: Sequence[CellResult]) -> str | None:
    """Say from how many texts on some of these cells leak; None where there is one size."""
    sizes = sorted({row.release_size or 0 for one in leaking for row in one.sizes})
    if len(sizes) < 2:
        return None
    first = min(one.sizes[0].leaks_from or sizes[-1] for one in leaking)
    if first == sizes[0]:
        return f"A leak shows in {first:,} texts already, the fewest that were looked at."
    quiet = max(size for size in sizes if size < first)
    return f"Nothing was found up to {quiet:,} texts; with {first:,} the records can be told."


def quiet_up_to(result: CellResult) -> int | None:
    """Return the largest size below that of a leak at which none was found; None without one."""
    first = result.sizes[0].leaks_from if result.sizes else None
    smaller = (row.release_size for row in result.sizes if row.release_size is not None)
    return None if first is None else max((s for s in smaller if s < first), default=None)


def one_release_line(result: CellResult) -> str | None:
    """Say what an attacker gains who sees one release; None where there is only one.

    It is the least knowledge with which the attacker gains anything, else the release alone.
    """
    rows = [row for row in result.rows if row.null_pooled95 is not None]
    if result.copies is not None or not rows:
        return None
    gaining = [row for row in rows if row.pooled_auc > (row.null_pooled95 or 1.0)]
    row = (gaining or rows)[0]
    who = "An attacker who sees a single release"
    if row.release_size is not None:
        who += f" of {row.release_size:,} texts"
    if gaining and row.scenario in BESIDE:
        who += f", and {BESIDE[row.scenario]},"
    gains = "reaches" if gaining else "gains nothing that shows:"
    return f"{who} {gains} AUC {row.pooled_auc:.2f} ({_limit(row.null_pooled95)})."


def _look(result: CellResult) -> str | None:
    """Say at which of several looks a leak was found, or that none found one."""
    row = result.rows[0]
    if row.looks == 1:
        return None
    if not result.verdict.leaks:
        return f"{row.look} looks, the last after {row.instances} releases, found nothing."
    ordinal = ORDINALS[row.look - 1] if row.look < row.looks else "last"
    return f"Found at the {ordinal} look, after {row.instances} of {result.planned} releases."


def _missed(results: Sequence[CellResult]) -> str:
    """Say what the weakest of these tests would miss."""
    powers = [math.inf if one.power is None else one.power for one in results]
    if not math.isfinite(max(powers)):
        return "What would be missed is unknown."
    return f"A single signal's AUC below {max(powers):.2f} would often be missed."


def _people(result: CellResult) -> str | None:
    """Say who is hit: named records and copies, else how many of a hundred are recognised."""
    named, copies = result.measurements.named, result.copies
    if named:
        total = len(result.measurements.records)
        kind = "canaries" if result.canaries else noun(result.rows[0].unit)
        if copies:
            kind = "people among the members" if _of_people(result) else "members"
        said = f"{named:,} of {total:,} {kind} can be named (expect 1 in 10 to be wrong)"
        return f"{said}; {_copies_of(result)}." if _copies_of(result) else f"{said}."
    rate = result.measurements.crossfit_tpr
    if named is None and rate is not None:
        of = result.few or 100
        limit = "" if rate.null is None else f" (chance limit {of * rate.null:.0f})"
        return (
            f"About {of * rate.value:.0f} of {of} members are recognised{limit} where 5 of 100"
            " others are taken for members."
        )
    return _copied(result) or f"No single {result.rows[0].unit} can be named."


def _copied(result: CellResult) -> str | None:
    """Say how many of all members are copied, in a sentence of its own."""
    said = _copies_of(result, whole=True)
    return f"{said}." if said else None


def _copies_of(result: CellResult, *, whole: bool = False) -> str:
    """Count copies of members, verbatim or nearly, and those of the holdout if there are any."""
    copies = result.copies
    if copies is None or not copies.copied[0]:
        return ""
    (count, beside), exact = copies.copied, copies.verbatim[0]
    of = f" of {copies.members:,} members" if whole else ""
    one, many = ("has a record", "have a record") if _of_people(result) else ("is", "are")
    almost = "" if exact else "almost "
    said = f"{count:,}{of} {one if count == 1 else many} copied {almost}word for word"
    if 0 < exact < count:
        said += f" or nearly so ({exact:,} word for word)"
    if beside:
        said += f", and so {one if beside == 1 else many} {beside:,} of {copies.holdout:,}"
        said += f" held-out {noun(result.rows[0].unit)}"
    return said if copies.exceed else f"{said}, which chance alone could give"


def claim_line(result: CellResult) -> str | None:
    """Say in one line what was measured of ε, what was claimed, and what the test could show.

    Args:
        result: A cell; one without a bound on ε has no such line.
    """
    bound, claimed = result.measurements.epsilon, result.measurements.epsilon_claim
    if bound is None or bound.lower is None or bound.largest is None:
        return None
    said = f"ε ≥ {bound.lower:.2f} measured"
    could = f"this test could have shown {bound.largest:.2f}"
    if bound.p is None or claimed is None:
        return f"{said}, none claimed; {could}."
    said += f", {claimed:.3g} claimed{_stated(result, claimed)}: "
    if result.verdict.contradiction is None:
        return f"{said}not contradicted; {could}."
    curve = "" if bound.lower > claimed else " by its whole curve"
    return f"{said}contradicted{curve} (p = {result.judged.claim_p_holm:.2g})."


def _stated(result: CellResult, claimed: float) -> str:
    """Say which ε was stated, where the claim is another one: that of a mechanism, or a person."""
    claim = result.claim
    if f"{claim.epsilon:.3g}" == f"{claimed:.3g}":
        return ""
    by = "by its mechanism; " if claim.events and claim.group == 1 else ""
    return f" ({by}ε = {claim.epsilon:.3g} is stated)"


MOST = 0.5
"""The release shows most of what the model knows above this share of its AUC beyond one half."""


def model_line(result: CellResult) -> str | None:
    """Say in a sentence what the release shows of what the model behind it knows.

    Args:
        result: A cell; one whose model was not asked has no such line.
    """
    rungs = {row.rung: row for row in result.ladder}
    if MODEL not in rungs:
        return None
    model = rungs[MODEL]
    release = max(rungs[row.scenario].auc for row in result.rows)
    both = f"AUC {model.auc:.2f} against {release:.2f} on all coins together"
    if model.p_holm is None:
        return "Nothing can be said of the model."
    broken = model.claim_p_holm is not None and model.claim_p_holm <= LEVEL
    said = "If the model were published, its claim would be broken. " * broken
    if model.p_holm > LEVEL:
        either = "" if result.verdict.leaks else " either"
        return f"{said}None found in the model at this power{either}: {both}."
    share = (release - 0.5) / max(model.auc - 0.5, 1e-9)
    if not result.verdict.leaks:
        return f"{said}The release hides what the model knows: {both}."
    if share >= 1:
        return f"{said}The release shows all that the model was found to know: {both}."
    verb = "shows" if share > MOST else "hides"
    return f"{said}The release {verb} most of what the model knows: {both}."


def _of_people(result: CellResult) -> bool:
    return bool(result.rows[0].unit == "person")


def _decided_by(result: CellResult) -> str | None:
    """Name the signal that decided, with the p-value of the whole search."""
    row, p = result.rows[0], result.judged.p_holm
    if row.deciding_value is None or p is None:
        return None
    search = "all signals" if result.cells == 1 else f"all signals and {result.cells} cells"
    statistic = BY_NAME[row.deciding_statistic].short
    return f"Decided by the {statistic} of {row.deciding_proxy} (p = {p:.2g} over {search})."


def _channel(result: CellResult) -> str | None:
    """Name the channel where a mark decided: of records that were written, or of a check."""
    if not result.canaries and result.copies is None:
        return None
    return CHANNELS.get(record_name(result.rows[0].deciding_proxy or ""))


def _gain(result: CellResult) -> str | None:
    """Say what an attacker gains who fixed the method in advance."""
    fitted = result.deployable
    if fitted is None:
        return None
    within = fitted.null is not None and round(fitted.value, 2) <= round(fitted.null, 2)
    also = ", which chance alone could give" if within and result.verdict.leaks else ""
    return (
        "An attacker who fixed the method in advance"
        f" reaches AUC {fitted.value:.2f} ({_limit(fitted.null)}){also}."
    )


def deciding_signal(result: CellResult) -> str | None:
    """Name the signal and the statistic that decided the verdict on a cell; None if nothing did."""
    row = result.rows[0]
    if row.deciding_value is None:
        return None
    title, limit = BY_NAME[row.deciding_statistic].title, _limit(row.deciding_ceiling)
    where = f"{row.deciding_proxy} in {row.deciding_scenario}"
    return f"{title} of {where} ({row.deciding_value:.2f}, {limit})"


def _limit(ceiling: float | None) -> str:
    return "no chance limit" if ceiling is None else f"chance limit {ceiling:.2f}"


def headline(results: Sequence[CellResult], declared: str | None = None) -> str:
    """Say what an audit found: of its one cell, or of the strongest cell of each verdict.

    `declared` is what was declared of the split of a check.
    """
    return " ".join(headline_sentences(results, declared))


def headline_sentences(results: Sequence[CellResult], declared: str | None = None) -> list[str]:
    """Return the headline by sentences, the verdict first."""
    parts = _sentences(results[0]) if len(results) == 1 else _overview(results)
    if declared == "unstated" and all(one.verdict.kind != CANNOT_SAY for one in results):
        parts.append(UNDECLARED)
    return parts


def _overview(results: Sequence[CellResult]) -> list[str]:
    """Return the sentences on several cells, the worst first."""
    kinds = {
        kind: [one for one in results if one.verdict.kind == kind]
        for kind in (FOUND, NONE_FOUND, CANNOT_SAY)
    }
    broken = [one.name for one in results if one.verdict.contradiction is not None]
    whole, parts, told = counted_cells(results), [], set()
    if broken:
        parts.append(f"CLAIM BROKEN in {counted_cells(broken)}: {'; '.join(broken)}.")
    if kinds[FOUND]:
        top = max(kinds[FOUND], key=attrgetter("strength"))
        told.add(top.name)
        parts.append(f"Leak found in {len(kinds[FOUND])} of {whole}, the strongest is {top.name}.")
        of_all, of_top = _told_from(kinds[FOUND]), size_line(top)
        parts += [of_all or line if line == of_top else line for line in details(top)]
    if quiet := kinds[NONE_FOUND]:
        top = max(quiet, key=attrgetter("strength"))
        told.add(top.name)
        which = ":" if len(quiet) == 1 else ", the strongest is"
        parts.append(f"None found at this power in {len(quiet)} of {whole}{which} {top.name}.")
        gain = None if kinds[FOUND] else _gain(top)
        parts += [*_there(_copied(top)), _missed(quiet), *_there(gain), NO_PROOF]
    if kinds[CANNOT_SAY]:
        reason = kinds[CANNOT_SAY][0].verdict.reason
        parts.append(f"Nothing can be said of {counted_cells(kinds[CANNOT_SAY])}: {reason}.")
    copying = [one.name for one in results if one.copies is not None and one.copies.exceed]
    also = [name for name in copying if name not in told]
    if also:
        parts.append(f"Members are also copied, word for word or nearly, in {'; '.join(also)}.")
    return parts


def _there(*sentences: str | None) -> list[str]:
    return [one for one in sentences if one]


def capital(words: str) -> str:
    """Return words as the beginning of a sentence."""
    return words[:1].upper() + words[1:]
