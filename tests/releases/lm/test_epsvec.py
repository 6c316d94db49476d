"""`epsvec` from requests to releases: on a tiny backbone, and small on the real one."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest

from synthleak.core.errors import GeneratorError, SpecError
from synthleak.corpus import Record
from synthleak.releases import gaussian_sigma, generators
from synthleak.releases.claim import remaining_sigma
from synthleak.releases.generators.epsvec import EpsVec
from synthleak.releases.release import public_side
from synthleak.testing import check_generator

pytest.importorskip("torch")
pytest.importorskip("transformers")

from support.tiny_backbone import RECORDS, ask, write_backbone
from synthleak.releases.lm import steering


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_backbone(tmp_path_factory.mktemp("backbone"))


def small(folder: str, **settings: object) -> EpsVec:
    chosen: dict[str, object] = {"candidates": 4, "references": 2, "max_tokens": 8, **settings}
    return EpsVec(backbone=folder, encoder="hashing", device="cpu", dtype="float64", **chosen)


def test_steered_layers_follow_the_depth_setting() -> None:
    made = EpsVec(encoder="hashing")
    assert made.layers_of(16) == (8, 9, 10, 11)
    assert made.layers_of(30) == tuple(range(15, 22))
    assert made.layers_of(1) == (0,)


def test_the_claim_composes_votes_and_every_layer(folder: str) -> None:
    made = small(folder)
    request = ask(4.0)
    votes, sums = made.claim(request).events
    assert votes.sigma == gaussian_sigma(4.0 / 6, 1e-6)
    assert votes.replace_sensitivity == pytest.approx(math.sqrt(2))
    assert (sums.count, sums.replace_sensitivity) == (1, 2.0)
    claim = made.claim(request)
    assert claim.epsilon_at(claim.delta) == pytest.approx(4.0, abs=0.01)
    # Gaussians compose by their squares: what is left for the sums has a closed form.
    low, high = 0.01, 10.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (
            (middle, high) if _gaussian_delta(middle, 4.0) < request.delta else (low, middle)
        )
    left = 1 / math.sqrt(low**2 - 1 / votes.sigma**2)
    assert sums.sigma == pytest.approx(left, rel=1e-3)
    # Replacing: √2 votes and twice the bound of every sum, by the same rule.
    mu = math.sqrt(2 / votes.sigma**2 + 4 / sums.sigma**2)
    assert claim.delta_at(6.0, "replace") == pytest.approx(_gaussian_delta(mu, 6.0), rel=0.01)
    assert made.claim(ask(math.inf)).events == ()


def test_a_budget_that_the_votes_use_up_is_refused() -> None:
    with pytest.raises(GeneratorError, match=r"nothing is left of ε = 0\.1"):
        remaining_sigma(0.1, 1e-6, 0.5, 3)


def _gaussian_delta(mu: float, epsilon: float) -> float:
    def phi(x: float) -> float:
        return 0.5 * math.erfc(-x / math.sqrt(2))

    return phi(mu / 2 - epsilon / mu) - math.exp(epsilon) * phi(-mu / 2 - epsilon / mu)


def test_the_contract_of_a_generator_holds(folder: str) -> None:
    check_generator(small(folder), size=6)


def test_company_does_not_matter(folder: str) -> None:
    made = small(folder)
    requests = [ask(4.0, seed=seed, records=RECORDS[seed:]) for seed in range(3)]
    alone = [made.generate(request) for request in requests]
    assert list(made.generate_many(requests)) == alone
    assert list(small(folder, fleet=2).generate_many(requests)) == alone
    assert alone[0] != alone[1]


def test_private_texts_steer_without_privacy(folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # Votes that say nothing: exemplars are the same, and vectors alone can make a difference.
    monkeypatch.setattr(steering, "noised", lambda counts, sigma, rng: 0 * counts)
    made = small(folder, alpha=30.0, unit=1.0)
    same = ask(seed=3, size=12)
    other = tuple(replace(record, text="today we tried another one") for record in RECORDS)
    assert made.generate(same) != made.generate(replace(same, records=other))


def test_one_record_no_label_and_many_classes(folder: str) -> None:
    made = small(folder)
    one = public_side(RECORDS, {r.labels: 1 for r in RECORDS} | {("lonely",): 1})
    lonely = Record("x", "pain came back", ("lonely",))
    for epsilon in (4.0, math.inf):
        assert len(made.generate(ask(epsilon, records=(lonely,), side=one))) == 8
        assert len(made.generate(ask(epsilon, records=()))) == 8
    bare = tuple(replace(record, labels=()) for record in RECORDS)
    release = made.generate(ask(4.0, records=bare, side=public_side(bare, {(): 1})))
    assert {record.labels for record in release} == {()}
    many = tuple(Record(str(n), f"pill {n}", (f"class {n}",)) for n in range(500))
    side = public_side(many, {r.labels: 1 for r in many})
    assert len(made.generate(ask(4.0, records=many[:20], side=side, size=10))) == 10


def test_a_backbone_without_a_chat_template_works(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert len(small(write_backbone(tmp_path, chat=False)).generate(ask())) == 8
    assert "neither prompt nor styles are used" in caplog.text


def test_prompts_beyond_the_context_are_refused_in_one_line(tmp_path: Path) -> None:
    made = small(write_backbone(tmp_path, context=16))
    with pytest.raises(GeneratorError, match="use a smaller max_tokens"):
        made.generate(ask())


def test_missing_backbone_is_a_one_line_error(tmp_path: Path) -> None:
    made = small(str(tmp_path))
    with pytest.raises(GeneratorError, match="cannot be read"):
        made.claim(ask(4.0))
    with pytest.raises(GeneratorError, match="cannot be loaded"):
        made.generate(ask())


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"depth": [0.7, 0.5]}, "the smaller first"),
        ({"prompt": "About {text}"}, r"prompt.*\{text\}"),
        ({"exemplar": 3}, "did you mean 'exemplars'"),
        ({"exemplars": 9, "candidates": 4}, "9 exemplars cannot be chosen from 4"),
        ({"alpha": math.nan}, "finite number"),
    ],
)
def test_wrong_settings_are_named(settings: dict[str, object], words: str) -> None:
    with pytest.raises(SpecError, match=words):
        generators.build("epsvec", settings, key="kind", where=("generator", 0))
