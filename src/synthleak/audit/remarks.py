"""What one release can and cannot show, in sentences (docs/method.md §11)."""

from __future__ import annotations

from dataclasses import dataclass

from synthleak.analyses.copies import Copies
from synthleak.audit.setup import Setup, generator_of, persons_in
from synthleak.audit.steps.preconditions import COPIES, FINDINGS, Preconditions, preconditions_of
from synthleak.core.cell import Unit, counted, noun
from synthleak.pools.pool import Persons

RESTS_ON = {
    "unstated": "The verdict rests on members and holdout being a uniform random split, whole"
    " groups on one side, made before the release was. Nobody has declared that (--random-split).",
    "random": "It was declared that members and holdout are a uniform random split, whole groups on"
    " one side, made before the release was. The verdict rests on that.",
    "coins": "It was declared that a fair coin was tossed and recorded for every record before the"
    " release was made. The verdict and the bound on ε rest on that.",
}


@dataclass(frozen=True)
class Remark:
    """One thing to know beside the verdict; `name` is short, `text` a sentence or two.

    `about` is `copies`, `files`, `split` (what the verdict rests on) or `limits`.
    """

    name: str
    text: str
    about: str


def remarks_on(setup: Setup) -> list[Remark]:
    """Return what was found in the files, what the verdict rests on, and what it cannot show.

    The most important come first. These concern an existing release; of a game nothing is said.
    """
    preconditions = preconditions_of(setup)
    if preconditions is None:
        return []
    copies = [
        Remark(
            f"Copies in {cell.generator}",
            copies_line(COPIES.get(setup, cell), setup.spec.game.unit),
            "copies",
        )
        for cell in setup.cells
        if cell.pool == setup.cells[0].pool
    ]
    findings = list(preconditions.findings)
    for cell in setup.cells:
        if cell.pool == setup.cells[0].pool:
            findings += FINDINGS.get(setup, cell)
    found = [Remark(item.kind.capitalize(), item.line, "files") for item in findings]
    persons = persons_in(setup)
    people = [] if persons is None else [_people(persons, setup.spec.game.max_records)]
    blind, rests_on = blind_remark(preconditions), _rests_on(preconditions)
    split = [blind, rests_on] if preconditions.blind.unfair else [rests_on]
    passed = [] if preconditions.blind.unfair else [blind]
    return [*split, *found, *_limits(setup, preconditions), *people, *passed, *copies]


def _people(persons: Persons, most: int) -> Remark:
    """Say whom the check asks about, and what it leaves out."""
    above = sum(len(own) > most for own in persons.owned)
    left_out = sum(map(len, persons.owned)) - sum(map(len, persons.records))
    said = f"The check asks about {counted(len(persons.records), 'person')}, each with all records"
    if above:
        said += (
            f"; of {counted(above, 'person')} with more than {most} a draw takes part, and"
            f" {counted(left_out, 'record')} {'does' if left_out == 1 else 'do'} not"
        )
    return Remark("People", f"{said}.", "files")


def copies_line(copies: Copies, unit: Unit = "record") -> str:
    """Count the copies on both sides, and say how likely the surplus is."""
    exact, near = copies.verbatim, copies.near
    stand = "have a record that stands" if unit == "person" else "stand"
    parts = [
        f"{exact[0]:,} of {counted(copies.members, 'member')} and {exact[1]:,} of"
        f" {copies.holdout:,} holdout {noun(unit, copies.holdout)} {stand} in the release word for"
        f" word (p = {copies.p_verbatim:.2g})"
    ]
    if copies.looked:
        parts.append(
            f"{counted(near[0], 'member')} and {near[1]:,} holdout {noun(unit, near[1])} nearly so"
            f" (p = {copies.p_all:.2g} with the verbatim ones)"
        )
    else:
        parts.append("near-verbatim copies were not looked for")
    return "; ".join(parts) + "."


def blind_remark(preconditions: Preconditions) -> Remark:
    """Say what a classifier that never sees the release makes of the split."""
    blind = preconditions.blind
    figures = (
        f"AUC {blind.auc:.3f}, chance limit {blind.ceiling:.3f}, p = {blind.p:.3f},"
        f" {blind.permutations} permuted splits"
    )
    if blind.unfair:
        return Remark(
            "The split is not exchangeable",
            f"A classifier that never sees the release tells members from holdout ({figures}). All"
            " figures here count that difference as leakage, so there is no verdict.",
            "split",
        )
    return Remark(
        "Blind test of the split",
        f"A classifier that never sees the release does not tell members from holdout ({figures}).",
        "split",
    )


def _rests_on(preconditions: Preconditions) -> Remark:
    return Remark("What the verdict rests on", RESTS_ON[preconditions.declared], "split")


def _published(setup: Setup) -> Remark:
    """Say which texts the verdict counts as published so far."""
    if not generator_of(setup, setup.cells[0]).in_order:
        return Remark(
            "One release",
            "The verdict concerns this release. Another release of the same generator may give away"
            " more or less, and a record that this one hides may still be known to the generator."
            " Texts published before from the same records add to it (--series).",
            "limits",
        )
    game = setup.spec.game
    sizes = [int(size) for size in (*reversed(game.smaller_sizes), game.largest_size)]
    earlier = ", ".join(f"{size:,}" for size in sizes[:-1])
    return Remark(
        "Published so far",
        f"{len(sizes)} releases are judged together, in the order given: {earlier} and then"
        f" {sizes[-1]:,} texts were known. Any further release adds to them. Rows of copies are"
        " counted through all of them.",
        "files",
    )


def _limits(setup: Setup, preconditions: Preconditions) -> list[Remark]:
    reference = any(plan.sets[-1].form == "raw" for plan in setup.plans.values())
    said = [
        _published(setup),
        Remark(
            "Attackers",
            "S1 has the release alone"
            + ("; S2 also the reference records." if reference else "; no reference was given.")
            + " Nobody here can run the generator on other records, as S3 would.",
            "limits",
        ),
        Remark(
            "Encoder",
            f"Texts are compared by words and by the encoder {setup.plugins.encoder.kind}. If the"
            " generator chose its texts by an encoder of its own, name that one (--encoder):"
            " whoever has it can see far more.",
            "limits",
        ),
    ]
    if preconditions.declared != "coins":
        said.append(
            Remark(
                "No bound on ε",
                "One release bounds ε only if every record was in or out by a recorded coin of its"
                " own (--coins).",
                "limits",
            )
        )
    said.append(
        Remark(
            "Members by rank",
            "A member’s p compares it with held-out records by proxies that other members chose:"
            " how unusual its score would be had it not been in.",
            "limits",
        )
    )
    return said
