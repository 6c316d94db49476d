"""The fleet's per-example gradients against a naive loop, on a tiny Llama in double precision."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from synthleak.releases.lm.backbone import Backbone  # noqa: E402
from synthleak.releases.lm.fleet.adapters import Adapters, fuse_norms  # noqa: E402
from synthleak.releases.lm.fleet.batches import IGNORED, Example, PaddedExamples, Shapes  # noqa: E402
from synthleak.releases.lm.fleet.shared_backbone import SharedBackbone  # noqa: E402
from synthleak.releases.lm.fleet.training import (  # noqa: E402
    ExampleGradients,
    Trainer,
    TrainingConfig,
    drawn,
    example_losses,
    weighted_sum,
)

ONE_WIDTH = Shapes((64,), 10_000, 100)
NEEDS_GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


def tiny_llama(dtype: torch.dtype = torch.float64) -> torch.nn.Module:
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=50,
        hidden_size=16,
        intermediate_size=24,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=64,
        tie_word_embeddings=True,
        eos_token_id=2,
    )
    return transformers.LlamaForCausalLM(config).to(dtype).eval().requires_grad_(False)


def shared_backbone(model: torch.nn.Module) -> SharedBackbone:
    return SharedBackbone(Backbone("tiny", model, None, 2, 64))


def shaken(shared: SharedBackbone, instances: int = 3) -> Adapters:
    """Adapters away from their start, where B is zero and half of the gradients vanish."""
    adapters = shared.adapters(range(instances), rank=3, scale=2.0)
    generator = torch.Generator().manual_seed(5)
    adapters.master.add_(
        torch.randn(adapters.master.shape, generator=generator, dtype=torch.float64).to(
            adapters.master
        )
        * 0.1
    )
    adapters.publish()
    return adapters


def examples(lengths: Sequence[int], seed: int = 1) -> list[Example]:
    rng = np.random.default_rng(seed)
    return [Example((*rng.integers(3, 50, n - 1).tolist(), 2), min(2, n - 1)) for n in lengths]


def naive_gradient(
    adapters: Adapters, shared: SharedBackbone, instance: int, example: Example
) -> torch.Tensor:
    """One example, unpadded, through merged weights and plain autograd: slow and obvious."""
    model = tiny_llama()
    fuse_norms(model)  # the library's own computes in single precision whatever the model
    leaf = adapters.master[instance].clone().requires_grad_()
    weights = {}
    modules = [
        name for name, module in model.named_modules() if isinstance(module, torch.nn.Linear)
    ]
    numbers = {id(layer): layer.number for layer in shared.layers}
    names = {
        numbers[id(module)]: name
        for name, module in shared.backbone.model.named_modules()
        if id(module) in numbers
    }
    assert set(names.values()) == set(modules) - {"lm_head"}
    for number, slot in enumerate(adapters.slots):
        a, b = slot.split(leaf[None])
        frozen = model.get_parameter(f"{names[number]}.weight")
        weights[f"{names[number]}.weight"] = frozen + adapters.scale * b[0] @ a[0]
    tokens = torch.tensor([example.tokens])
    logits = torch.func.functional_call(model, weights, (tokens,)).logits[0, :-1]
    first = example.prompt
    loss = torch.nn.functional.cross_entropy(logits[first - 1 :], tokens[0, first:])
    (gradient,) = torch.autograd.grad(loss, leaf)
    return gradient


def test_per_example_gradients_equal_a_naive_loop() -> None:
    shared = shared_backbone(tiny_llama())
    adapters = shaken(shared)
    sets = [examples([5, 9], 1), examples([3], 2), examples([7, 4, 6], 3)]
    (microbatch,) = PaddedExamples(sets, torch.device("cpu"), 64).microbatches(
        [np.arange(2), np.arange(1), np.arange(3)], ONE_WIDTH.cut
    )
    grads = adapters.live.new_empty(len(microbatch.instances), adapters.size)
    with adapters.collecting(grads, torch.from_numpy(microbatch.instances)):
        losses = example_losses(
            shared.decode(microbatch.tokens), shared.backbone.head, microbatch.labels
        )
        losses.sum().backward()
    flat = [(i, example) for i, own in enumerate(sets) for example in own]
    for row, (instance, example) in enumerate(flat):
        expected = naive_gradient(adapters, shared, instance, example)
        assert torch.allclose(grads[row], expected, rtol=1e-8, atol=1e-11)
        assert expected.abs().max() > 1e-4


def test_even_and_mixed_batches_give_equal_gradients() -> None:
    shared = shared_backbone(tiny_llama())
    adapters = shaken(shared)
    tokens = torch.randint(3, 50, (6, 7), generator=torch.Generator().manual_seed(1))
    labels = tokens.roll(-1, 1)
    collected = []
    for instances in (None, torch.tensor([0, 0, 1, 1, 2, 2])):
        grads = adapters.live.new_empty(6, adapters.size)
        with adapters.collecting(grads, instances):
            example_losses(shared.decode(tokens), shared.backbone.head, labels).sum().backward()
        collected.append(grads)
    assert torch.allclose(*collected, rtol=1e-10, atol=1e-13)


def test_padding_changes_no_loss_and_no_gradient() -> None:
    shared = shared_backbone(tiny_llama())
    adapters = shaken(shared)
    (short,) = examples([5])
    alone = _collected(shared, adapters, [[short], [], []])
    padded = _collected(shared, adapters, [[short, *examples([30], 9)], [], []])
    assert torch.allclose(alone[0], padded[0], rtol=1e-10, atol=1e-13)


def test_microbatches_hold_every_example_with_equal_gradients() -> None:
    shared = shared_backbone(tiny_llama())
    adapters = shaken(shared)
    sets = [examples([5, 9], 1), examples([3], 2), examples([7, 4, 6], 3)]
    prepared = PaddedExamples(sets, torch.device("cpu"), 16)
    everyone = [np.arange(2), np.arange(1), np.arange(3)]
    gradients_of = ExampleGradients(shared.decode, shared.backbone.head, adapters, recorded=False)
    seen = []
    for microbatch in prepared.microbatches(everyone, Shapes((4, 8, 16), 48, 4, 16).cut):
        grads = gradients_of(microbatch)
        assert torch.equal(
            grads[len(microbatch.instances) :].abs().sum(), torch.tensor(0.0).to(grads)
        )
        for row, instance in enumerate(microbatch.instances.tolist()):
            length = int((microbatch.labels[row] != IGNORED).sum()) + 1
            (example,) = (e for e in sets[instance] if len(e.tokens) - e.prompt + 1 == length)
            expected = naive_gradient(adapters, shared, instance, example)
            assert torch.allclose(grads[row], expected, rtol=1e-8, atol=1e-11)
            seen.append((instance, length))
    assert len(set(seen)) == 6


@NEEDS_GPU
def test_recorded_passes_equal_plain_ones() -> None:
    shared = shared_backbone(tiny_llama().to("cuda", torch.float32))
    adapters = shaken(shared)
    rng = np.random.default_rng(5)
    sets = [examples(rng.integers(2, 30, 20).tolist(), seed) for seed in range(3)]
    prepared = PaddedExamples(sets, torch.device("cuda"), 32)
    everyone = [np.arange(20)] * 3
    recording, plain = (
        ExampleGradients(shared.decode, shared.backbone.head, adapters, recorded=flag)
        for flag in (True, False)
    )
    for turn in range(4):
        adapters.live.mul_(1 + 0.1 * turn)
        for microbatch in prepared.microbatches(everyone, Shapes((8, 16, 32), 64, 8, 32).cut):
            expected = plain(microbatch)
            assert (recording(microbatch) - expected).norm() < 1e-4 * expected.norm()


def _collected(
    shared: SharedBackbone, adapters: Adapters, sets: list[list[Example]]
) -> torch.Tensor:
    prepared = PaddedExamples(sets, torch.device("cpu"), 64)
    (microbatch,) = prepared.microbatches([np.arange(len(own)) for own in sets], ONE_WIDTH.cut)
    grads = adapters.live.new_empty(len(microbatch.instances), adapters.size)
    with adapters.collecting(grads, torch.from_numpy(microbatch.instances)):
        losses = example_losses(
            shared.decode(microbatch.tokens), shared.backbone.head, microbatch.labels
        )
        losses.sum().backward()
    return grads


def trainer(
    shared: SharedBackbone,
    adapters: Adapters,
    tokens_at_once: int = 40,
    examples_at_once: int = 3,
    **config: float | None,
) -> Trainer:
    settings = {"steps": 4, "rate": 0.4, "batch": 2.0, "learning_rate": 0.01} | config
    return Trainer(
        shared.decode,
        shared.backbone.head,
        adapters,
        TrainingConfig(**settings),  # type: ignore[arg-type]
        longest=64,
        tokens_at_once=tokens_at_once,
        examples_at_once=examples_at_once,
    )


@pytest.mark.parametrize("clip", [None, 0.05, 1e6])
def test_clipped_sums_equal_the_sum_of_naive_gradients(clip: float | None) -> None:
    shared = shared_backbone(tiny_llama())
    adapters = shaken(shared)
    sets = [examples([5, 9, 12], 1), [], examples([7, 4, 6, 11, 3], 3)]
    chosen = [np.array([0, 2]), np.array([], dtype=np.int64), np.array([1, 2, 3, 4])]
    total = trainer(shared, adapters, clip=clip).clipped_sum(
        PaddedExamples(sets, torch.device("cpu"), 64), chosen
    )
    for instance, positions in enumerate(chosen):
        expected = torch.zeros_like(total[0])
        for position in positions:
            gradient = naive_gradient(adapters, shared, instance, sets[instance][position])
            factor = 1.0 if clip is None else min(1.0, clip / float(gradient.norm()))
            expected += factor * gradient
        assert torch.allclose(total[instance], expected, rtol=1e-8, atol=1e-11)
        if clip == 0.05 and len(positions):
            assert total[instance].norm() <= clip * len(positions) * (1 + 1e-9)


def test_adapter_does_not_depend_on_other_instances() -> None:
    sets = [examples([5, 9, 12, 4], 1), examples([6, 3], 2), examples([8, 8, 10], 3)]
    seeds = [11, 12, 13]
    shared = shared_backbone(tiny_llama())
    together = shared.adapters(seeds, rank=3, scale=2.0)
    trainer(shared, together, clip=0.5, sigma=0.7).train(sets, seeds)
    for i in range(3):
        alone = shared.adapters(seeds[i : i + 1], rank=3, scale=2.0)
        trainer(shared, alone, clip=0.5, sigma=0.7).train(sets[i : i + 1], seeds[i : i + 1])
        assert torch.allclose(alone.master[0], together.master[i], rtol=1e-7, atol=1e-10)


def test_an_empty_batch_still_takes_a_noised_step() -> None:
    shared = shared_backbone(tiny_llama())
    adapters = shared.adapters([1], rank=3, scale=2.0)
    before = adapters.master.clone()
    trainer(shared, adapters, rate=0.0, clip=1.0, sigma=1.0, steps=1).train([examples([5])], [1])
    moved = (adapters.master - before).abs()
    assert (moved > 0).float().mean() > 0.99
    still = shared.adapters([1], rank=3, scale=2.0)
    trainer(shared, still, rate=0.0, clip=1.0, sigma=0.0, steps=1).train([examples([5])], [1])
    assert torch.allclose(still.master, before * (1 - 0.01 * 0.01), rtol=1e-12)


def test_noise_has_the_stated_scale_and_is_fresh() -> None:
    shared = shared_backbone(tiny_llama())
    adapters = shared.adapters([1, 2], rank=8, scale=2.0)
    made = trainer(shared, adapters, rate=0.0, clip=0.5, sigma=3.0, steps=3, batch=2.0)
    seen: list[torch.Tensor] = []
    made.update = lambda total, step: seen.append(total / 2.0)  # type: ignore[method-assign]
    made.train([examples([5]), examples([5])], [1, 2])
    drawn = torch.stack(seen).flatten(0, 1)
    assert drawn.std(dim=1).numpy() == pytest.approx(3.0 * 0.5 / 2.0, rel=0.05)
    overlap = torch.corrcoef(drawn) - torch.eye(6, dtype=drawn.dtype)
    assert overlap.abs().max() < 0.1


def test_batches_are_poisson_not_shuffled() -> None:
    shared = shared_backbone(tiny_llama())
    adapters = shared.adapters([4], rank=2, scale=2.0)
    made = trainer(shared, adapters, rate=0.3, steps=400)
    sizes: list[int] = []
    original = made.clipped_sum

    def watch(prepared: PaddedExamples, chosen: Sequence[np.ndarray]) -> torch.Tensor:
        sizes.append(len(chosen[0]))
        return torch.zeros_like(adapters.master)

    made.clipped_sum = watch  # type: ignore[method-assign, assignment]
    made.train([examples([4] * 20)], [4])
    assert original is not watch
    assert np.mean(sizes) == pytest.approx(6, abs=0.35)
    assert np.var(sizes) == pytest.approx(20 * 0.3 * 0.7, rel=0.25)


def test_loss_equals_cross_entropy_without_ignored_tokens() -> None:
    generator = torch.Generator().manual_seed(3)
    hidden = torch.randn(4, 6, 5, generator=generator, dtype=torch.float64, requires_grad=True)
    head = torch.randn(11, 5, generator=generator, dtype=torch.float64)
    labels = torch.randint(0, 11, (4, 6), generator=generator)
    labels[1, 2:] = IGNORED
    labels[3] = IGNORED
    losses = example_losses(hidden, head, labels)
    losses.sum().backward()
    again = hidden.detach().clone().requires_grad_()
    expected = torch.stack(
        [
            torch.nn.functional.cross_entropy(again[e] @ head.T, labels[e], ignore_index=IGNORED)
            if (labels[e] != IGNORED).any()
            else again[e].sum() * 0
            for e in range(4)
        ]
    )
    expected.sum().backward()
    assert torch.allclose(losses, expected)
    assert torch.allclose(hidden.grad, again.grad)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_one_more_record_changes_no_other_gradient(dtype: torch.dtype) -> None:
    shared = shared_backbone(tiny_llama(dtype))
    adapters = shaken(shared, 1)
    made = trainer(shared, adapters, clip=0.05, tokens_at_once=4096, examples_at_once=100)
    lengths = np.random.default_rng(4).integers(3, 41, 40).tolist()
    sets = [[*examples(lengths), *examples([64], 7), *examples([3], 8), *examples([20], 9)]]
    prepared = PaddedExamples(sets, torch.device("cpu"), 64)

    def contributions(chosen: list[int]) -> dict[bytes, torch.Tensor]:
        found = {}
        for part in prepared.microbatches([np.array(chosen)], made.shapes.cut):
            grads = made._gradients(part)
            clipped = grads * made._weights(grads)[:, None]
            for row in range(len(part.instances)):
                found[np.trim_zeros(part.tokens[row].numpy(), "b").tobytes()] = clipped[row].clone()
        return found

    drawn = list(range(0, 40, 3))
    without = contributions(drawn)
    assert len(without) == len(drawn)
    for more in (40, 41, 42):
        with_it = contributions([*drawn, more])
        assert len(with_it) == len(drawn) + 1
        for key, clipped in without.items():
            assert torch.equal(clipped, with_it[key])


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=NEEDS_GPU)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_sums_are_added_up_in_single_precision(dtype: torch.dtype, device: str) -> None:
    generator = torch.Generator().manual_seed(2)
    grads = torch.randn(40, 1000, generator=generator).to(device, dtype)
    weight = torch.rand(40, generator=generator).bfloat16().float().to(device)
    exact = weight.double() @ grads.double()
    total = weighted_sum(weight, grads)
    assert total.dtype == torch.float32
    assert (total - exact).norm() < 1e-6 * exact.norm()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_clipped_norms_of_large_gradients_stay_bounded(dtype: torch.dtype) -> None:
    shared = shared_backbone(tiny_llama())
    made = trainer(shared, shared.adapters([1], rank=3, scale=2.0), clip=1.0)
    grads = torch.randn(3, 5_000_000, generator=torch.Generator().manual_seed(1)).to(dtype)
    made._adapters.master = made._adapters.master.float()
    clipped = grads.double() * made._weights(grads).to(dtype).double()[:, None]
    norms = clipped.norm(dim=1)
    assert (norms <= 1).all()
    assert (norms > 0.97).all()


def test_half_precision_never_exceeds_the_clip() -> None:
    shared = shared_backbone(tiny_llama(torch.bfloat16))
    adapters = shared.adapters([0, 1], rank=3, scale=2.0)
    made = trainer(shared, adapters, clip=0.01)
    sets = [examples([n], n) for n in (5, 9)]
    total = made.clipped_sum(PaddedExamples(sets, torch.device("cpu"), 64), [np.arange(1)] * 2)
    assert (total.norm(dim=1) <= 0.01).all()
    assert (total.norm(dim=1) > 0.0095).all()


def test_fused_norms_equal_the_model_s_own() -> None:
    plain, fused = tiny_llama(torch.float32), tiny_llama(torch.float32)
    for name, parameter in plain.named_parameters():
        if "norm" in name:
            torch.nn.init.uniform_(parameter, 0.5, 2.0)
            fused.get_parameter(name).copy_(parameter)
    fuse_norms(fused)
    assert not [m for m in fused.modules() if type(m).__name__ == "LlamaRMSNorm"]
    tokens = torch.randint(3, 50, (2, 9), generator=torch.Generator().manual_seed(1))
    assert torch.allclose(plain(tokens).logits, fused(tokens).logits, rtol=1e-5, atol=1e-6)


OWNERS = [np.array([0, 1, 0, 1, 0]), np.array([0, 0])]


def persons() -> list[list[Example]]:
    """Two instances; a person's texts have lengths of different microbatches."""
    return [examples([5, 9, 30, 18, 40], 1), examples([3, 33], 2)]


def test_gradients_of_a_person_are_added_up_before_clipping() -> None:
    shared = shared_backbone(tiny_llama())
    adapters, sets, clip = shaken(shared, 2), persons(), 0.5
    made = trainer(shared, adapters, clip=clip)
    chosen = [np.arange(5), np.arange(2)]
    total = made.clipped_sum_of_persons(made.prepare(sets), chosen, OWNERS)
    for instance, (own, owner) in enumerate(zip(sets, OWNERS, strict=True)):
        expected = torch.zeros_like(total[instance])
        for person in np.unique(owner):
            together = sum(
                naive_gradient(adapters, shared, instance, own[place])
                for place in np.flatnonzero(owner == person)
            )
            expected += together * min(1.0, clip / float(together.norm()))
        assert torch.allclose(total[instance], expected, atol=1e-9)


def test_one_person_moves_a_step_by_the_clip_at_most() -> None:
    shared = shared_backbone(tiny_llama())
    adapters, sets, clip = shaken(shared, 2), persons(), 0.01
    made = trainer(shared, adapters, clip=clip)
    prepared, everybody = made.prepare(sets), [np.arange(5), np.arange(2)]
    whole = made.clipped_sum_of_persons(prepared, everybody, OWNERS)
    without = [np.flatnonzero(OWNERS[0] != 0), np.arange(0)]
    moved = whole - made.clipped_sum_of_persons(prepared, without, OWNERS)
    assert torch.allclose(moved.norm(dim=1), torch.full((2,), clip, dtype=torch.float64))
    records = made.clipped_sum(prepared, everybody) - made.clipped_sum(prepared, without)
    assert (records.norm(dim=1) > 1.1 * clip).all()  # clipped one by one, it moves further


def test_persons_of_one_text_are_clipped_like_records() -> None:
    shared = shared_backbone(tiny_llama())
    made = trainer(shared, shaken(shared, 2), clip=0.5)
    sets, alone = persons(), [np.arange(5), np.arange(2)]
    prepared = made.prepare(sets)
    total = made.clipped_sum_of_persons(prepared, alone, alone)
    assert torch.allclose(total, made.clipped_sum(prepared, alone), atol=1e-12)


def test_poisson_batches_take_whole_persons() -> None:
    owner = np.array([0, 1, 0, 2, 2, 2, 1])
    coin, seen = np.random.default_rng(1), []
    for _ in range(2000):
        chosen = drawn(7, owner, 0.3, coin)
        inside = set(owner[chosen].tolist())
        assert chosen.tolist() == [place for place in range(7) if owner[place] in inside]
        seen += sorted(inside)
    assert np.bincount(seen) / 2000 == pytest.approx(0.3, abs=0.04)
