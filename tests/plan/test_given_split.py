"""Design `given`: members are taken as given, and permuted as they were drawn."""

from __future__ import annotations

import numpy as np
import pytest

from synthleak.core.errors import PlanError, PoolError
from synthleak.core.seeds import stream
from synthleak.core.spec import GameSection
from synthleak.core.store import MemoryStore
from synthleak.corpus import Corpus, Record
from synthleak.corpus.corpus import Split
from synthleak.plan import Plan
from synthleak.plan.given import GivenSplit, permuted
from synthleak.plan.plan import draw_all
from synthleak.pools import Pool
from synthleak.pools.pool import split, split_groups

GAME = GameSection(design="given")


def corpus(groups: list[str | None], roles: list[str], declared: str = "random") -> Corpus:
    records = tuple(Record(str(i), f"text {i}", (), group) for i, group in enumerate(groups))
    return Corpus("c", records, split=Split(tuple(roles), declared))  # type: ignore[arg-type]


def pool_of(made: Corpus) -> Pool:
    assert made.split is not None
    return split(made, "all", made.split.positions("members", "holdout"), auxiliary=0.5, seed=1)


def test_one_set_known_membership_and_a_reference() -> None:
    made = corpus([None] * 7, ["members"] * 2 + ["holdout"] * 3 + ["reference"] * 2)
    plan = GivenSplit().draw(pool_of(made), GAME, 1)
    assert [(s.name, s.form, s.records) for s in plan.sets] == [
        ("release", "release", (0, 1)),
        ("reference", "raw", (5, 6)),
    ]
    assert sorted(plan.targets) == [0, 1, 2, 3, 4]
    assert plan.trials.member.tolist() == [target < 2 for target in plan.targets]
    assert [b.scenario for b in plan.baselines] == ["S1", "S2"]
    assert plan.coins is None and plan.blocks == ()
    assert Plan.from_bytes(plan.to_bytes()).to_bytes() == plan.to_bytes()


def test_without_a_reference_there_is_no_raw_attacker() -> None:
    plan = GivenSplit().draw(pool_of(corpus([None] * 4, ["members", "holdout"] * 2)), GAME, 1)
    assert [b.scenario for b in plan.baselines] == ["S1"]
    assert len(plan.sets) == 1


def test_a_redraw_keeps_the_size_and_the_groups() -> None:
    groups: list[str | None] = ["a", "a", "a", "b", "b", None, "c", "c", None, None]
    roles = ["members"] * 5 + ["holdout"] * 5
    plan = GivenSplit().draw(pool_of(corpus(groups, roles)), GAME, 1)
    groups = [groups[target] for target in plan.targets]
    rng, seen = stream("redraw"), set()
    for _ in range(200):
        member = GivenSplit().redraw(plan, GAME, rng).member
        for name in "abc":
            assert len({bool(member[i]) for i, g in enumerate(groups) if g == name}) == 1
        blocks = {g if g else i: bool(member[i]) for i, g in enumerate(groups)}
        assert sum(blocks.values()) == 2  # a and b were in: two of six groups are members
        seen.add(tuple(member.tolist()))
    assert len(seen) == 15  # every pair of the six, C(6, 2)


def test_target_positions_do_not_reveal_members() -> None:
    made = corpus([None] * 400, ["members"] * 200 + ["holdout"] * 200)
    plan = GivenSplit().draw(pool_of(made), GAME, 1)
    inside = plan.trials.member
    assert abs(int(inside[:200].sum()) - 100) < 40
    assert inside.tolist() == [target < 200 for target in plan.targets]


def test_given_split_is_always_add_adjacency() -> None:
    made = corpus([None] * 40, ["members", "holdout"] * 20, "coins")
    game = GameSection(design="given", adjacency="replace")
    assert GivenSplit().draw(pool_of(made), game, 1).adjacency == "add"


def group_names(count: int, size: int) -> list[str | None]:
    return [f"g{i}" for i in range(count) for _ in range(size)]


def test_a_few_torn_groups_are_left_out() -> None:
    """30 groups of 16, one record on the wrong side: the rest is still permuted by group."""
    roles = ["members"] * 240 + ["holdout"] * 240
    roles[5] = "holdout"
    made = corpus(group_names(30, 16), roles)
    assert split_groups(made).unit == "group" and split_groups(made).torn == 1
    pool = pool_of(made)
    assert len(pool.targets) == 29 * 16 and min(pool.targets) == 16
    assert pool.given is not None and len(set(pool.given.block)) == 29


def test_groups_are_found_once_per_corpus(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = []
    monkeypatch.setattr(
        "synthleak.pools.pool.split_groups", lambda made: asked.append(made) or split_groups(made)
    )
    pool_of(corpus(group_names(5, 4), ["members"] * 12 + ["holdout"] * 8))
    assert len(asked) == 1


def test_split_groups_are_permuted_by_record() -> None:
    roles = stream("records").permutation(["members"] * 240 + ["holdout"] * 240).tolist()
    for size in (2, 3, 16):
        made = corpus(group_names(480 // size, size), roles)
        assert split_groups(made).unit == "record" and not split_groups(made).left_out
        pool = pool_of(made)
        assert pool.given is not None and len(set(pool.given.block)) == 480


def test_oddly_split_groups_cannot_be_permuted() -> None:
    roles = ["members"] * 240 + ["holdout"] * 240
    for place in range(0, 480, 16 * 5):  # six of thirty groups
        roles[place] = "holdout" if roles[place] == "members" else "members"
    assert split_groups(corpus(group_names(30, 16), roles)).unit is None


def test_groups_torn_on_purpose_cannot_be_permuted() -> None:
    """Half of each pair on either side: chance would tear half of the pairs only."""
    made = corpus(group_names(100, 2), ["members", "holdout"] * 100)
    assert split_groups(made).unit is None


def test_coins_are_tossed_again_and_may_be_counted() -> None:
    made = corpus([None] * 40, ["members", "holdout"] * 20, "coins")
    plan = GivenSplit().draw(pool_of(made), GAME, 1)
    assert plan.coins is not None and len(plan.coins) == 40
    rng = stream("coins")
    sizes = {int(GivenSplit().redraw(plan, GAME, rng).member.sum()) for _ in range(50)}
    assert len(sizes) > 3


def test_coins_that_cannot_be_fair_are_refused() -> None:
    lopsided = corpus([None] * 60, ["members"] * 58 + ["holdout"] * 2, "coins")
    with pytest.raises(PlanError, match="58 of 60") as error:
        GivenSplit().draw(pool_of(lopsided), GAME, 1)
    assert error.value.where == "corpus.declared"
    grouped = corpus(["a", "a", "b", "c"], ["members", "members", "holdout", "holdout"], "coins")
    with pytest.raises(PlanError, match="group") as error:
        GivenSplit().draw(pool_of(grouped), GAME, 1)
    assert error.value.where == "corpus.declared"


def test_pool_needs_members_and_holdout() -> None:
    made = corpus([None] * 6, ["members"] * 3 + ["holdout"] * 3)
    with pytest.raises(PoolError, match="3 members and 0 of the holdout"):
        split(made, "some", [0, 1, 2], auxiliary=0.5, seed=1)
    with pytest.raises(PlanError, match="'lone'") as error:
        draw_all({"p": pool_of(made)}, GameSection(), 1, MemoryStore())
    assert error.value.where == "game.design"
    ordinary = Corpus("c", made.records)
    with pytest.raises(PlanError, match="'given'") as error:
        pool = split(ordinary, "p", [0, 1], auxiliary=0.5, seed=1)
        draw_all({"p": pool}, GAME, 1, MemoryStore())
    assert error.value.where == "game.design"


def test_permuting_is_uniform() -> None:
    member, rng = np.array([True, False, False]), stream("uniform")
    counts = sum(permuted(member, np.arange(3), rng).astype(int) for _ in range(3000))
    assert (np.abs(counts - 1000) < 120).all()
