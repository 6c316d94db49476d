"""The packed pass against the plain one: on a GPU, or on a CPU in Triton's interpreter."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
ON_GPU = torch.cuda.is_available()
if not ON_GPU:
    os.environ["TRITON_INTERPRET"] = "1"
transformers = pytest.importorskip("transformers")
triton = pytest.importorskip("triton")

from synthleak.releases.lm.backbone import Backbone  # noqa: E402
from synthleak.releases.lm.fleet.adapters import Adapters  # noqa: E402
from synthleak.releases.lm.fleet.batches import ROWS, Example, Packer, tile_rows, whole  # noqa: E402
from synthleak.releases.lm.fleet.memory import Fleet  # noqa: E402
from synthleak.releases.lm.fleet.packed_fleet import PackedSampler, PackedTrainer  # noqa: E402
from synthleak.releases.lm.fleet.packed_model import LONG, Launches, PackedModel  # noqa: E402
from synthleak.releases.lm.fleet.sampling import Decoding, Sampler  # noqa: E402
from synthleak.releases.lm.fleet.shared_backbone import (  # noqa: E402
    SharedBackbone,
    packed_works,
)
from synthleak.releases.lm.fleet.training import Trainer, TrainingConfig  # noqa: E402

DEVICE = torch.device("cuda" if ON_GPU else "cpu")
LONGEST = 40


def small_llama(**changes: Any) -> Any:
    torch.manual_seed(0)
    sides = {
        "vocab_size": 50,
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "head_dim": 32,
    }
    config = transformers.LlamaConfig(
        **sides | changes,
        max_position_embeddings=128,
        tie_word_embeddings=True,
        eos_token_id=2,
        initializer_range=0.2,
    )
    model = transformers.LlamaForCausalLM(config).eval().requires_grad_(False)
    for name, parameter in model.named_parameters():
        if "norm" in name:
            torch.nn.init.uniform_(parameter, 0.5, 2.0)
    return model.to(DEVICE)


@pytest.fixture(scope="module")
def shared() -> SharedBackbone:
    return SharedBackbone(Backbone("small", small_llama(), None, 2, 128))


def shaken(shared: SharedBackbone) -> Adapters:
    """Adapters away from their start, where B is zero and half of the gradients vanish."""
    adapters = shared.adapters(range(3), rank=16, scale=2.0)
    generator = torch.Generator().manual_seed(5)
    adapters.master.add_(0.1 * torch.randn(adapters.master.shape, generator=generator).to(DEVICE))
    adapters.publish()
    return adapters


def examples(lengths: Sequence[int], seed: int) -> list[Example]:
    rng = np.random.default_rng(seed)
    return [Example((*rng.integers(3, 50, n - 1).tolist(), 2), min(2, n - 1)) for n in lengths]


SETS = [examples([5, 9, 40], 1), [], examples([7, 33, 3, 11], 3)]
"""One text takes two blocks of attention, another fills its second with one token."""


def plain_trainer(
    shared: SharedBackbone, adapters: Adapters, config: TrainingConfig, longest: int = LONGEST
) -> Trainer:
    return Trainer(
        shared.decode,
        shared.backbone.head,
        adapters,
        config,
        longest=longest,
        tokens_at_once=400,
        examples_at_once=30,
    )


def packed_trainer(
    shared: SharedBackbone,
    adapters: Adapters,
    config: TrainingConfig,
    at_once: int,
    longest: int = LONGEST,
) -> PackedTrainer:
    packed = PackedModel(shared.backbone.model, adapters, longest)
    return PackedTrainer(packed, config, longest=longest, tokens_at_once=at_once)


@pytest.mark.parametrize(("clip", "at_once"), [(0.05, 1000), (None, 64)])
def test_clipped_sums_equal_the_plain_ones(
    shared: SharedBackbone, clip: float | None, at_once: int
) -> None:
    adapters = shaken(shared)
    config = TrainingConfig(1, 1.0, 2.0, 0.01, clip)
    chosen = [np.arange(3), np.arange(0), np.array([1, 2, 3])]
    plain = plain_trainer(shared, adapters, config)
    expected = plain.clipped_sum(plain.prepare(SETS), chosen)
    made = packed_trainer(shared, adapters, config, at_once)
    prepared = made.prepare(SETS)
    assert len(list(prepared.packs(chosen))) == (1 if at_once > 64 else 2)
    for _ in range(3 if ON_GPU else 1):  # unrecorded, recorded, replayed
        total = made.clipped_sum(prepared, chosen)
        assert not total[1].any()
        for mine, right in zip(total[[0, 2]], expected[[0, 2]], strict=True):
            assert (mine - right).norm() < 2e-5 * right.norm()
            assert right.norm() > 0.01


def test_clipped_sums_of_long_texts_equal_the_plain_ones(shared: SharedBackbone) -> None:
    """Attention then takes larger blocks: one text fills two, another three and a token."""
    adapters, longest = shaken(shared), LONG + 65
    sets = [examples([LONG, 9], 1), examples([LONG + 65], 2), examples([70], 3)]
    config = TrainingConfig(1, 1.0, 2.0, 0.01, 0.05)
    chosen = [np.arange(len(own)) for own in sets]
    plain = plain_trainer(shared, adapters, config, longest)
    expected = plain.clipped_sum(plain.prepare(sets), chosen)
    made = packed_trainer(shared, adapters, config, 1000, longest)
    total = made.clipped_sum(made.prepare(sets), chosen)
    for mine, right in zip(total, expected, strict=True):
        assert (mine - right).norm() < 2e-5 * right.norm()


def test_steps_equal_the_plain_ones(shared: SharedBackbone) -> None:
    sets = [examples([6, 4], 1), examples([5], 2), examples([7, 3], 3)]
    config = TrainingConfig(2, 0.4, 2.0, 0.01, 0.5, 0.3)
    made = []
    for train in (plain_trainer, lambda *some: packed_trainer(*some, 1000)):
        adapters = shaken(shared)
        before = adapters.master.clone()
        train(shared, adapters, config).train(sets, [1, 2, 3])
        assert torch.equal(adapters.live, adapters.master)
        made.append(adapters.master - before)
    assert (made[1] - made[0]).norm() < 1e-4 * made[0].norm()


@pytest.mark.parametrize("with_gradients", [True, False])
def test_nothing_private_gets_past_the_noise(
    shared: SharedBackbone, monkeypatch: pytest.MonkeyPatch, with_gradients: bool
) -> None:
    """With the gradients left out, adapters do not depend on lengths, order or number of texts."""
    if not with_gradients:
        monkeypatch.setattr(Launches, "sums", lambda *given: None)
    config = TrainingConfig(1, 0.6, 2.0, 0.01, 0.5, 0.3)
    made = []
    for sets in ([[], [], []], [[SETS[0][2], *SETS[0]], SETS[2][:1], []]):
        adapters = shaken(shared)
        packed_trainer(shared, adapters, config, 1000).train(sets, [1, 2, 3])
        made.append(adapters.master)
    assert torch.equal(*made) is not with_gradients


def test_an_empty_batch_still_takes_a_noised_step(shared: SharedBackbone) -> None:
    adapters = shaken(shared)
    before = adapters.master.clone()
    config = TrainingConfig(1, 0.0, 2.0, 0.01, 0.5, 0.3)
    packed_trainer(shared, adapters, config, 1000).train(SETS, [1, 2, 3])
    assert ((adapters.master - before).abs() > 1e-3).float().mean() > 0.99


def test_texts_equal_the_plain_ones(shared: SharedBackbone) -> None:
    adapters = shaken(shared)
    prompts = [[(5, 6), (7,), (8, 9, 10)], [(7,), (20, 21), (30,)], [(40, 41), (42,), (45,)]]
    how = Decoding(end=(2, 3, *range(10, 24)), longest=4, least=1, top_p=0.95)
    expected = Sampler(shared, adapters, how, texts_at_once=9).sample(prompts, [1, 2, 3])
    packed = PackedModel(shared.backbone.model, adapters, LONGEST)
    made = PackedSampler(packed, how, texts_at_once=9).sample(prompts, [1, 2, 3])
    assert made == expected
    lengths = {len(text) for own in made for text in own}
    assert min(lengths) == 1
    assert max(lengths) == 4


def packer(sets: list[list[Example]], rate: float = 1.0, at_once: int = 65_536) -> Packer:
    return Packer(sets, torch.device("cpu"), longest=LONGEST, rate=rate, at_once=at_once)


def test_a_pack_holds_every_text() -> None:
    (pack,) = packer(SETS).packs([np.arange(3), np.arange(0), np.arange(4)])
    assert pack.shape == (192, 168)
    offsets = pack.offsets.tolist()
    flat = [example for own in SETS for example in own]
    for number, example in enumerate(flat):
        assert tuple(pack.tokens[offsets[number] : offsets[number + 1]].tolist()) == example.tokens
        mine = pack.share[pack.text[pack.rows] == number]
        trained = len(example.tokens) - example.prompt
        assert mine[mine > 0].tolist() == pytest.approx([1 / trained] * trained)
    assert pack.owner[: len(flat)].tolist() == [0, 0, 0, 2, 2, 2, 2]
    assert pack.spans.tolist() == [0, 54, 54, 108]
    assert float(pack.share.sum()) == pytest.approx(len(flat))
    assert len(set(pack.rows.tolist())) == 168
    for row, target in zip(pack.rows.tolist(), pack.targets.tolist(), strict=True):
        if row + 1 < 108 and target:
            assert int(pack.tokens[row + 1]) == target


def test_no_batch_decides_the_shape_of_a_pack() -> None:
    rng = np.random.default_rng(2)
    sets = [examples(rng.integers(4, 40, 400).tolist(), n) for n in range(4)]
    prepared = packer(sets, rate=0.1)
    shapes = [
        pack.shape
        for _ in range(60)
        for pack in prepared.packs([np.flatnonzero(rng.random(400) < 0.1) for _ in sets])
    ]
    assert set(shapes) == {shapes[0]}
    assert 60 <= len(shapes) < 65
    assert 1.1 < shapes[0][0] / (0.1 * 1600 * 22) < 1.4
    everyone = list(prepared.packs([np.arange(400)] * 4))
    assert {pack.shape[0] for pack in everyone} == {shapes[0][0]}
    assert sum(float(pack.share.sum()) for pack in everyone) == pytest.approx(1600)


@pytest.mark.parametrize("at_once", [40, 300, 2000])
def test_packs_are_no_larger_than_planned(at_once: int) -> None:
    rng = np.random.default_rng(4)
    sets = [examples(rng.integers(2, 40, 100).tolist(), 1)]
    prepared = packer(sets, at_once=at_once)
    assert prepared.size <= whole(at_once + LONGEST)
    found = list(prepared.packs([np.arange(100)]))
    assert sum(float(pack.share.sum()) for pack in found) == pytest.approx(100)


def test_more_texts_than_usual_take_another_pack() -> None:
    prepared = packer([examples([3] * 900 + [40] * 100, 1)], rate=0.1)
    for _ in range(2):
        (pack,) = prepared.packs([np.arange(0, 1000, 10)])
        many = list(prepared.packs([np.arange(300)]))
        assert len(many) > 1
        assert {tuple(map(len, other.parts())) for other in many} == {tuple(map(len, pack.parts()))}
        assert sum(float(other.share.sum()) for other in many) == pytest.approx(300)


def test_a_text_that_is_too_long_is_refused() -> None:
    with pytest.raises(ValueError, match="more than 40 tokens"):
        packer([examples([41], 1)])


@pytest.mark.parametrize("counts", [[1], [130, 1, 0, 65], [0, 0, 5], [63, 64, 65]])
def test_tiles_cover_each_instance_alone(counts: list[int]) -> None:
    tiles = tile_rows(np.array(counts), sum(counts))
    owner = np.repeat(np.arange(len(counts)), counts)
    seen = [row for first, end, _ in tiles.tolist() for row in range(first, end)]
    assert sorted(seen) == list(range(sum(counts)))
    for first, end, instance in tiles.tolist():
        assert end - first <= ROWS
        assert (owner[first:end] == instance).all()


@pytest.mark.parametrize("broken", [lambda *some: None, lambda *some: 1 / 0])
def test_wrong_kernels_are_found_before_they_are_used(
    shared: SharedBackbone,
    broken: Any,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    adapters = shaken(shared)
    assert packed_works(shared, 16)
    assert not caplog.messages
    monkeypatch.setattr(Launches, "turn", broken)
    assert not packed_works(shared, 16)
    (message,) = caplog.messages
    assert "does not work here" in message
    assert all(layer.adapters is adapters for layer in shared.layers)


def test_packed_pass_needs_a_gpu(shared: SharedBackbone) -> None:
    adapters = shaken(shared)
    fleet = Fleet(3, 1000, 10, 10)
    config = TrainingConfig(1, 1.0, 2.0, 0.01)
    trainer = shared.trainer(adapters, config, longest=LONGEST, fleet=fleet)
    sampler = shared.sampler(adapters, Decoding(end=(), longest=4), fleet=fleet)
    assert isinstance(trainer, PackedTrainer) == isinstance(sampler, PackedSampler) == ON_GPU
    assert shared.shape(16).packed == ON_GPU
