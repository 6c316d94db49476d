"""`augpe` from requests to releases: on a tiny backbone, and small on the real one."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from synthleak.core.errors import GeneratorError, SpecError
from synthleak.core.store import MemoryStore
from synthleak.corpus import Record
from synthleak.encoders import Vectors
from synthleak.encoders.builtin.hashing import Hashing
from synthleak.releases import Claim, GaussianEvent, generators
from synthleak.releases.generators.augpe import AugPe
from synthleak.releases.generators.dpsgd import DpSgd
from synthleak.releases.release import public_side
from synthleak.testing import check_generator

pytest.importorskip("torch")
pytest.importorskip("transformers")

from support.tiny_backbone import RECORDS, ask, write_backbone
from synthleak.releases.lm import evolution
from synthleak.releases.lm.fleet.shared_backbone import resolve_device, shared_backbone
from synthleak.releases.lm.votes import Population


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_backbone(tmp_path_factory.mktemp("backbone"))


def small(folder: str, **settings: object) -> AugPe:
    chosen: dict[str, object] = {"rounds": 3, "variations": 2, "max_tokens": 8, **settings}
    return AugPe(backbone=folder, encoder="hashing", device="cpu", dtype="float64", **chosen)


TABLE = {
    5102: (20.98, 11.19, 6.01, 3.28),
    604: (17.07, 9.33, 5.13, 2.86),
    3876: (20.5, 10.96, 5.9, 3.23),
}


def test_fine_tuning_leaves_the_backbone_unchanged(folder: str) -> None:
    shared, request = shared_backbone(folder, "cpu", "float64"), ask(math.inf)
    (before,) = small(folder).generate_many([request])
    trained = DpSgd(backbone=folder, device="cpu", dtype="float64", epochs=2, max_tokens=12)
    assert len(list(trained.generate_many([request]))) == 1
    assert all(layer.adapters is None for layer in shared.layers)
    assert list(small(folder).generate_many([request])) == [before]


def test_one_backbone_is_loaded_once_per_device(folder: str) -> None:
    assert shared_backbone(folder, "auto", "auto") is shared_backbone(
        folder, *resolve_device("auto", "auto")
    )


@pytest.mark.parametrize("device", ["qqq", "cuda:99"])
def test_missing_device_is_a_one_line_error(folder: str, device: str) -> None:
    with pytest.raises(GeneratorError, match=f"torch cannot use a device '{device}' here"):
        shared_backbone(folder, device, "auto")


@pytest.mark.parametrize("nominal", TABLE)
def test_the_published_noise_costs_what_is_published(nominal: int) -> None:
    delta = AugPe(encoder="hashing").default_delta(nominal)
    assert delta == pytest.approx(1 / (nominal * math.log(nominal)))
    for epsilon, sigma in zip((0.5, 1.0, 2.0, 4.0), TABLE[nominal], strict=True):
        claim = Claim(epsilon, delta, (GaussianEvent("votes", sigma, count=10),))
        assert claim.epsilon_at(delta) == pytest.approx(epsilon, rel=0.005)


@pytest.mark.parametrize(("nominal", "epsilon", "sigma"), [(5102, 0.5, 20.98), (604, 4.0, 2.86)])
def test_sigma_equals_the_published_table(nominal: int, epsilon: float, sigma: float) -> None:
    made = AugPe(encoder="hashing")
    request = replace(ask(epsilon, nominal=nominal), delta=made.default_delta(nominal))
    assert made.sigma(request) == pytest.approx(sigma, rel=0.004)


def test_claim_counts_every_round_for_add_and_replace() -> None:
    made = AugPe(encoder="hashing")
    request = replace(ask(4.0, nominal=604), delta=made.default_delta(604))
    claim = made.claim(request)
    (event,) = claim.events
    assert (event.count, event.sensitivity) == (10, 1.0)
    assert event.replace_sensitivity == pytest.approx(math.sqrt(2))
    assert claim.epsilon_at(claim.delta) == pytest.approx(4.0, abs=0.01)
    # Replacing is √2 votes: as if the noise were smaller by that much.
    looser = claim.epsilon_at(claim.delta, "replace")
    assert 4.0 * 1.3 < looser < 2 * 4.0
    assert made.claim(ask(math.inf)).events == ()
    assert made.claim(replace(request, label_prior="private")).void


def test_the_contract_of_a_generator_holds(folder: str) -> None:
    check_generator(small(folder), size=6)


@pytest.mark.parametrize("shared", [False, True])
def test_company_does_not_matter(folder: str, shared: bool) -> None:
    made = small(folder, shared_random=shared)
    requests = [ask(2.0, seed=seed, records=RECORDS[seed:]) for seed in range(3)]
    alone = [made.generate(request) for request in requests]
    assert list(made.generate_many(requests)) == alone
    assert alone[0] != alone[1]


def test_noise_differs_by_release_and_needs_a_budget(folder: str) -> None:
    made = small(folder, shared_random=True, rounds=1)
    # With one RANDOM population for all, only votes and noise tell releases apart.
    side = public_side(RECORDS[:1], {RECORDS[0].labels: 1}, description="notes")
    records = tuple(replace(record, labels=RECORDS[0].labels) for record in RECORDS)
    leaking = [
        made.generate(ask(0.5, seed=seed, records=records, side=side, size=4)) for seed in (1, 2)
    ]
    assert leaking[0] != leaking[1]
    exact = [
        {r.text for r in made.generate(ask(seed=seed, records=records, side=side, size=1))}
        for seed in (1, 2)
    ]
    assert exact[0] == exact[1]


def test_one_record_no_label_and_many_classes(folder: str) -> None:
    made = small(folder)
    one = public_side(RECORDS, {r.labels: 1 for r in RECORDS} | {("lonely",): 1})
    lonely = Record("x", "pain came back", ("lonely",))
    assert len(made.generate(ask(1.0, records=(lonely,), side=one))) == 8
    bare = tuple(replace(record, labels=()) for record in RECORDS)
    release = made.generate(ask(1.0, records=bare, side=public_side(bare, {(): 1})))
    assert {record.labels for record in release} == {()}
    many = tuple(Record(str(n), f"pill {n}", (f"class {n}",)) for n in range(500))
    side = public_side(many, {r.labels: 1 for r in many})
    release = made.generate(ask(1.0, records=many[:20], side=side, size=10))
    assert len(release) == 10
    assert len(made.generate(ask(math.inf, records=()))) == 8


def test_a_backbone_without_a_chat_template_is_prompted_plainly(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    made = small(write_backbone(tmp_path, chat=False))
    release = made.generate(ask())
    assert "has no chat template" in caplog.text
    assert all("\n" not in record.text for record in release)


def test_texts_beyond_the_context_are_refused_in_one_line(tmp_path: Path) -> None:
    from synthleak.core.errors import GeneratorError

    made = small(write_backbone(tmp_path, context=16))
    with pytest.raises(GeneratorError, match="use a smaller max_tokens"):
        made.generate(ask())


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"variation_prompt": "Say it again."}, r"variation_prompt.*\{text\}"),
        ({"random_prompt": "About {topic}"}, r"random_prompt.*\{topic\}"),
        ({"address": "example.org", "model": "m"}, "starts with http"),
        ({"address": "http://example.org"}, "needs the name of a model"),
        ({"address": "http://a.org", "model": "m", "shared_random": True}, "needs a backbone"),
        ({"encoder": "no-such"}, "unknown encoder 'no-such'"),
        ({"words": [0]}, "whole numbers from 1"),
        ({"words": "short"}, 'a list of whole numbers from 1, or "auto"'),
        ({"words": [2.5]}, 'a list of whole numbers from 1, or "auto"'),
        ({"rounds": 0}, "rounds"),
    ],
)
def test_wrong_settings_are_named(settings: dict[str, object], words: str) -> None:
    with pytest.raises(SpecError, match=words):
        generators.build("augpe", settings, key="kind", where=("generator", 0))


def test_identity_ignores_speed_and_includes_the_description(folder: str) -> None:
    assert small(folder, fleet=2).identity() == small(folder).identity()
    made, request = small(folder), ask()
    other = replace(request, public=replace(request.public, description="laws"))
    assert made.fingerprint(request) != made.fingerprint(other)


class Counting(Hashing):
    """An encoder that is not cheap, and remembers what it was asked."""

    asked: ClassVar[list[str]] = []

    @property
    def cheap(self) -> bool:
        return False

    def encode(self, texts: Sequence[str]) -> Vectors:
        self.asked.extend(texts)
        return super().encode(texts)


def test_a_private_record_is_encoded_once_ever(folder: str) -> None:
    made = small(folder).model_copy(update={"encoder": Counting()})
    store = MemoryStore()
    requests = [replace(ask(seed=seed), store=store) for seed in range(2)]
    list(made.generate_many(requests))
    made.generate(replace(ask(seed=5), store=store))
    seen = Counter(Counting.asked)
    assert {seen[record.text] for record in RECORDS} == {1}


@pytest.mark.parametrize("epsilon", [math.inf, 4.0])
def test_votes_near_records_equal_a_plain_loop(
    folder: str, monkeypatch: pytest.MonkeyPatch, epsilon: float
) -> None:
    seen: list[tuple[Population, list[float]]] = []
    select = evolution.survivors

    def survivors(people: Population, votes: np.ndarray, *rest: Any) -> list[int]:
        seen.append((people, votes.tolist()))
        return select(people, votes, *rest)

    monkeypatch.setattr(evolution, "survivors", survivors)
    asked = (*RECORDS[:5], Record("other", "of no class", ("never",)))
    requests = [ask(epsilon), ask(epsilon, seed=2, records=RECORDS[3:])]
    made = small(folder)
    scored = list(made.generate_and_score(requests, asked))
    assert [release for release, _ in scored] == list(made.generate_many(requests))
    vectors = Hashing().encode([record.text for record in asked]).astype(float)
    expected = np.zeros((2, len(asked)))
    for number, (people, votes) in enumerate(seen[: 2 * made.rounds]):
        for row, record in enumerate(asked):
            best, distance = None, math.inf
            for text, labels in enumerate(people.labels):
                apart = float(((people.vectors[text].astype(float) - vectors[row]) ** 2).sum())
                if labels == record.labels and apart < distance:
                    best, distance = text, apart
            expected[number % 2, row] += 0 if best is None else votes[best]
    assert np.allclose([scores[:, 0] for _, scores in scored], expected)
    assert (expected[:, :5] > 0).any() and not expected[:, 5].any()


def test_texts_from_an_address_are_not_asked_for_again(folder: str) -> None:
    assert small(folder).score_columns == ("votes",)
    elsewhere = AugPe(encoder="hashing", address="https://example.org/v1", model="m")
    assert elsewhere.score_columns == ()
