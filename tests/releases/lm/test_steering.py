"""EPSVec's exemplars and vectors against slow oracles, and what one record can move."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from support.oracles import steering as oracle  # noqa: E402
from support.tiny_backbone import RECORDS, ask, side_of, tiny_shared_backbone, write_backbone  # noqa: E402
from synthleak.corpus.corpus import Record  # noqa: E402
from synthleak.encoders.builtin.hashing import Hashing  # noqa: E402
from synthleak.releases.generators.epsvec import EpsVec  # noqa: E402
from synthleak.releases.lm import steering as steps  # noqa: E402
from synthleak.releases.lm.fleet.shared_backbone import SharedBackbone, shared_backbone  # noqa: E402
from synthleak.releases.lm.steering import (  # noqa: E402
    ClassTexts,
    PromptedText,
    Reader,
    choose_exemplars,
    noise_of,
    unit_vectors,
)
from synthleak.releases.release import Request  # noqa: E402

LAYERS = (1, 2)
RNG = np.random.default_rng(5)


def tokens(count: int) -> tuple[int, ...]:
    return tuple(RNG.integers(6, 40, count).tolist())


PROMPTS = [tokens(4), tokens(7), tokens(3)]
GENERATED = [PromptedText(PROMPTS[g], tokens(3 + n), 20) for g in range(3) for n in range(3)]
OF_GENERATED = np.repeat(np.arange(3), 3)
PRIVATE = [PromptedText(PROMPTS[g], tokens(2 + n), 20) for n, g in enumerate([0, 0, 1, 0, 1, 0])]
OF_PRIVATE = np.array([0, 0, 1, 0, 1, 0])
INSTANCE = np.array([0, 0, 1])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_backbone(tmp_path_factory.mktemp("backbone"))


@pytest.fixture(scope="module")
def shared(folder: str) -> SharedBackbone:
    return tiny_shared_backbone(folder)


@pytest.mark.parametrize("at_once", [10_000, 70, 13])
def test_mean_states_equal_one_text_at_a_time(shared: SharedBackbone, at_once: int) -> None:
    seen = 0
    for rows, states in Reader(shared, LAYERS, at_once).mean_states(GENERATED):
        for row, state in zip(rows, states, strict=True):
            for number, layer in enumerate(LAYERS):
                item = GENERATED[row]
                slow = oracle.mean_state(shared.backbone.model, item.prompt, item.text, layer)
                assert np.allclose(state[number].numpy(), slow, rtol=1e-9)
            seen += 1
    assert seen == len(GENERATED)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_states_do_not_depend_on_other_texts(folder: str, dtype: str) -> None:
    shared = shared_backbone(folder, "cpu", dtype)
    prompt = tokens(9)
    texts = [PromptedText(prompt, tokens(int(n)), 40) for n in RNG.integers(1, 41, 37)]

    def read(some: list[PromptedText]) -> dict[int, object]:
        return {
            id(some[row]): state
            for rows, states in Reader(shared, LAYERS, 10_000).mean_states(some)
            for row, state in zip(rows, states, strict=True)
        }

    whole = read(texts)
    for out in range(0, len(texts), 3):
        rest = read(texts[:out] + texts[out + 1 :])
        assert len(rest) == len(texts) - 1
        assert all(torch.equal(state, whole[text]) for text, state in rest.items())


def test_out_of_memory_halves_the_texts(
    shared: SharedBackbone, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    usual = Reader._read

    def greedy(self: Reader, texts: Any, width: int, height: int) -> object:
        if height > 2:
            raise torch.OutOfMemoryError("no room")
        return usual(self, texts, width, height)

    monkeypatch.setattr(Reader, "_read", greedy)
    read = Reader(shared, LAYERS, 160).mean_states(GENERATED)
    rows = [row for some, _ in read for row in some]
    assert sorted(rows) == list(range(len(GENERATED)))
    assert "continuing with 2 texts at once" in caplog.text


def test_means_spread_and_norms_come_from_generated_texts(shared: SharedBackbone) -> None:
    reference = Reader(shared, LAYERS, 40).statistics((GENERATED, OF_GENERATED), INSTANCE)
    model = shared.backbone.model
    for number, layer in enumerate(LAYERS):
        slow = [oracle.mean_state(model, item.prompt, item.text, layer) for item in GENERATED]
        centres = [oracle.mean(slow[3 * g : 3 * g + 3]) for g in range(3)]
        assert np.allclose(reference.means[:, number].numpy(), centres, rtol=1e-9)
        for instance, groups in ((0, (0, 1)), (1, (2,))):
            rows = [row for row, g in enumerate(OF_GENERATED) if g in groups]
            apart = [oracle.norm(oracle.difference(slow[r], centres[r // 3])) ** 2 for r in rows]
            spread = math.sqrt(sum(apart) / (len(groups) * 2))
            assert float(reference.spread[instance, number]) == pytest.approx(spread, rel=1e-9)
            length = math.sqrt(sum(oracle.norm(slow[r]) ** 2 for r in rows) / len(rows))
            assert float(reference.norms[instance, number]) == pytest.approx(length, rel=1e-9)


@pytest.mark.parametrize("factor", [0.5, 1.0, 100.0])
def test_clipped_sums_equal_a_plain_loop(shared: SharedBackbone, factor: float) -> None:
    reference = Reader(shared, LAYERS, 40).statistics((GENERATED, OF_GENERATED), INSTANCE)
    bounds = factor * reference.spread[torch.from_numpy(INSTANCE)]
    reader = Reader(shared, LAYERS, 40)
    sums = reader.clipped_sums((PRIVATE, OF_PRIVATE), reference.means, bounds)
    model = shared.backbone.model
    for number, layer in enumerate(LAYERS):
        for group in range(3):
            states = [
                oracle.mean_state(model, item.prompt, item.text, layer)
                for item, own in zip(PRIVATE, OF_PRIVATE, strict=True)
                if own == group
            ]
            centre = reference.means[group, number].tolist()
            slow = oracle.clipped_sum(states, centre, float(bounds[group, number]))
            assert np.allclose(sums[group, number].numpy(), slow, rtol=1e-4, atol=1e-4)
    assert not sums[2].any()  # no private text, no sum


def test_sums_move_no_more_than_stated(
    shared: SharedBackbone,
) -> None:
    reference = Reader(shared, LAYERS, 40).statistics((GENERATED, OF_GENERATED), INSTANCE)
    bounds = 0.8 * reference.spread[torch.from_numpy(INSTANCE)]

    def sums(texts: list[PromptedText], groups: list[int]) -> torch.Tensor:
        reader = Reader(shared, LAYERS, 40)
        found = reader.clipped_sums((texts, np.array(groups)), reference.means, bounds)
        return found / bounds[:, :, None]  # in units of the bound, as the claim counts

    whole = sums(PRIVATE, OF_PRIVATE.tolist())
    far = 0.0
    for out in range(len(PRIVATE)):
        rest = [item for n, item in enumerate(PRIVATE) if n != out]
        groups = [int(g) for n, g in enumerate(OF_PRIVATE) if n != out]
        moved = (whole - sums(rest, groups)).square().sum(dim=(0, 2)).sqrt()  # per layer
        assert (moved <= 1 + 1e-9).all()
        for group in (0, 1):
            other = PromptedText(PROMPTS[group], tokens(5), 20)
            swapped = sums([*rest, other], [*groups, group])
            moved = (whole - swapped).square().sum(dim=(0, 2)).sqrt()
            assert (moved <= 2 + 1e-9).all()
            far = max(far, float(moved.max()))
    assert far > 1  # a replaced text does move more than an added one


def generator(folder: str, **settings: object) -> EpsVec:
    return EpsVec(
        backbone=folder,
        encoder="hashing",
        device="cpu",
        dtype="float64",
        max_tokens=8,
        candidates=4,
        references=3,
        **settings,
    )


def vectors_of(made: EpsVec, request: Request) -> tuple[steps.Groups, torch.Tensor]:
    steering = steps.Steering(made, [request])
    texts = steering.public_texts()
    groups = steering.groups(texts)
    return groups, steering.vectors(groups, texts)[0].vectors


def test_vectors_have_length_alpha_and_fresh_noise(folder: str) -> None:
    made = generator(folder, unit=1.0)
    for epsilon, alpha in ((4.0, 1.4), (math.inf, 0.2)):
        _, vectors = vectors_of(made, ask(epsilon))
        lengths = torch.linalg.vector_norm(vectors, dim=2)
        assert torch.allclose(lengths[lengths > 0], torch.tensor(alpha).to(lengths), rtol=1e-5)
    _, again = vectors_of(made, ask(4.0))
    assert torch.equal(again, vectors_of(made, ask(4.0))[1])
    # Another seed draws other classes too: compare a class that both generate.
    groups, first = vectors_of(made, ask(4.0))
    others, second = vectors_of(made, ask(4.0, seed=2))
    both = set(groups.labels) & set(others.labels)
    assert both
    for labels in both:
        a, b = first[groups.labels.index(labels)], second[others.labels.index(labels)]
        assert float((a * b).sum(dim=1).max()) < 0.9 * 1.4**2


def test_noise_is_of_the_stated_size() -> None:
    noise = noise_of(3, (50, 4, 64))
    assert noise.std() == pytest.approx(1.0, abs=0.02)
    assert abs(noise.mean()) < 0.03
    assert np.array_equal(noise, noise_of(3, (50, 4, 64)))
    assert abs(np.corrcoef(noise.ravel(), noise_of(4, (50, 4, 64)).ravel())[0, 1]) < 0.04


def test_sums_are_noised_by_sigma_times_the_bound(folder: str) -> None:
    total = torch.zeros(200, 2, 16, dtype=torch.float64)
    owner = torch.tensor([0] * 120 + [1] * 80)
    scale = torch.tensor([[2.0, 3.0], [5.0, 7.0]])
    steps._add_noise(total, owner, scale, [ask(seed=1), ask(seed=2)])
    for instance in (0, 1):
        own = total[owner == instance]
        assert torch.allclose(own.std(dim=(0, 2)), scale[instance].double(), rtol=0.06)


def test_a_zero_sum_has_no_direction() -> None:
    assert not unit_vectors(torch.zeros(2, 3)).any()


def test_a_corpus_vector_is_the_same_for_all_classes(folder: str) -> None:
    groups, vectors = vectors_of(generator(folder, scope="corpus", unit=1.0), ask(size=12))
    assert len(set(groups.labels)) > 1
    assert torch.equal(vectors, vectors[:1].expand_as(vectors))


CANDIDATES = ("my head hurt again", "the pill made me sleep", "happy with this doctor", "pain")
TEXTS = {labels: ClassTexts(CANDIDATES, ()) for labels in {record.labels for record in RECORDS}}
VECTORS = {labels: Hashing().encode(CANDIDATES) for labels in TEXTS}


def slow_votes(request: Request, labels: tuple[str, ...]) -> list[int]:
    counts = [0] * len(CANDIDATES)
    points = Hashing().encode(CANDIDATES)
    for record in request.records:
        if record.labels == labels:
            (own,) = Hashing().encode([record.text])
            apart = [sum((float(a) - float(b)) ** 2 for a, b in zip(own, p)) for p in points]  # noqa: B905
            counts[apart.index(min(apart))] += 1
    return counts


def exemplars(request: Request, sigma: float) -> dict[tuple[str, ...], tuple[str, ...]]:
    return choose_exemplars(
        request, sorted(TEXTS), TEXTS, VECTORS, Hashing(), exemplars=2, sigma=sigma
    )


def test_exemplars_are_the_candidates_with_most_votes() -> None:
    request = ask()
    for labels, found in exemplars(request, 0.0).items():
        counts = slow_votes(request, labels)
        votes = [counts[CANDIDATES.index(text)] for text in found]
        assert votes == sorted(counts, reverse=True)[:2]


def test_exemplars_of_an_empty_class_are_random() -> None:
    empty = replace(ask(), records=())
    found = {exemplars(replace(empty, seed=seed), 0.0)["sleep",] for seed in range(30)}
    assert len(found) > 4


def test_each_release_has_its_own_vote_noise() -> None:
    found = [exemplars(ask(seed=seed), 50.0)["sleep",] for seed in range(30)]
    assert len(set(found)) > 4
    assert found[0] == exemplars(ask(seed=0), 50.0)["sleep",]


def test_public_texts_do_not_depend_on_private_data(folder: str) -> None:
    made = generator(folder)
    steering = steps.Steering(made, [ask(side=side_of())])
    steering.classes = [sorted(TEXTS)]
    first = dict(steering.public_texts())
    other = ask(seed=7, records=RECORDS[3:5], side=side_of())
    # One class at a time, another order: each class has its own stream.
    for labels in sorted(TEXTS, reverse=True):
        steering = steps.Steering(made, [other])
        steering.classes = [[labels]]
        again = steering.public_texts()
        assert again[labels] == first[labels]


@pytest.mark.parametrize("scope", ["class", "corpus"])
@pytest.mark.parametrize("epsilon", [math.inf, 8.0])
def test_projections_of_records_equal_a_plain_loop(
    folder: str, monkeypatch: pytest.MonkeyPatch, scope: str, epsilon: float
) -> None:
    read, add_noise = Reader.statistics, steps._add_noise
    references, sums = [], []

    def statistics(*args: Any) -> Any:
        references.append(read(*args))
        return references[0]

    def noise(total: torch.Tensor, *rest: Any) -> None:
        add_noise(total, *rest)
        sums.append(total.clone())

    monkeypatch.setattr(Reader, "statistics", statistics)
    monkeypatch.setattr(steps, "_add_noise", noise)
    made = generator(folder, scope=scope)
    steering = steps.Steering(made, [ask(epsilon), ask(epsilon, seed=2, records=RECORDS[:8])])
    texts = steering.public_texts()
    groups = steering.groups(texts)
    asked = (*RECORDS[:4], Record("other", "of no class", ("never",)))
    plain = steering.vectors(groups, texts)[0].vectors
    vectors, scores = steering.vectors(groups, texts, asked)
    assert torch.equal(vectors.vectors, plain)
    expected = np.zeros((2, len(asked)))
    (reference, *_), (total, *_) = references, sums
    model = steering._shared.backbone.model
    for group, (instance, labels) in enumerate(zip(groups.instance, groups.labels, strict=True)):
        for row, record in enumerate(asked):
            if record.labels != labels:
                continue
            (text,) = steering._tokenizer.encode([f" {record.text}"])
            for number, layer in enumerate(vectors.layers):
                state = oracle.mean_state(model, groups.prompts[group], text[:8], layer)
                apart = oracle.difference(state, reference.means[group, number].tolist())
                spread = float(reference.spread[instance, number])
                bound = made.clip * spread if math.isfinite(epsilon) else math.inf
                share = min(1.0, bound / oracle.norm(apart))
                direction = total[group if scope == "class" else instance, number].tolist()
                product = sum(a * b for a, b in zip(apart, direction, strict=True))
                expected[instance, row] += share * product / spread**2
    assert np.allclose(scores[:, :, 0], expected, rtol=1e-4, atol=1e-4)
    assert np.count_nonzero(expected) >= 4 and not expected[:, -1].any()


def test_scores_do_not_change_a_steered_release(folder: str) -> None:
    requests, made = [ask(8.0), ask(8.0, seed=2)], generator(folder)
    scored = list(made.generate_and_score(requests, RECORDS[:3]))
    assert [release for release, _ in scored] == list(made.generate_many(requests))
    assert [scores.shape for _, scores in scored] == [(3, 1)] * 2
