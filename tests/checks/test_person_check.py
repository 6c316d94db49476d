"""`check --unit person`: whole persons are asked about, named, and their copies counted."""

from __future__ import annotations

import numpy as np
import pytest

import synthleak
from synthleak.audit.result import Audit
from synthleak.audit.setup import records_at
from synthleak.audit.steps.preconditions import preconditions_of
from synthleak.core.errors import UserError
from synthleak.corpus.readers.demo import write_demo
from synthleak.explanations import explain

PEOPLE = 60
FIELDS = {"id": "id", "text": "text", "labels": "labels", "group": "group"}


def files(seed: int = 5) -> tuple[list[dict[str, str]], list[dict[str, str]]]:
    rows = [
        {"id": record.id, "text": record.text, "group": str(record.group)}
        for record in write_demo(280, seed, persons=True)
    ]
    names = sorted({row["group"] for row in rows})
    inside = set(np.random.default_rng(seed).permutation(names)[: len(names) // 2].tolist())
    return [r for r in rows if r["group"] in inside], [r for r in rows if r["group"] not in inside]


@pytest.fixture(scope="module")
def audit() -> Audit:
    """A release that repeats one record of every other member, and two of the first."""
    members, holdout = files()
    first = members[0]["group"]
    copied = {row["group"]: row["text"] for row in members}
    names = sorted(copied)
    own = [row["text"] for row in members if row["group"] == first]
    release = [copied[name] for name in names[::2]] + own
    release += [record.text for record in write_demo(60, 77)]
    return synthleak.check(
        members,
        holdout,
        release,
        unit="person",
        max_records=4,
        random_split=True,
        encoder="hashing",
    )


def test_targets_are_people(audit: Audit) -> None:
    members, holdout = files()
    row = audit.cells[0]
    assert row.unit == "person"
    assert row.n_positive == len({r["group"] for r in members})
    assert row.n_negative == len({r["group"] for r in holdout})
    assert {record.record for record in audit.records} == {r["group"] for r in members}
    people = f"of {row.n_positive:,} people"
    assert row.grade == "strong"
    assert audit.headline.startswith(f"Do not publish as anonymous: {people} tested, ")
    assert f"{row.copied_members} of {row.n_positive} people have a record copied" in audit.headline
    assert preconditions_of(audit.setup) is not None


def test_copies_are_counted_by_person(audit: Audit) -> None:
    members, _ = files()
    asked = {record.id for record in records_at(audit.setup, audit.setup.pools["all"].asked)}
    counted = {row.record: row.copies for row in audit.records}
    listed: dict[str, int] = {}
    for copy in audit.copies:
        assert copy.record in asked
        if copy.side == "members":
            listed[copy.person] = listed.get(copy.person, 0) + 1
    assert {name: number for name, number in counted.items() if number} == listed
    assert counted[members[0]["group"]] == min(
        4, sum(row["group"] == members[0]["group"] for row in members)
    )
    assert audit.cells[0].copied_members == len(listed)
    assert audit.cells[0].copied_holdout == 0


def test_a_person_is_explained_by_name(audit: Audit) -> None:
    name = audit.records[0].record
    made = explain(audit, name)
    assert made.record == name
    assert made.signals[0].releases[0].matches
    with pytest.raises(UserError, match="no person 'nobody'"):
        explain(audit, "nobody")


def test_a_split_of_records_cannot_be_asked_about_people() -> None:
    members, holdout = files()
    rows = members + holdout
    order = np.random.default_rng(1).permutation(len(rows)).tolist()
    half = len(rows) // 2
    spread = [[rows[place] for place in part] for part in (order[:half], order[half:])]
    with pytest.raises(UserError, match="nobody was in or out as a whole"):
        synthleak.check(*spread, ["a text"] * 3, unit="person", encoder="hashing")
