"""The verdict in words: what a reader may conclude, and what not (docs/method.md §8).

The headline is for whoever decides, without statistics: whether to publish, who is recognised, what
would settle it. The sentence on a cell has the figures behind it. Terminal, page, notebook and JSON
show these words and no others.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.resources import files

from synthleak.analyses.cells import STRONG_LEAK, TRACE
from synthleak.analyses.ladder import MODEL
from synthleak.core.cell import (
    BROKEN,
    CANNOT_SAY,
    LEVEL,
    NONE_FOUND,
    TIED,
    TOO_FEW,
    format_epsilon,
    noun,
)
from synthleak.evidence.table import record_name
from synthleak.metrics.verdict_statistics import BY_NAME
from synthleak.report.results import CellResult

PHRASES = tomllib.loads(
    (files("synthleak.report") / "templates/verdict.toml").read_text(encoding="utf-8")
)
"""What is said, in the words that people read."""


def sentence(result: CellResult) -> str:
    """Say what was found in a cell: the verdict, the people, what decided it, what is gained."""
    return " ".join(_sentences(result))


def _sentences(result: CellResult) -> list[str]:
    return [capital(f"{result.verdict}."), *details(result)]


def details(result: CellResult) -> list[str]:
    """Return the sentences behind a verdict: the people, what decided it, what is gained."""
    verdict = result.verdict
    if verdict.kind == CANNOT_SAY:
        return _there(_printed(result))
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
        said += [PHRASES["said"]["counted"]] * result.counted
        return said + [PHRASES["said"]["nobody"]] * result.canaries
    said = [*_there(_look(result), size_line(result), _printed(result)), _missed(result)]
    return [*said, *_there(_gain(result)), PHRASES["said"]["no_proof"]]


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
    return f"Nothing was found up to {quiet:,} texts; with {first:,} the records can be recognised."


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
    if result.given or not rows:
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


def _missed(result: CellResult) -> str:
    """Say what the weakest of its tests would miss."""
    if result.power is None or not math.isfinite(result.power):
        return "What would be missed is unknown."
    return f"A single signal's AUC below {result.power:.2f} would often be missed."


RECOGNISED = "can be recognised as having been used"


def _people(result: CellResult) -> str | None:
    """Say who is hit: named records and what is printed, else how many are recognised."""
    named, printed = result.measurements.named, _printed_of(result)
    if named:
        said = f"{named:,} of {_asked(result)} {RECOGNISED} (expect 1 in 10 to be wrong)"
        return f"{said}; {printed}." if printed else f"{said}."
    if named is None and (share := _share(result)):
        shown = f"{capital(share)} where 5 of 100 others are taken for members"
        return f"{shown}; {printed}." if printed else f"{shown}."
    return _printed(result) or f"No single {result.rows[0].unit} {RECOGNISED}."


def _asked(result: CellResult) -> str:
    """Return how many were tested, and what they are called."""
    asked = len(result.measurements.records)
    return f"{asked:,} {_kind(result, asked)}"


def _share(result: CellResult) -> str | None:
    """Say how many of a hundred members one release is enough to recognise; None if unknown."""
    rate = result.measurements.crossfit_tpr
    if rate is None:
        return None
    of = result.few or 100
    limit = "" if rate.null is None else f" (by chance up to {of * rate.null:.0f})"
    if result.given:
        return f"of {of} {_kind(result)} about {of * rate.value:.0f} are recognised{limit}"
    who = f"of {of} {_kind(result)} about {of * rate.value:.0f}"
    return f"{who} are recognised from one release{limit}"


def _printed(result: CellResult) -> str | None:
    """Say what of all members is copied or can be read, in a sentence of its own."""
    said = _printed_of(result, whole=True)
    return f"{said}." if said else None


def _printed_of(result: CellResult, *, whole: bool = False) -> str:
    """Say what is copied, and what more can be read."""
    return "; ".join(_there(_copies_of(result, whole=whole), _disclosed_of(result)))


def _kind(result: CellResult, count: int = 2) -> str:
    """Name what was tested: private records, people or canaries."""
    if result.canaries:
        return "canaries"
    private = "private " * (not _of_people(result))
    return private + noun(result.rows[0].unit, count)


def _disclosed_of(result: CellResult) -> str:
    """Say of how many something can be read beyond chance; nothing where most are copied."""
    kept, copies = result.disclosures, result.copies
    if kept is None or not kept.exceed:
        return ""
    inside, outside = kept.counts[kept.deciding]
    if copies is not None and copies.exceed and inside < 2 * copies.copied[0]:
        return ""
    what = PHRASES["repeats"][kept.deciding]
    whose = f"{inside:,} of {kept.inside:,} {_kind(result, kept.inside)}"
    said = f"{what} that no other record has is repeated for {whose}"
    if not result.given:
        return f"{said} where they were used, and for {outside:,} where they were not"
    return f"{said}, and for {outside:,} of {kept.outside:,} that were not used"


def _copies_of(result: CellResult, *, whole: bool = False) -> str:
    """Count copies of targets, verbatim or nearly, and those of others if there are any."""
    copies = result.copies
    if copies is None or not copies.copied[0]:
        return ""
    (count, beside), exact = copies.copied, copies.verbatim[0]
    of = f" of {copies.members:,} {_kind(result, copies.members)}" if whole else ""
    one, many = ("has a record", "have a record") if _of_people(result) else ("is", "are")
    almost = "" if exact else "almost "
    said = f"{count:,}{of} {one if count == 1 else many} copied {almost}word for word"
    if 0 < exact < count:
        said += f" or nearly so ({exact:,} word for word)"
    if not result.given:
        said += f" where they were used, and {beside:,} where they were not"
    elif beside:
        said += f", and so {one if beside == 1 else many} {beside:,} of {copies.holdout:,}"
        said += " that were not used"
    return said if copies.p_all <= LEVEL else f"{said}, which chance alone could give"


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
    """Say in a sentence what the release shows of what the model behind it would tell.

    Args:
        result: A cell; one whose model was not asked has no such line.
    """
    rungs = {row.rung: row for row in result.ladder}
    if MODEL not in rungs:
        return None
    model = rungs[MODEL]
    has = model.attacker_has
    release = max(rungs[row.scenario].auc for row in result.rows)
    both = f"AUC {model.auc:.2f} against {release:.2f} on all coins together"
    if model.p_holm is None:
        return f"Nothing can be said of {has}."
    broken = model.claim_p_holm is not None and model.claim_p_holm <= LEVEL
    said = f"If {has} were published, the claim would be broken. " * broken
    if model.p_holm > LEVEL:
        either = "" if result.verdict.leaks else " either"
        return f"{said}None found in {has} at this power{either}: {both}."
    share = (release - 0.5) / max(model.auc - 0.5, 1e-9)
    if not result.verdict.leaks:
        return f"{said}The release hides what {has} would tell: {both}."
    if share >= 1:
        return f"{said}The release shows all that was found in {has}: {both}."
    verb = "shows" if share > MOST else "hides"
    return f"{said}The release {verb} most of what {has} would tell: {both}."


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
    if not result.canaries and not result.given:
        return None
    said: str | None = PHRASES["channel"].get(record_name(result.rows[0].deciding_proxy or ""))
    return said


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


COPIES, DISCLOSED = "copies", "disclosures"
STANDINGS = (BROKEN, STRONG_LEAK, TRACE, COPIES, DISCLOSED, NONE_FOUND, CANNOT_SAY)
"""What is said of a cell to whoever decides, the worst first."""
NAMES = 3
"""Of more decisions of a kind the first ones are named, and the others counted."""


def standing(result: CellResult) -> str:
    """Return what is said of a cell to whoever decides: one of `STANDINGS`.

    Args:
        result: The cell.
    """
    if result.verdict.contradiction is not None:
        return BROKEN
    if result.verdict.leaks:
        return result.grade
    if result.copies is not None and result.copies.exceed:
        return COPIES
    read = result.disclosures is not None and result.disclosures.exceed
    return DISCLOSED if read and result.verdict.kind == NONE_FOUND else result.verdict.kind


def worst(results: Iterable[CellResult]) -> CellResult:
    """Return the cell by which others are told: the worst, of people where people were tested.

    A promise that is broken comes first all the same: it was made for every record.

    Args:
        results: The cells, of one decision or of several.
    """
    results = list(results)
    people = any(not one.canaries for one in results)
    return max(
        results,
        key=lambda one: (
            standing(one) == BROKEN or not (people and one.canaries and one.verdict.leaks),
            -STANDINGS.index(standing(one)),
            _beyond(one),
            one.strength,
        ),
    )


def _beyond(result: CellResult) -> bool:
    """Say whether one release recognises more records than chance would."""
    rate = result.measurements.crossfit_tpr
    return rate is not None and rate.null is not None and rate.value > rate.null


def headline(results: Sequence[CellResult], declared: str | None = None) -> str:
    """Say what an audit found, in plain sentences for whoever decides: no statistics.

    Args:
        results: The cells.
        declared: What was declared of the split of a check.
    """
    return " ".join(headline_sentences(results, declared))


def headline_sentences(results: Sequence[CellResult], declared: str | None = None) -> list[str]:
    """Return the headline by sentences: whether to publish, why, and what would settle it.

    Args:
        results: The cells.
        declared: What was declared of the split of a check.
    """
    top = worst(results)
    parts = [lead(top), *_there(_also(top), _listing(results))]
    parts += _there(_size_of(results, top), _look(top))
    parts += _there(_channel(top) if top.verdict.leaks else None, settled_by(top))
    if declared == "unstated" and all(one.verdict.kind != CANNOT_SAY for one in results):
        parts.append(PHRASES["said"]["undeclared"])
    return parts


def lead(result: CellResult) -> str:
    """Say in one sentence whether to publish, and why.

    Args:
        result: The cell that a decision rests on.
    """
    kind = standing(result)
    if result.canaries and result.verdict.leaks and kind != BROKEN:
        return f"A record as unusual as those written for this test could leak: {_told(result)}."
    return f"{PHRASES['lead'][kind]}{_BECAUSE[kind](result)}."


def _broken(result: CellResult) -> str:
    """Say that a promise is broken, and who is hit if it shows in one release."""
    people = f"; {_told(result)}" if result.grade == STRONG_LEAK else ""
    return f"the release shows more than the promise allows{people}"


def _told(result: CellResult) -> str:
    """Say who is recognised, for whoever decides; who is printed where nobody is counted."""
    if result.measurements.named:
        return f"of {_asked(result)} tested, {result.measurements.named:,} {RECOGNISED}"
    return _share(result) or _beyond_chance(result) or "records were recognised"


def _beyond_chance(result: CellResult) -> str:
    """Say what is copied and disclosed, as far as it is more than chance gives."""
    exceed = result.copies is not None and result.copies.exceed
    copied = _copies_of(result, whole=True) if exceed else ""
    return "; ".join(_there(copied, _disclosed_of(result)))


def _also(result: CellResult) -> str | None:
    """Say what is copied and disclosed beside those who are recognised; None if nothing is."""
    printed = _beyond_chance(result) if result.grade == STRONG_LEAK else ""
    return f"{capital(printed)}." if printed and printed != _told(result) else None


def _hardly(result: CellResult) -> str:
    """Say why a leak is a trace only."""
    who = "hardly anybody" if _beyond(result) else "nobody"
    where, seen = "from one release ", f"by comparing {result.rows[0].instances:,} releases"
    if result.given:
        where, seen = "", f"in all {_kind(result)} together"
    return f"seen only {seen}; {where}{who} is recognised beyond pure guessing"


def _small(result: CellResult) -> str:
    """Say that a leak could have been missed; how large it may be stands with the figures."""
    if result.power is None or not math.isfinite(result.power):
        return "but it is unknown how large a leak could have been missed"
    return "but a small one could have been missed"


def _reason(result: CellResult) -> str:
    """Say why nothing can be said."""
    row, reason = result.rows[0], result.verdict.reason or ""
    if reason == TOO_FEW:
        kind = _kind(result) if result.given else "comparisons"
        return f"{row.n_positive:,} {kind} are too few to tell; even a strong leak could be missed"
    return f"this {'check' if result.given else 'audit'} cannot tell, because {reason}"


_BECAUSE: Mapping[str, Callable[[CellResult], str]] = {
    BROKEN: _broken,
    STRONG_LEAK: _told,
    TRACE: _hardly,
    COPIES: lambda result: _printed_of(result, whole=True),
    DISCLOSED: _disclosed_of,
    NONE_FOUND: _small,
    CANNOT_SAY: _reason,
}


def settled_by(result: CellResult) -> str | None:
    """Say what would settle an answer that is not final; None where it is.

    Args:
        result: The cell that the answer rests on.
    """
    kind = standing(result)
    if kind == CANNOT_SAY:
        kind = {TOO_FEW: "few", TIED: "tied"}.get(result.verdict.reason or "", "unfair")
    elif result.canaries and result.verdict.leaks and kind != BROKEN:
        kind = "canaries"
    said: str | None = PHRASES["settles"]["check" if result.given else "game"].get(kind)
    return said


def _listing(results: Sequence[CellResult]) -> str | None:
    """List decisions by what is said of them; None for one decision."""
    decided: dict[str, list[CellResult]] = {}
    for one in results:
        decided.setdefault(decision_name(one), []).append(one)
    if len(decided) == 1:
        return None
    listed: dict[str, list[str]] = {}
    for name, group in decided.items():
        listed.setdefault(standing(worst(group)), []).append(name)
    parts = []
    made_by = "release" if results[0].given else "generator"
    for kind in (kind for kind in STANDINGS if kind in listed):
        first, more = listed[kind][:NAMES], len(listed[kind]) - NAMES
        shown = ", ".join(first) + (f" and {more} more" if more > 0 else "")
        parts.append(f"{PHRASES['label'][kind]}: {made_by} {shown}.")
    return " ".join(parts)


def decision_name(result: CellResult) -> str:
    """Name what is decided about in words: who made the release, and under which promise.

    Args:
        result: A cell.
    """
    cell = result.cell
    if not math.isinf(cell.epsilon):
        return f"{cell.generator} with privacy limit {format_epsilon(cell.epsilon)}"
    return cell.generator if result.given else f"{cell.generator} without a privacy limit"


def _size_of(results: Sequence[CellResult], top: CellResult) -> str | None:
    """Say up to how many texts nothing was found, of the leaking cells or of the one shown."""
    leaking = [one for one in results if one.verdict.leaks]
    return _told_from(leaking) if leaking else size_line(top)


def _there(*sentences: str | None) -> list[str]:
    return [one for one in sentences if one]


def capital(words: str) -> str:
    """Return words as the beginning of a sentence."""
    return words[:1].upper() + words[1:]
