"""Sampling for a fleet against a plain loop: same randomness, one text at a time, no cache."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from test_fleet_gradients import shaken, shared_backbone, tiny_llama  # noqa: E402

from synthleak.core.seeds import stream  # noqa: E402
from synthleak.releases.lm.fleet.adapters import Adapters  # noqa: E402
from synthleak.releases.lm.fleet.sampling import Decoding, Sampler  # noqa: E402
from synthleak.releases.lm.fleet.shared_backbone import SharedBackbone  # noqa: E402

PROMPTS = [
    [(5, 6), (7,), (8, 9, 10, 11), (5, 6), (12, 13)],
    [(7,), (7,), (20, 21, 22), (30,), (5, 6)],
    [(40, 41), (42, 43, 44), (45,), (46,), (47, 48)],
]


def plain(
    shared: SharedBackbone,
    adapters: Adapters,
    instance: int,
    prompt: tuple[int, ...],
    uniforms: np.ndarray,
    how: Decoding,
) -> tuple[int, ...]:
    """Draw token after token from the whole text so far, sorting all of the vocabulary."""
    made: list[int] = []
    one = Adapters.__new__(Adapters)
    one.scale, one.slots = adapters.scale, adapters.slots
    one.live = adapters.live[instance : instance + 1]
    one.served = []
    for layer in shared.layers:
        layer.adapters = one
    try:
        for u in uniforms[: how.longest]:
            with one.serving(), torch.no_grad():
                hidden = shared._base(input_ids=torch.tensor([[*prompt, *made]])).last_hidden_state
            logits = (hidden[0, -1] @ shared.backbone.head.T) / how.temperature
            forbidden = how.end if len(made) < how.least else ()
            allowed = [token for token in range(len(logits)) if token not in forbidden]
            order = sorted(allowed, key=lambda token: -float(logits[token]))[: how.top_k]
            share = torch.softmax(logits[order], dim=0).tolist()
            kept, total = [], 0.0
            for token, p in zip(order, share, strict=True):
                if kept and total >= how.top_p:
                    break
                kept.append((token, p))
                total += p
            goal, run = float(u) * total, 0.0
            token = kept[-1][0]
            for candidate, p in kept:
                run += p
                if goal < run:
                    token = candidate
                    break
            if token in how.end:
                break
            made.append(token)
    finally:
        for layer in shared.layers:
            layer.adapters = adapters
    return tuple(made)


@pytest.mark.parametrize("at_once", [100, 6, 3])
@pytest.mark.parametrize(
    "how",
    [
        Decoding(end=(2, 3, 4, 5, 6, 7), longest=20, top_k=50, top_p=1.0),
        Decoding(end=(2, 3), longest=9, temperature=0.7, top_k=8, top_p=0.6),
        Decoding(end=tuple(range(2, 40)), longest=9, top_p=1.0, least=2),
    ],
)
def test_the_fleet_draws_what_a_plain_loop_draws(at_once: int, how: Decoding) -> None:
    shared = shared_backbone(tiny_llama())
    adapters = shaken(shared)
    seeds = [21, 22, 23]
    made = Sampler(shared, adapters, how, texts_at_once=at_once).sample(PROMPTS, seeds)
    lengths = set()
    for instance, own in enumerate(PROMPTS):
        uniforms = stream(seeds[instance], "tokens").random(
            (len(own), how.longest), dtype=np.float32
        )
        for position, prompt in enumerate(own):
            expected = plain(shared, adapters, instance, prompt, uniforms[position], how)
            assert made[instance][position] == expected
            lengths.add(len(expected))
    assert len(lengths) > 1
    assert min(lengths) >= how.least


def test_greedy_in_the_limit() -> None:
    shared = shared_backbone(tiny_llama())
    adapters = shaken(shared)
    how = Decoding(end=(), longest=5, top_k=1)
    (first, *_), *_ = Sampler(shared, adapters, how, texts_at_once=9).sample(PROMPTS, [1, 2, 3])
    other = Sampler(shared, adapters, how, texts_at_once=9).sample(PROMPTS, [4, 5, 6])
    assert first == other[0][0]
    assert len(first) == 5
