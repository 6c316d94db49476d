"""What the releases of a cell say of its targets: disclosures, and in a game copies.

A check holds members against the holdout, a game releases with a target against those without it;
the null redraws who was in (docs/method.md §11).
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import ceil

import numpy as np

from synthleak.analyses.copies import (
    COPIES_VERSION,
    NEAR,
    PERMUTATIONS,
    PRINTED_LEVEL,
    Copies,
)
from synthleak.analyses.disclosures import (
    DISCLOSURES_VERSION,
    TESTED,
    Bools,
    Disclosure,
    DisclosureRow,
    Disclosures,
    OwnWords,
    Sides,
    concerned,
    count_targets,
    strengths_of,
    surplus_test,
)
from synthleak.audit.setup import (
    Setup,
    draws_sets,
    game_of,
    last_of,
    plan_identity,
    plan_of,
    record_proxies,
    records_at,
    stream_name,
)
from synthleak.audit.steps.observations import all_evidence_keys, observations, record_values
from synthleak.audit.steps.releases import header_of, open_release, wanted_sets
from synthleak.core.artefact import Artefact, as_json
from synthleak.core.cell import Cell
from synthleak.core.seeds import digest, stream
from synthleak.core.store import name_of
from synthleak.core.text import fold
from synthleak.evidence.observation import Floats, Ints
from synthleak.metrics.exposure import NAMING_VERSION, member_p_values
from synthleak.metrics.measure import over_looks
from synthleak.metrics.membership import assignment_of
from synthleak.metrics.profile import sides_of
from synthleak.plan.given import permuted
from synthleak.plan.plan import Plan, Trials, designs
from synthleak.pools.pool import blocks_of, split_groups

OWN_WORDS = "own words"
"""What this process remembers: the words of a pool's targets, to look for in every release."""


def share_of_copies(release: Sequence[str], private: Sequence[str]) -> float:
    """Return the share of the rows of a release that are private records, word for word.

    >>> share_of_copies(["A  cold", "well"], ["a cold"])
    0.5
    """
    known = {fold(text) for text in private}
    return sum(fold(text) in known for text in release) / max(len(release), 1)


def texts_of_release(setup: Setup, cell: Cell, number: int = 0) -> list[str]:
    _, item = wanted_sets(setup, cell)[number]
    return [record.text for record in open_release(setup, header_of(setup, cell, item).text)]


def owners_of_records(setup: Setup, pool: str) -> Ints:
    """Return the target that owns each record of a pool's targets."""
    sizes = setup.pools[pool].sizes
    return np.repeat(np.arange(len(sizes)), sizes)


def can_be_read(setup: Setup, cell: Cell) -> bool:
    """Say whether the texts of a cell are at hand: a kept run or a slice of one may have none."""
    if not draws_sets(setup, cell.pool):
        return True  # the release of a check is read again from its file
    return all(setup.store.exists(name_of("text", text)) for text in _contents(setup, cell))


def _releases(setup: Setup, cell: Cell) -> range:
    """Number the releases with trials: references come after them."""
    return range(int(plan_of(setup, cell).trials.set.max()) + 1)


def _contents(setup: Setup, cell: Cell) -> list[str]:
    sets = [wanted_sets(setup, cell)[number][1] for number in _releases(setup, cell)]
    return [header_of(setup, cell, item).text for item in sets]


def _sides(setup: Setup, cell: Cell, trials: Trials) -> Sides:
    """Return who was in each release and who was out, `[set, target]`."""
    plan = plan_of(setup, cell)
    if not draws_sets(setup, cell.pool):
        return trials.member[None], ~trials.member[None]
    design, sets = designs.get(plan.design).plugin, len(_releases(setup, cell))
    assignment, within = assignment_of(trials, len(plan.targets)), design.within_records(plan)
    sides = sides_of(assignment, sets, len(plan.targets), within_records=within)
    return sides.joined, sides.absent


def _redrawn(setup: Setup, cell: Cell, plan: Plan, title: str) -> Iterator[Sides]:
    """Yield who might have been in: the split permuted, or the coins of a game tossed again."""
    rng, game = stream(*stream_name(setup, title, cell)), game_of(setup, cell)
    design, block = designs.get(plan.design).plugin, plan.block_of
    for _ in range(redraws_for(len(setup.cells))):
        if draws_sets(setup, cell.pool):
            yield _sides(setup, cell, design.redraw(plan, game, rng))
        else:  # the same for coins that were tossed, given how many fell on either side
            drawn = permuted(plan.trials.member, block, rng)[None]
            yield drawn, ~drawn


def redraws_for(cells: int) -> int:
    """Return how many redraws let p times the number of cells reach `PRINTED_LEVEL`.

    >>> redraws_for(20), redraws_for(21)
    (1999, 3999)
    """
    assignments = PERMUTATIONS + 1  # with the observed one
    return assignments * ceil(cells / (PRINTED_LEVEL * assignments)) - 1


def _surplus(setup: Setup, cell: Cell, title: str, flags: Bools) -> tuple[float, int]:
    """Test `[tested, set, target]`: the larger p of all readings of a split, times the looks."""
    plan = plan_of(setup, cell)
    observed = _sides(setup, cell, plan.trials)
    p, deciding = max(
        surplus_test(flags, observed, _redrawn(setup, cell, reading, title))
        for reading in plan.readings
    )
    return over_looks(p, setup.spec.game.number_of_looks), deciding


def copies_in_game(setup: Setup, cell: Cell) -> Copies:
    """Return the copies of targets in the releases of a game, from the texts and the evidence.

    A target counts on either side once: if some release with it copies it, and if one without it.
    """
    plan, pool = plan_of(setup, cell), setup.pools[cell.pool]
    asked = [fold(record.text) for record in records_at(setup, pool.asked)]
    owner, numbers, shares = owners_of_records(setup, cell.pool), _releases(setup, cell), []
    exact = np.zeros((len(numbers), len(pool.targets)), dtype=np.bool_)
    for number in numbers:
        release = texts_of_release(setup, cell, number)
        there = {fold(text) for text in release}
        exact[number, owner[[text in there for text in asked]]] = True
        private = records_at(setup, wanted_sets(setup, cell)[number][1].records)
        shares.append(share_of_copies(release, [record.text for record in private]))
    names, every = [proxy.name for proxy in record_proxies(setup)], exact.copy()
    if looked := "jaccard_max" in names:
        overlap = record_values(setup, cell)[numbers, :, names.index("jaccard_max")]
        places, records = np.nonzero(overlap >= NEAR)
        every[places, owner[records]] = True
    joined, absent = _sides(setup, cell, plan.trials)
    verbatim, copied = (
        [int((flags & side).any(axis=0).sum()) for side in (joined, absent)]
        for flags in (exact, every)
    )
    p_verbatim, p_all = (
        _surplus(setup, cell, "copies", flags[None])[0] for flags in (exact, every)
    )
    return Copies(
        found=(),
        members=int(joined.any(axis=0).sum()),
        holdout=int(absent.any(axis=0).sum()),
        verbatim=(verbatim[0], verbatim[1]),
        near=(copied[0] - verbatim[0], copied[1] - verbatim[1]),
        p_verbatim=p_verbatim,
        p_all=p_all,
        looked=looked,
        rows=float(np.mean(shares)),
    )


def copies_in_game_key(setup: Setup, cell: Cell) -> str:
    seen = [all_evidence_keys(setup, cell.pool, one.key) for one in observations(setup, cell)]
    return digest("copies", COPIES_VERSION, _about(setup, cell, "copies"), seen)


def _about(setup: Setup, cell: Cell, title: str) -> list[object]:
    return [
        plan_identity(setup, cell),
        game_of(setup, cell).model_dump(),
        stream_name(setup, title, cell),
        setup.corpus.fingerprint,
        setup.pools[cell.pool].to_bytes().decode(),
        _contents(setup, cell),
        *[number for number in [redraws_for(len(setup.cells))] if number > PERMUTATIONS],
    ]


def _holders(setup: Setup) -> Ints:
    """Number whoever has each record: a group, or a record that was drawn alone."""
    corpus = setup.corpus
    if corpus.split is not None:
        return np.asarray(blocks_of(corpus, range(len(corpus)), split_groups(corpus)))
    numbers: dict[str | int, int] = {}
    groups = (n if r.group is None else r.group for n, r in enumerate(corpus.all_records))
    return np.array([numbers.setdefault(group, len(numbers)) for group in groups])


def _own_words(setup: Setup, pool: str) -> OwnWords:
    texts = [record.text for record in setup.corpus.all_records]
    return OwnWords(texts, _holders(setup), setup.pools[pool].asked)


def _disclosures_key(setup: Setup, cell: Cell) -> str:
    versions = [DISCLOSURES_VERSION, NAMING_VERSION]
    return digest("disclosures", versions, _about(setup, cell, "disclosures"))


def _find_disclosures(setup: Setup, cell: Cell) -> Disclosures:
    plan, owner = plan_of(setup, cell), owners_of_records(setup, cell.pool)
    game = draws_sets(setup, cell.pool)
    own = (
        last_of(setup, OWN_WORDS, cell.pool, lambda: _own_words(setup, cell.pool))
        if game
        else _own_words(setup, cell.pool)
    )
    joined, absent = sides = _sides(setup, cell, plan.trials)
    found = [
        replace(one, release=number, joined=bool(joined[number, owner[one.target]]))
        for number in _releases(setup, cell)
        for one in own.find(texts_of_release(setup, cell, number))
    ]
    strengths = strengths_of(found, owner, joined.shape)  # of all: coins may fall otherwise
    flags = concerned(strengths)
    p, deciding = _surplus(setup, cell, "disclosures", flags)
    told = [one for one in found if (joined | absent)[one.release, owner[one.target]]]
    return Disclosures(
        found=tuple(_one_of_each(told) if game else told),
        inside=int(joined.any(axis=0).sum()),
        outside=int(absent.any(axis=0).sum()),
        counts=dict(zip(TESTED, count_targets(flags, sides), strict=True)),
        p=p,
        deciding=TESTED[deciding],
        rates={} if game else _rates(setup, cell, plan, strengths.max(axis=0)[0]),
    )


def _one_of_each(found: Sequence[Disclosure]) -> list[Disclosure]:
    """Return the most distinctive of each record and kind, with the record and without it."""
    best: dict[tuple[int, str, bool], Disclosure] = {}
    for one in found:
        shown = best.setdefault((one.target, one.kind, one.joined), one)
        if one.strength > shown.strength:
            best[one.target, one.kind, one.joined] = one
    return sorted(best.values(), key=lambda one: (one.target, one.kind, not one.joined))


def _rates(
    setup: Setup, cell: Cell, plan: Plan, strengths: Floats
) -> dict[int, tuple[float, float]]:
    """Return p and q of the members of whom something is disclosed (docs/method.md §11)."""
    rates: dict[int, tuple[float, float]] = {}
    for reading in plan.readings:
        rng = stream(*stream_name(setup, "disclosed records", cell))
        targets, _, p, q = member_p_values(
            strengths[:, None], plan.trials.member, rng, reading.block_of
        )
        for target, *both in zip(targets.tolist(), p.tolist(), q.tolist(), strict=True):
            if strengths[target] > 0:
                known = rates.get(target, (0.0, 0.0))
                rates[target] = max(known[0], both[0]), max(known[1], both[1])
    return rates


DISCLOSURES = Artefact("figures", _disclosures_key, _find_disclosures, *as_json(Disclosures))
"""What the releases of a cell disclose of its targets."""


def disclosures_in(setup: Setup, cell: Cell, withheld: str | None = None) -> Disclosures | None:
    """Return the disclosures of a cell; without tests where there can be no verdict.

    None if they were not looked for while the texts were there.

    A holdout that is another kind of text than the members says nothing of what chance gives.
    """
    if not (DISCLOSURES.exists(setup, cell) or can_be_read(setup, cell)):
        return None
    kept = DISCLOSURES.get(setup, cell)
    return kept if withheld is None else replace(kept, p=None, rates={})


def disclosure_rows(setup: Setup, cell: Cell, disclosures: Disclosures) -> list[DisclosureRow]:
    """Write the disclosures of a cell as rows: members first, the surest first."""
    pool, owner = setup.pools[cell.pool], owners_of_records(setup, cell.pool).tolist()
    sets = [item.name for _, item in wanted_sets(setup, cell)]
    sides = ("in", "out") if draws_sets(setup, cell.pool) else ("members", "holdout")
    strongest: defaultdict[str, dict[int, float]] = defaultdict(dict)
    for one in disclosures.found:
        if not one.joined:
            before = strongest[one.kind].get(owner[one.target], 0)
            strongest[one.kind][owner[one.target]] = max(before, one.strength)
    by_chance = {kind: sorted(best.values()) for kind, best in strongest.items()}
    rows = []
    for one in disclosures.found:
        p, q = (
            disclosures.rates.get(owner[one.target], (None, None)) if one.joined else (None, None)
        )
        position, known = pool.asked[one.target], by_chance.get(one.kind, [])
        rows.append(
            DisclosureRow(
                **cell.columns,
                side=sides[not one.joined],
                record=records_at(setup, [position])[0].id,
                release=sets[one.release],
                row=one.row,
                kind=one.kind,
                length=one.length,
                start=one.start,
                end=one.end,
                held_out=len(known) - bisect_left(known, one.strength),
                p_value=p,
                q_value=q,
                person=setup.corpus.person_names[position] if pool.persons else "",
            )
        )
    return sorted(rows, key=lambda row: (row.side != sides[0], row.q_value or 1.0, row.held_out))
