"""The auditor audited: rows are judged by their limits, and audits are whole and repeatable."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest

from synthleak.audit.setup import Setup, encoding, generator_of, targets_in
from synthleak.audit.steps.releases import (
    header_of,
    make_releases,
    missing_releases,
    open_release,
    request_for,
    wanted_sets,
)
from synthleak.core.cell import Cell
from synthleak.core.engine.progress import Silent
from synthleak.core.errors import UserError
from synthleak.evidence import Observation
from synthleak.selftest import checks, running
from synthleak.selftest.games import ByHash, Game, PersonGame, targets_of
from synthleak.selftest.rows import LEVELS, ROWS, Outcome, Row, binomial_limit, check
from synthleak.selftest.running import (
    LARGEST_LIMIT,
    Selftest,
    audit,
    audits_of,
    report_of,
    run_selftest,
)

QUIET = Outcome(
    p=0.5,
    crossfit_p=0.5,
    auc=0.5,
    tpr=0.1,
    width=0.3,
    claim_p=0.6,
    named=0,
    wrong=0,
)
LEAKING = replace(QUIET, p=0.005, crossfit_p=0.05)
CHANCE = [QUIET] * 40
EVEN, TENTH = "echo p = 0.5 spreads evenly, cohort", "echo of a tenth of the pool p = 1, cohort"
LARGE_PERSON = "one person with a fifth of the records, check"
HALF = "echo of half the pool p = 1, cohort"
RESPONSE = "randomised response claims"


def row_of(name: str) -> Row:
    return next(row for row in ROWS if row.name == name)


def test_every_promise_is_tested_in_every_design_it_is_made_for() -> None:
    names = [row.name for row in ROWS]
    assert len(set(names)) == len(names)
    assert all("people" in name for name in names[25:37])
    assert all("lm alone" in name for name in names[37:39])
    assert all("three looks" in name for name in names[39:41])
    for design in ("lone", "cohort"):
        own = [row for row in ROWS[:25] if row.design == design and isinstance(row.audit, Game)]
        generators = {row.audit.generator for row in own if isinstance(row.audit, Game)}
        assert {"constant", "bystander", "echo", "ngram"} <= generators
        assert {"null", "echo", "claim", "found"} <= {row.limit for row in own}
    checks = [row for row in ROWS if row.design == "given"]
    limits = ["null"] * 4 + ["claim", "exceeded"] + ["null"] * 2 + ["claim"] * 2
    limits += ["nobody", "null", "stopped", "null", "found", "found", "null", "found"]
    limits += ["read", "unread", "unread", "unread"]
    assert [row.limit for row in checks] == limits
    persons = [row for row in ROWS if isinstance(row.audit, PersonGame)]
    assert {row.audit.adjacency for row in persons} == {"add", "replace"}
    assert {row.limit for row in persons} == {"null", "echo", "named", "claim", "exceeded"}


def test_false_alarms_pass_up_to_the_binomial_limit_and_fail_above() -> None:
    row, limit = row_of("bystander, cohort"), binomial_limit(100)
    for alarms, passed in ((limit, True), (limit + 1, False)):
        made = check(row, [LEAKING] * alarms + [QUIET] * (100 - alarms), CHANCE)
        assert made.passed is passed and made.found == alarms / 100
    silent = check(row, [replace(QUIET, p=None, crossfit_p=None)] * 50, CHANCE)
    assert silent.passed and silent.value == 0
    # An alarm of the deployable figure alone counts as well.
    assert not check(row, [replace(QUIET, crossfit_p=0.05)] * 50, CHANCE).passed
    # And so does a bound above what was claimed.
    assert not check(row, [replace(QUIET, claim_p=0.01)] * 50, CHANCE).passed


@pytest.mark.parametrize("full", [False, True])
def test_every_limit_on_false_alarms_is_sharp_enough(full: bool) -> None:
    """5 of 20 would pass, which chance gives once in 300 times."""
    for row in ROWS:
        if row.limit in LEVELS:
            audits = audits_of(row, full=full)
            assert binomial_limit(audits) / audits <= LARGEST_LIMIT


def test_a_bound_above_its_claim_counts_against_the_auditor() -> None:
    row = row_of("ngram ε = 1, cohort")
    broken = replace(QUIET, claim_p=0.01)
    assert check(row, [broken] * 3 + [QUIET] * 97, CHANCE).passed
    assert not check(row, [broken] * 30 + [QUIET] * 70, CHANCE).passed
    assert check(row, [replace(broken, claim_p=None)] * 50, CHANCE).passed


def test_leaks_and_claims_that_are_too_small_must_be_found() -> None:
    leak, small = (
        row_of(name) for name in ("deterministic, lone", f"{RESPONSE} 1, not 1.73, check")
    )
    broken = replace(QUIET, claim_p=0.01)
    for row, found in ((leak, LEAKING), (small, broken)):
        assert check(row, [found] * 51 + [QUIET] * 49, ()).passed
        assert not check(row, [found] * 50 + [QUIET] * 50, ()).passed


def test_echo_is_held_to_its_closed_form() -> None:
    row = row_of("echo p = 0.5, cohort")
    spread = (-0.02, 0.02)
    right = [replace(QUIET, auc=0.75 + d, tpr=0.55 + d) for d in spread] * 20
    assert check(row, right, CHANCE).passed
    assert not check(row, [replace(o, auc=o.auc - 0.03) for o in right], CHANCE).passed
    assert not check(row, [replace(o, tpr=o.tpr + 0.03) for o in right], CHANCE).passed
    lucky = [replace(QUIET, tpr=0.2)] * 40
    assert not check(row, right, lucky).passed
    assert check(row, [replace(o, tpr=o.tpr + 0.05) for o in right], lucky).passed


def test_named_records_are_held_to_the_rate_and_must_be_named() -> None:
    row = row_of(HALF)
    assert check(row, [replace(QUIET, named=10, wrong=0)] * 30, CHANCE).passed
    assert not check(row, [replace(QUIET, named=10, wrong=3)] * 30, CHANCE).passed
    assert not check(row, [QUIET] * 30, CHANCE).passed


@pytest.mark.parametrize("design", ["lone", "cohort"])
def test_an_even_leak_must_not_be_called_concentrated_and_an_uneven_one_must(design: str) -> None:
    even, uneven = (row_of(name.replace("cohort", design)) for name in (EVEN, TENTH))
    concentrated = replace(LEAKING, even_p=0.01)
    spread = replace(LEAKING, even_p=0.4)
    assert check(even, [concentrated] * 3 + [spread] * 97, CHANCE).passed
    assert not check(even, [concentrated] * 20 + [spread] * 80, CHANCE).passed
    assert check(uneven, [concentrated] * 51 + [spread] * 49, CHANCE).passed
    assert not check(uneven, [spread] * 100, CHANCE).passed


def test_an_unfair_split_must_be_stopped() -> None:
    row = row_of("halves swapped in the holdout, check")
    assert check(row, [Outcome(blind_p=0.01)] * 20, CHANCE).passed
    assert not check(row, [Outcome(blind_p=0.02)] * 20, CHANCE).passed
    assert audit(row, 7).blind_p == 1 / 500


@pytest.mark.parametrize("design", ["lone", "cohort"])
def test_concentration_is_judged_on_audits_that_are_about_it(design: str) -> None:
    even, uneven = (row_of(name.replace("cohort", design)) for name in (EVEN, TENTH))
    assert audit(uneven, 7).even_p <= 0.05 < audit(even, 7).even_p
    assert audit(row_of("bystander, cohort"), 7).even_p is None


def test_wrong_names_pass_up_to_the_binomial_limit() -> None:
    row, limit = row_of(LARGE_PERSON), binomial_limit(100)
    for named, passed in ((limit, True), (limit + 1, False)):
        wrong = [replace(QUIET, named=85, wrong=85)] * named
        assert check(row, wrong + [QUIET] * (100 - named), CHANCE).passed is passed


def test_one_person_with_a_fifth_of_the_records_is_not_named() -> None:
    setup = row_of(LARGE_PERSON).audit.setup(10_001)
    blocks = setup.plans["pool"].blocks
    inside = setup.plans["pool"].trials.member
    large = max(set(blocks), key=blocks.count)
    assert blocks.count(large) == 81 and inside[blocks.index(large)]
    assert audit(row_of(LARGE_PERSON), 10_001).named == 0  # counted by records: 83


def test_audits_go_all_the_way_and_repeat() -> None:
    row = row_of("echo p = 1, cohort")
    one = audit(row, 3)
    assert one == audit(row, 3)
    assert one.auc == one.tpr == 1.0 and one.p == 0.005
    assert one.named == 20 and one.claim_p is None
    quiet = audit(row_of("ngram ε = 1, lone"), 3)
    assert quiet.claim_p is not None and not quiet.broken
    half = audit(row_of(HALF), 4)
    assert half.named - half.wrong >= 8


def test_a_deterministic_generator_ignores_the_seed_and_the_spared() -> None:
    setup = row_of("deterministic, blind to the targets, cohort").audit.setup(3)
    (cell,) = setup.cells
    generator = generator_of(setup, cell)
    first, second = (request_for(setup, cell, item) for item in setup.plans["pool"].sets[:2])
    made = generator.generate(first)
    assert made == generator.generate(replace(first, seed=99)) != generator.generate(second)
    assert len(made) == first.size
    released, ids = {item.text for item in made}, set(targets_of(setup))
    copied = [record for record in first.records if record.text in released]
    assert 20 < len(copied) < 80 and not any(record.id in ids for record in copied)
    assert any(record.id in ids for record in first.records)
    leaking = ByHash().generate(first)
    assert any(r.id in ids and r.text in {item.text for item in leaking} for r in first.records)


def test_repeated_texts_stand_in_several_blocks_on_both_sides() -> None:
    files = checks.repeated_texts(3)
    repeated = files.release[0]
    sides = [[row["text"] for row in side] for side in (files.members, files.holdout)]
    assert [len(side) for side in sides] == [550, 550]
    assert sum(side.count(repeated) for side in sides) == 60
    assert all(side.count(repeated) > 15 for side in sides)
    others = set(files.release[1:]) | set(files.reference)
    assert len(others) == 119 and not others & {text for side in sides for text in side}
    tossed = checks.repeated_texts_with_coins(3)
    assert len(tossed.members) + len(tossed.holdout) == 1100 != 2 * len(tossed.members)


def test_the_records_of_a_person_share_half_of_their_evidence() -> None:
    """ICC 0.5: what the release shares with a record, between persons and within them."""
    shares = []
    for seed in range(12):
        files = checks.several_records_each(seed)
        rows = [*files.members, *files.holdout]
        texts = [text.split(" ") for text in files.release]
        starts = {" ".join(words[:8]) for words in texts}
        held = np.array([" ".join(row["text"].split(" ")[:8]) in starts for row in rows])
        shares.append(held.reshape(60, 8))
    held = np.concatenate(shares).astype(float)
    within = held.var(axis=1, ddof=1).mean()
    between = held.mean(axis=1).var(ddof=1) - within / 8
    assert between / (between + within) == pytest.approx(0.5, abs=0.1)
    sides = [{row["group"] for row in side} for side in (files.members, files.holdout)]
    assert not sides[0] & sides[1] and len(sides[0]) == len(sides[1]) == 30


def test_records_of_a_person_in_a_game_share_half_of_their_evidence() -> None:
    """ICC 0.5 on a release that knows nothing of them."""
    shares = []
    for seed in range(3):
        setup = row_of("bystander, people, cohort").audit.setup(seed)
        for release in missing_releases(setup)[:1]:
            make_releases(setup, replace(release, sets=release.sets[:1]))
        (cell,) = setup.cells
        text = observations_of(setup, cell)
        target = targets_in(setup, "pool")
        seen = Observation(text, encoding(setup))
        member = next(one for one in setup.plugins.families if one.name == "char_overlap")
        shares.append(member.look(target, seen)[:, 0].reshape(10, 4))
    seen_by = np.concatenate(shares)
    within = seen_by.var(axis=1, ddof=1).mean()
    between = seen_by.mean(axis=1).var(ddof=1) - within / 4
    assert 0.3 < between / (between + within) < 0.7


def observations_of(setup: Setup, cell: Cell) -> list[str]:
    _, first = wanted_sets(setup, cell)[0]
    return [record.text for record in open_release(setup, header_of(setup, cell, first).text)]


def test_claims_about_records_are_read_both_ways() -> None:
    """The same game: held as a group the claim stands, read as one about people it does not."""
    held = row_of("ngram ε = 1 for records, held as a group, people, cohort").audit
    read = row_of("ngram ε = 1 for records, read as for people, cohort").audit
    assert isinstance(held, PersonGame) and isinstance(read, PersonGame)
    assert replace(held, as_stated=True) == read
    assert not held.as_stated


def test_one_torn_group_is_left_out_of_a_check() -> None:
    setup = row_of("one torn group, check").audit.setup(3)
    assert len(setup.pools["pool"].targets) == 480 - 17
    assert len(set(setup.plans["pool"].blocks)) == 29


def test_randomised_response_has_the_epsilon_that_it_is_said_to_have() -> None:
    answers = np.zeros((2, 2))
    for seed in range(10):
        files = checks.randomised_response(seed)
        released = set(files.release)
        for inside, side in ((1, files.members), (0, files.holdout)):
            for row in side:
                answers[inside, int(row["text"] in released)] += 1
    rates = answers[:, 1] / answers.sum(axis=1)
    assert np.log(rates[1] / rates[0]) == pytest.approx(checks.EPSILON, abs=0.15)
    assert np.log((1 - rates[0]) / (1 - rates[1])) == pytest.approx(checks.EPSILON, abs=0.15)


def test_a_check_compares_the_claim_as_it_is_stated() -> None:
    small = audit(row_of(f"{RESPONSE} 1, not 1.73, check"), 3)
    assert small.broken and small.p == pytest.approx(0.02, abs=0.02)


def test_a_selftest_in_small(monkeypatch: pytest.MonkeyPatch) -> None:
    records = ROWS[:25]
    few = [r for r in records if r.p == 0.1 or r.by_chance or r.name.startswith("one torn")]
    monkeypatch.setattr(running, "ROWS", few)
    made = run_selftest(full=False, workers=1, progress=Silent(), audits=2)
    assert [row.audits for row in made.rows] == [2, 2, 2, 2, 2]
    content = json.loads(json.dumps(report_of(made)))
    assert content["rows"][0]["row"] == "bystander, lone"
    assert content["settings"]["first_seed"] == 10_000
    assert content["passed"] == made.passed
    assert "of cohort audits" in content["comparison"]
    assert not Selftest([replace(made.rows[0], passed=False)], 1.0).passed
    assert all(math.isfinite(row.value) for row in made.rows)


def test_rows_are_played_by_name_and_the_smallest_size_alone_decides() -> None:
    done = run_selftest(full=False, workers=1, progress=Silent(), audits=2, only=["tells nothing"])
    assert [row.audits for row in done.rows] == [2] and done.comparison is None
    # The whole series leaks for certain; its first release, which the row is held to, does not.
    assert done.passed and done.rows[0].value == 0.0
    with pytest.raises(UserError, match="no row is named like 'lonely'"):
        run_selftest(full=False, workers=1, progress=Silent(), only=["lonely"])
