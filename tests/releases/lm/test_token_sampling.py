"""Drawing with and without steering against a plain loop: one text at a time, no memory."""

from __future__ import annotations

import weakref

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from support.tiny_backbone import tiny_shared_backbone, write_backbone  # noqa: E402
from synthleak.core.errors import GeneratorError  # noqa: E402
from synthleak.releases.lm import token_sampling  # noqa: E402
from synthleak.releases.lm.fleet import sampling  # noqa: E402
from synthleak.releases.lm.fleet.frozen_llama import FrozenLlama  # noqa: E402
from synthleak.releases.lm.fleet.memory import Shape  # noqa: E402
from synthleak.releases.lm.fleet.sampling import Decoding  # noqa: E402
from synthleak.releases.lm.fleet.shared_backbone import SharedBackbone  # noqa: E402
from synthleak.releases.lm.token_sampling import (  # noqa: E402
    SteeringVectors,
    TokenSampler,
    plan_sampling,
)

PROMPTS = [(7, 8), (9,), (10, 11, 12, 13), (7, 8, 9), (20, 21)]
OF = np.array([0, 1, 2, 3, 4, 2, 2, 0, 1, 4, 4, 4])


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> SharedBackbone:
    return tiny_shared_backbone(write_backbone(tmp_path_factory.mktemp("backbone")))


def sharing_sampler(shared: SharedBackbone, rows: int | None = None) -> TokenSampler:
    """Return a sampler whose prompts are shared, as where kernels work, without a kernel."""
    sampler = TokenSampler(shared, rows=rows)
    assert sampler.llama is None  # no kernel works on a CPU
    sampler.llama = FrozenLlama(shared.backbone.model)
    return sampler


def plain(
    shared: SharedBackbone,
    prompt: tuple[int, ...],
    uniforms: np.ndarray,
    how: Decoding,
    steering: dict[int, object],
) -> tuple[int, ...]:
    """Read the whole text for every token, adding the vectors where a token was drawn."""
    model = shared.backbone.model
    made: list[int] = []

    def hook(vector: object) -> object:
        def add(module: object, inputs: object, output: torch.Tensor) -> torch.Tensor:
            moved = output.clone()
            moved[:, len(prompt) - 1 :] += vector  # every position a token was drawn from
            return moved

        return add

    for u in uniforms:
        hooks = [
            model.base_model.layers[layer].register_forward_hook(hook(vector))
            for layer, vector in steering.items()
        ]
        with torch.no_grad():
            logits = model(input_ids=torch.tensor([[*prompt, *made]])).logits[0, -1]
        for handle in hooks:
            handle.remove()
        order = sorted(range(len(logits)), key=lambda t: -float(logits[t]))[: how.top_k]
        share = torch.softmax(logits[order] / how.temperature, dim=0).tolist()
        kept: list[tuple[int, float]] = []
        total = 0.0
        for token, p in zip(order, share, strict=True):
            if kept and total >= how.top_p:
                break
            kept.append((token, p))
            total += p
        goal, run, choice = float(u) * total, 0.0, kept[-1][0]
        for token, p in kept:
            run += p
            if goal < run:
                choice = token
                break
        made.append(choice)
        if choice in how.end:
            break
    return tuple(made)


@pytest.mark.parametrize("rows", [None, 5, 1])
@pytest.mark.parametrize("steer", [False, True])
@pytest.mark.parametrize("library", [False, True])
def test_rows_are_drawn_as_a_plain_loop_draws_them(
    shared: SharedBackbone,
    rows: int | None,
    steer: bool,
    library: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sampling, "COMPACT_EVERY", 3)
    # So little room that prompts are read in several microbatches, whose memories are joined.
    monkeypatch.setattr(token_sampling, "MOST_READ", 40)
    how = Decoding(end=(2, 3, 4, 5, 6, 7), longest=12, temperature=0.9, top_k=20, top_p=0.95)
    uniforms = np.random.default_rng(3).random((len(OF), how.longest), dtype=np.float32)
    vectors = torch.randn(len(PROMPTS), 2, 16, dtype=torch.float64) * 2
    steering = SteeringVectors((1, 2), vectors) if steer else None
    # Fewer logits than rows, so that tokens of a batch are drawn in parts.
    monkeypatch.setattr(token_sampling, "MOST_LOGITS", 4)
    sampler = (TokenSampler if library else sharing_sampler)(shared, rows=rows)
    made = sampler.sample(PROMPTS, OF, uniforms, how, steering)
    expected = [
        plain(
            shared,
            PROMPTS[p],
            u,
            how,
            {1: vectors[p, 0], 2: vectors[p, 1]} if steer else {},
        )
        for p, u in zip(OF, uniforms, strict=True)
    ]
    assert made == expected
    assert len({len(tokens) for tokens in made}) > 2


def test_shared_prompts_give_the_tokens_of_copied_ones(shared: SharedBackbone) -> None:
    rng = np.random.default_rng(5)
    prompts = [tuple(rng.integers(7, 40, n).tolist()) for n in rng.integers(1, 40, 30)]
    # From none to many answers, of which some end soon.
    of = rng.permutation(np.repeat(np.arange(30), rng.choice([0, 1, 2, 6, 6, 40], 30)))
    how = Decoding(end=(2, 3, 4), longest=30, top_k=30, top_p=0.95)
    uniforms = rng.random((len(of), how.longest), dtype=np.float32)
    copied, shared_prompts = (
        sampler(shared, rows=200).sample(prompts, of, uniforms, how)
        for sampler in (TokenSampler, sharing_sampler)
    )
    assert shared_prompts == copied
    assert len({len(tokens) for tokens in copied}) > 10


@pytest.mark.parametrize("steer", [False, True])
def test_steered_prompts_in_several_batches_give_the_same_tokens(
    shared: SharedBackbone, steer: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(6)
    begins = [tuple(rng.integers(7, 40, n).tolist()) for n in (17, 19, 30)]
    prompts = [begins[n % 3] + tuple(rng.integers(7, 40, 1 + n % 7).tolist()) for n in range(24)]
    of = np.repeat(np.arange(24), 1 + np.arange(24) % 3)
    how = Decoding(end=(2, 3, 4), longest=12, top_k=30)
    uniforms = rng.random((len(of), how.longest), dtype=np.float32)
    vectors = torch.randn(len(prompts), 2, 16, dtype=torch.float64) * 2
    steering = SteeringVectors((1, 2), vectors) if steer else None
    monkeypatch.setattr(token_sampling, "MOST_READ", 100)  # several microbatches
    copied, shared_prompts = (
        sampler(shared).sample(prompts, of, uniforms, how, steering)
        for sampler in (TokenSampler, sharing_sampler)
    )
    assert shared_prompts == copied


def test_decoding_is_chosen_by_the_environment(
    shared: SharedBackbone, monkeypatch: pytest.MonkeyPatch
) -> None:
    llama = FrozenLlama(shared.backbone.model)
    monkeypatch.setitem(shared.__dict__, "frozen_llama", llama)
    assert TokenSampler(shared).llama is llama
    monkeypatch.setenv("SYNTHLEAK_DECODING", "torch")
    assert TokenSampler(shared).llama is None
    monkeypatch.setenv("SYNTHLEAK_DECODING", "fast")
    with pytest.raises(GeneratorError, match="SYNTHLEAK_DECODING"):
        TokenSampler(shared)


def test_no_text_ends_before_its_least_length(shared: SharedBackbone) -> None:
    ends = tuple(range(2, 40))
    uniforms = np.random.default_rng(3).random((len(OF), 6), dtype=np.float32)
    for least in (0, 1, 3):
        how = Decoding(end=ends, longest=6, top_p=1.0, least=least)
        made = TokenSampler(shared).sample(PROMPTS, OF, uniforms, how)
        assert not any(set(tokens[:least]) & set(ends) for tokens in made)
        # The token that ends a text is handed over with it.
        assert min(map(len, made)) == least + 1


def test_steering_changes_texts_and_removes_its_hooks(shared: SharedBackbone) -> None:
    how = Decoding(end=(2,), longest=10)
    uniforms = np.random.default_rng(1).random((len(OF), 10), dtype=np.float32)
    before = TokenSampler(shared).sample(PROMPTS, OF, uniforms, how)
    steering = SteeringVectors((2,), torch.full((len(PROMPTS), 1, 16), 5.0))
    assert TokenSampler(shared).sample(PROMPTS, OF, uniforms, how, steering) != before
    assert TokenSampler(shared).sample(PROMPTS, OF, uniforms, how) == before


def test_out_of_memory_halves_the_rows(
    shared: SharedBackbone, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    how = Decoding(end=(2,), longest=6)
    uniforms = np.random.default_rng(1).random((len(OF), 6), dtype=np.float32)
    whole = TokenSampler(shared).sample(PROMPTS, OF, uniforms, how)
    usual = TokenSampler._batch
    held: list[weakref.ref[object]] = []

    def greedy(self: TokenSampler, prompts: object, of: np.ndarray, *rest: object) -> object:
        if len(of) > 4:
            kept = torch.zeros(len(of))
            held.append(weakref.ref(kept))
            raise torch.OutOfMemoryError("no room")
        return usual(self, prompts, of, *rest)  # type: ignore[arg-type]

    emptied: list[int] = []

    def empty() -> None:
        """Return cached memory: what a failed batch still held would stay in pieces."""
        assert all(one() is None for one in held)
        emptied.append(len(held))

    monkeypatch.setattr(TokenSampler, "_batch", greedy)
    monkeypatch.setattr(torch.cuda, "empty_cache", empty)
    assert TokenSampler(shared).sample(PROMPTS, OF, uniforms, how) == whole
    assert emptied == [0, 1, 2]
    assert "out of device memory: continuing with 6 texts" in caplog.text
    assert "with 3 texts" in caplog.text


SMOL = Shape(30, 576, 1536, 192, 49152, 134_515_008, 0, 2)


@pytest.mark.parametrize("gigabytes", [24, 80, 141])
def test_what_is_planned_fits(gigabytes: int) -> None:
    memory = gigabytes * 10**9
    limits = plan_sampling(SMOL, memory, 160, 40)
    # Keys and values of 30 layers and once more of one, with a block ahead; logits in two
    # precisions.
    row = 31 * 2 * 192 * 2 * 216
    used = SMOL.weights + limits.rows * row + limits.tokens * 2 * (8 * 576 + 3 * 1536)
    assert used + limits.logits * 49152 * 8 <= memory
    assert limits.rows > 3000


@pytest.mark.parametrize("gigabytes", [4, 24, 141])
@pytest.mark.parametrize("answers", [(6,) * 20_000, (1,) * 99_999, (1, 900) * 70])
def test_shared_prompts_are_planned_once(gigabytes: int, answers: tuple[int, ...]) -> None:
    memory = gigabytes * 10**9
    limits = plan_sampling(SMOL, memory, 110, 40, copied=False)
    of = np.repeat(np.arange(len(answers)), answers)
    rows = limits.fitting(of)
    prompts = len(np.unique(of[:rows]))
    position = 31 * 2 * 192 * 2
    used = SMOL.weights + (prompts * 112 + rows * 48) * position + limits.logits * 49152 * 8
    assert used + limits.tokens * 2 * (8 * 576 + 3 * 1536) <= memory
    # The rest is for prompts that are being read, logits and states.
    assert rows == 65_536 or used > 0.5 * memory
    copied = plan_sampling(SMOL, memory, 110, 40)
    assert rows >= copied.fitting(of)


def test_an_answer_that_does_not_fit_alone_is_refused() -> None:
    limits = plan_sampling(SMOL, 24 * 10**9, 110, 40, copied=False)
    assert limits.fitting(np.array([0])) == 1
    with pytest.raises(GeneratorError, match="one text of 900040 tokens do not fit into"):
        plan_sampling(SMOL, 24 * 10**9, 900_000, 40, copied=False)


def test_backbone_too_large_is_a_one_line_error() -> None:
    with pytest.raises(GeneratorError, match="do not fit into"):
        plan_sampling(SMOL, 200 * 10**6, 160, 40)
