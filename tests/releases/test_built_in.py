"""`constant`, `bystander`, `echo`: known behaviour, for checking the auditor by."""

from __future__ import annotations

import math

import pytest

from synthleak.corpus import Record
from synthleak.releases import Request, Synthetic
from synthleak.releases.generators.bystander import Bystander
from synthleak.releases.generators.constant import Constant
from synthleak.releases.generators.echo import Echo
from synthleak.releases.release import Header, dump_texts, load_texts, private_prior, public_side

PRIVATE = tuple(Record(f"d{i}", f"private {i}", ("a",)) for i in range(40))
AUXILIARY = tuple(Record(f"r{i}", f"auxiliary {i}", ("a", "b")) for i in range(60))
SIDE = public_side(AUXILIARY, {("a",): 1, ("a", "b"): 1, ("c",): 1})


def ask(seed: int = 1, size: int = 40, records: tuple[Record, ...] = PRIVATE) -> Request:
    return Request(records, 40, size, math.inf, 1e-4, SIDE, seed)


def test_constant_says_the_same_whatever_it_is_given() -> None:
    assert {s.text for s in Constant(text="x").generate(ask())} == {"x"}


def test_bystander_never_looks_at_the_private_set() -> None:
    made = Bystander().generate(ask())
    assert made == Bystander().generate(ask(records=()))
    assert len({s.text for s in made}) == 40
    assert {s.text for s in made} <= {r.text for r in AUXILIARY}
    assert len(Bystander().generate(ask(size=100))) == 100


@pytest.mark.parametrize("p", [0.0, 0.3, 1.0])
def test_echo_copies_at_its_rate(p: float) -> None:
    texts = {r.text for r in PRIVATE}
    copied = sum(s.text in texts for seed in range(200) for s in Echo(p=p).generate(ask(seed=seed)))
    assert copied / (200 * len(PRIVATE)) == pytest.approx(p, abs=0.02)


def test_echo_keeps_its_size_where_the_release_is_smaller() -> None:
    assert len(Echo(p=1).generate(ask(size=10))) == 10


def test_prior_comes_from_auxiliary_records_with_a_floor() -> None:
    prior = dict(zip(SIDE.classes, SIDE.prior, strict=True))
    assert sum(prior.values()) == pytest.approx(1)
    assert prior["a", "b"] == pytest.approx(0.99 + 0.01 / 3)
    assert prior[("c",)] == pytest.approx(0.01 / 3)
    assert SIDE.expresses(PRIVATE) == 1.0
    assert private_prior(SIDE, PRIVATE).expresses(AUXILIARY) == 0.0


def test_releases_and_headers_survive_the_store() -> None:
    release = [Synthetic("line\u2028one\n“two”", ("a", "b")), Synthetic("", ())]
    assert load_texts(dump_texts(release)) == release
    header = Header("key", 2, Constant().claim(ask()))
    assert Header.from_bytes(header.to_bytes()) == header
