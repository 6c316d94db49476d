"""Method and limits, from the spec: what each attacker knew, what intervals mean, every caveat."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from synthleak.calibration import KNOWLEDGE
from synthleak.report.page.material import Material
from synthleak.report.page.numbers import Numbers


@dataclass(frozen=True)
class Caveat:
    """One limit, by name."""

    name: str
    text: Markup | str


def knowledge(material: Material) -> list[tuple[str, str]]:
    """Return the attackers that were played and what each knew."""
    return [(name, KNOWLEDGE[name]) for name in material.scenarios if name in KNOWLEDGE]


def intervals(material: Material, numbers: Numbers) -> list[Caveat]:
    """Return what each kind of figure means."""
    lone, given = material.summary["game"]["design"] == "lone", "check" in material.summary
    redraws = numbers.said("cells/0/redraws", "count")
    drawn = (
        "permuted splits ({} for p)"
        if given
        else "redraws of the coins by the plan’s own sampler ({} redraws for p)"
    )
    parts, looks = "records" if given else "instances", material.summary["game"].get("looks", [])
    exact = (
        "members and holdout were split at random"
        if given
        else "the coins were tossed independently of everything else"
    )
    said = [
        Caveat(
            "Chance limit",
            Markup(
                f"{100 - 5 / max(1, len(looks)):.4g}% of chance results are below it: the same"
                f" search on {drawn}, with the choice repeated in each. Exact whatever the proxies"
                f" are, because {exact}."
            ).format(redraws),
        ),
        Caveat(
            "Deployable figure",
            f"Proxy and attacker are chosen on four fifths of the {parts} and evaluated on the"
            " rest, several times over. This is what “recognised” and the map use.",
        ),
        Caveat(
            "Best in hindsight",
            "The best proxy chosen on the very trials it is evaluated on: biased upwards, shown"
            " with its own chance limit, and decides nothing.",
        ),
        Caveat(
            "Interval for this pool",
            "95%, by a bootstrap over records; whole groups where there are any."
            if given
            else "95%, by a bootstrap over instances: what another play with the same records might"
            " give. “Records like these” resamples records too.",
        ),
        Caveat(
            "p and p (Holm)",
            "p is over all proxies, attackers and statistics (AUC, and tails at small"
            " false-positive rates) of a cell; Holm’s adjustment is over all cells. Only"
            " p (Holm) ≤ 0.05 says “leak found”.",
        ),
        *_looks(looks),
        Caveat(
            "Power",
            "The smallest AUC of one signal that would be found four times in five. Smaller leaks"
            " would often be missed.",
        ),
    ]
    if any(cell["epsilon_bound"] for cell in material.summary["cells"]):
        said.append(
            Caveat(
                "Lower bound on ε",
                "Holds with 95% confidence for the mechanism as played here; 0 says nothing. A"
                " claim is not compared with it but tested by its whole curve; the largest ε whose"
                " claim the design could have contradicted stands beside it.",
            )
        )
    if lone:
        said.append(
            Caveat(
                "Negative-sampling spread",
                "The spread over rounds (±, column auc_spread) is that of drawing non-members only:"
                " it is not an interval for the leakage.",
            )
        )
    return said


def _looks(looks: Sequence[int]) -> list[Caveat]:
    """Say what several declared looks do to the figures (docs/method.md §8.12)."""
    if not looks:
        return []
    named = f"{', '.join(map(str, looks[:-1]))} and {looks[-1]}"
    return [
        Caveat(
            "Looks",
            f"Results were looked at after {named} instances, as declared before the start. A cell"
            " that was found made no more releases. Every p is that of the look times"
            f" {len(looks)}, and limits and bounds hold at a level of 5%/{len(looks)}: so an audit"
            " as a whole still raises a false alarm in at most 5 of 100 cases. Intervals are those"
            " of one look; after an early finding the AUC is on average too high.",
        )
    ]


def caveats(material: Material, numbers: Numbers) -> list[Caveat]:
    """Return every limit that this audit has, by name: what anybody must know, then the rest."""
    said = limits(material, numbers)
    if "check" not in material.summary:
        said += _played()
    said += [*_encoder(material), *_design(material.summary["game"])]
    if material.rows("prior"):
        said.append(
            Caveat(
                "Prior attacks",
                "Figures published for inserted canaries are for 12 to 16 copies of a record and"
                " cannot be compared with these.",
            )
        )
    return said


def limits(material: Material, numbers: Numbers) -> list[Caveat]:
    """Return what the verdict does not show: what must be known by whoever relies on it."""
    return [
        Caveat(
            "None found is not proof",
            "“None found” means none found at this power by these attackers; never that nothing"
            " leaks, and never that a release is harmless.",
        ),
        Caveat(
            "Membership only",
            "The question is whether a release shows who was in the private data. Whether it can be"
            " linked to other data, or lets somebody guess facts about people who were not in it,"
            " was not tested.",
        ),
        *(_given(material) if "check" in material.summary else ()),
        _unit(material, material.summary["game"]),
        *_claims(material),
        *_differing_encoders(material),
        *_expressible(material, numbers),
        *_degenerate(material),
        *(Caveat("Another look", line) for line in material.history),
    ]


def _unit(material: Material, game: Mapping[str, Any]) -> Caveat:
    """Say whether figures are about records or about persons (docs/method.md §15)."""
    if game.get("unit") == "person":
        return Caveat(
            "Persons, not records",
            f"A target is a person with all records, at most {game['max_records']} of them. A claim"
            " about single records is compared as the claim about a group of that many records; its"
            " ε for one record stands beside it and says nothing about persons.",
        )
    return Caveat(
        "Records, not persons",
        "A target’s whole group leaves the game, yet claims are about records, not about"
        " persons, unless each person has one record."
        if material.facts.grouped
        else "Claims are about records, not about persons, unless each person has one record.",
    )


def _given(material: Material) -> list[Caveat]:
    """Return what one existing release cannot show."""
    remarks = material.summary["check"]["remarks"]
    return [Caveat(item["name"], item["text"]) for item in remarks if item["about"] == "limits"]


def _played() -> list[Caveat]:
    """Return the limits of a game: shared references, pools and plans."""
    return [
        Caveat(
            "One auxiliary pool shared",
            "All references, and what the attackers know of the domain, come from one auxiliary"
            " part of the corpus, which no private set touches.",
        ),
        Caveat(
            "References without a target hold other pool records",
            "So the calibrated attackers (S2, S3) see a slightly richer “out” world than a real"
            " outsider: the audit is conservative there.",
        ),
        Caveat(
            "Pools are not comparable across rules",
            "Each pool is measured against its own non-members. A higher figure in one pool than in"
            " another does not say that its records are worse off; only merged pools do.",
        ),
        Caveat(
            "V within a proxy and scenario only",
            "Vulnerability is a difference of ranks under one proxy of one attacker. Values from"
            " different proxies, scenarios or cells must not be compared; ranks may.",
        ),
        Caveat(
            "Shared plans",
            "All cells of a pool share one plan and its coins: several high cells are"
            " not independent evidence, and their count proves nothing.",
        ),
    ]


def _encoder(material: Material) -> list[Caveat]:
    facts, said = material.facts, []
    if facts.same_encoder:
        said.append(
            Caveat(
                "One encoder for pools and scoring",
                f"The encoder {facts.encoder} both selects pools by distance and scores releases,"
                " so pools may be hard or easy for the very proxies that are tried on them.",
            )
        )
    foreign = [name for name, kind in facts.kinds.items() if kind in ("command", "folder")]
    if foreign:
        said.append(
            Caveat(
                "Encoder of the generator",
                f"If {' or '.join(foreign)} chooses texts by an encoder of its own, name that one"
                f" for evidence in the place of {facts.encoder}: whoever has it can see far more.",
            )
        )
    return said


def _differing_encoders(material: Material) -> list[Caveat]:
    """Say that an attacker who has the generator's encoder was not played (docs/encoders.md)."""
    return [
        Caveat(
            f"Another encoder in {name}",
            f"{name} compares records and texts by the encoder {encoder}, and the proxies here read"
            f" {material.facts.encoder}. An attacker who has the generator’s encoder can see far"
            " more. To play that attacker, name the same encoder for evidence.",
        )
        for name, encoder in material.facts.differing_encoders.items()
    ]


def _design(game: dict[str, object]) -> list[Caveat]:
    if game["design"] != "cohort":
        return []
    said = [
        Caveat(
            "Design cohort",
            "This is not the paper's game of one target at a time: other records of the pool are"
            " present beside the one that is asked about.",
        )
    ]
    if game["instances"] == 1:
        said.append(
            Caveat(
                "One instance",
                "There is no record to compare with itself: no AUC or p per record, no S3. The"
                " figure is that of an attacker on all coins of one release.",
            )
        )
    return said


def _claims(material: Material) -> list[Caveat]:
    said = []
    if any(
        material.facts.kinds.get(cell.generator) == "ngram" and math.isinf(cell.epsilon)
        for cell in material.cells
    ):
        said.append(
            Caveat(
                "Without privacy is another generator",
                "At ε = ∞ the n-gram generator uses its own support and counts: it is not the limit"
                " of large finite ε.",
            )
        )
    if material.facts.private_priors:
        said.append(
            Caveat(
                "Private label prior",
                f"{', '.join(material.facts.private_priors)} takes class sizes from the private"
                " records, which voids the privacy claim.",
            )
        )
    if material.summary["game"]["adjacency"] == "replace" and "check" not in material.summary:
        said.append(
            Caveat(
                "Adjacency",
                "The game replaces a record. Claims made for adding or removing one are compared by"
                " the mechanism’s own replace accounting where there is one, else by"
                " (2ε, (1+e^ε)δ), which is loose.",
            )
        )
    return said


def _expressible(material: Material, numbers: Numbers) -> list[Caveat]:
    return [
        Caveat(
            f"Classes of pool {name}",
            Markup(
                "Only {} of its records have a class that the generator can be asked for; a class"
                " that is never prompted gives a trivial “none found”."
            ).format(numbers.said(f"pools/{name}/expressible", "percent")),
        )
        for name, pool in material.summary["pools"].items()
        if pool["expressible"] < 1
    ]


def _degenerate(material: Material) -> list[Caveat]:
    return [
        Caveat(
            f"Degenerate releases of {material.cells[place].name}",
            f"{cell['empty_releases']} hold no text at all and {cell['one_text_releases']} one text"
            " over and over; they were scored as they are.",
        )
        for place, cell in enumerate(material.summary["cells"])
        if cell["empty_releases"] or cell["one_text_releases"]
    ]
