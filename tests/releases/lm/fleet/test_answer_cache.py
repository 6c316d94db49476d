"""Answers that share keys and values of their prompt against a copy of it for each answer."""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
ON_GPU = torch.cuda.is_available()
# Triton is interpreted only if it is told so before it is imported.
INTERPRETED = "triton" not in sys.modules or os.environ.get("TRITON_INTERPRET") == "1"
if not ON_GPU:
    os.environ["TRITON_INTERPRET"] = "1"
transformers = pytest.importorskip("transformers")

from synthleak.releases.lm import fleet  # noqa: E402
from synthleak.releases.lm.backbone import Backbone  # noqa: E402
from synthleak.releases.lm.fleet import answer_cache, frozen_llama  # noqa: E402
from synthleak.releases.lm.fleet.answer_cache import AnswerCache, Heads, Prompts, grouped  # noqa: E402
from synthleak.releases.lm.fleet.frozen_llama import FrozenLlama  # noqa: E402
from synthleak.releases.lm.fleet.shared_backbone import SharedBackbone  # noqa: E402

DEVICE = torch.device("cuda" if ON_GPU else "cpu")
LONGEST = 20
LENGTHS = (37, 33, 32, 5, 1)


def drawn(*shape: int, seed: int = 1) -> Any:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, dtype=torch.float64, generator=generator)


class Copies:
    """The oracle: each row has all its keys and values, from its prompt's on."""

    def __init__(self, prompts: Prompts, of: np.ndarray, heads: Heads, angles: Any) -> None:
        self._heads, self._angles = heads, angles
        self._kept = [
            [home[:, p, :, : prompts.lengths[p]] for p in of.tolist()] for home in prompts.kept
        ]

    def attend(self, layer: int, qkv: Any) -> Any:
        heads, out = self._heads, []
        for row, flat in enumerate(qkv):
            q, k, v = flat.view(-1, heads.size).split([heads.queries, heads.keys, heads.keys])
            before = self._kept[layer][row]
            cosine, sine = (angle[before.shape[2]] for angle in self._angles)
            turn = torch.cat([torch.cat([cosine.diag(), -sine.diag()], 1),
                              torch.cat([sine.diag(), cosine.diag()], 1)])  # fmt: skip
            new = torch.stack([k @ turn.T.double(), v])[:, :, None]
            keys, values = self._kept[layer][row] = torch.cat([before, new], dim=2)
            for head, query in enumerate(q @ turn.T.double()):
                scores = keys[head // heads.shared] @ query * heads.size**-0.5
                out.append(torch.softmax(scores, 0) @ values[head // heads.shared])
        return torch.stack(out).view(len(qkv), -1)

    def keep(self, rows: Any) -> None:
        self._kept = [[layer[row] for row in rows.tolist()] for layer in self._kept]


def read_prompts(heads: Heads, layers: int) -> Prompts:
    kept = []
    for layer in range(layers):
        home = drawn(2, len(LENGTHS), heads.keys, 48, heads.size, seed=layer)
        home[:, :, :, max(LENGTHS) :] = 0
        kept.append(home)
    return Prompts(kept, torch.tensor(LENGTHS), drawn(len(LENGTHS), 4))


@pytest.mark.parametrize("most", [4, 8, 64])
@pytest.mark.parametrize("answers", [(3, 3, 3, 3, 3), (1, 1, 1, 1, 1), (4, 1, 9, 2, 3)])
@pytest.mark.parametrize("heads", [Heads(4, 2, 8), Heads(3, 3, 8), Heads(6, 1, 8)])
def test_shared_prompts_attend_as_copies_do(
    heads: Heads, answers: tuple[int, ...], most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answer_cache, "MOST_QUERIES", most)
    of = np.repeat(np.arange(len(LENGTHS)), answers)
    angle = drawn(max(LENGTHS) + LONGEST, heads.size // 2).float()
    angles = angle.cos(), angle.sin()
    slow = Copies(read_prompts(heads, 2), of, heads, angles)
    fast = AnswerCache(read_prompts(heads, 2), of, heads, angles, longest=LONGEST)
    width = (heads.queries + 2 * heads.keys) * heads.size
    rows = len(of)
    for step in range(LONGEST):
        fast.begin_step()
        for layer in range(2):
            qkv = drawn(rows, width, seed=2 * step + layer)
            made, expected = fast.attend(layer, qkv.clone()), slow.attend(layer, qkv)
            assert torch.allclose(made, expected, rtol=1e-6, atol=1e-9)
        fast.step += 1
        if step in (0, 6, 16) and rows > 2:  # some answers end, and all to the third prompt
            left = torch.from_numpy(np.flatnonzero((np.arange(rows) % 3 != 1) & (of != 2)))
            of = of[left.numpy()]
            for cache in (fast, slow):
                cache.keep(left)
            rows = len(left)


def test_groups_hold_rows_of_one_prompt() -> None:
    of = np.array([0, 0, 0, 2, 5, 5, 5, 5])
    groups = grouped(of, 2)
    assert groups.offsets.tolist() == [0, 2, 3, 4, 6, 8]
    assert groups.home.tolist() == [0, 0, 2, 5, 5]
    assert groups.places().tolist() == [0, 1, 2, 4, 6, 7, 8, 9]
    assert not groups.even
    assert grouped(of[4:], 2).even


def small_llama(**changes: Any) -> Any:
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        **{
            "vocab_size": 60,
            "hidden_size": 96,
            "intermediate_size": 80,
            "num_hidden_layers": 2,
            "num_attention_heads": 3,
            "num_key_value_heads": 1,
            "head_dim": 32,
        }
        | changes,
        max_position_embeddings=256,
        tie_word_embeddings=True,
        initializer_range=0.2,
    )
    return transformers.LlamaForCausalLM(config).eval().requires_grad_(False).to(DEVICE)


@pytest.mark.skipif(not find_spec("triton"), reason="needs Triton")
@pytest.mark.skipif(not ON_GPU and not INTERPRETED, reason="Triton was imported before")
@pytest.mark.parametrize("changes", [{}, {"num_attention_heads": 4, "num_key_value_heads": 2}])
def test_kernels_compute_what_torch_computes(
    changes: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(frozen_llama, "TOLERANCE", 1e-5)
    shared = SharedBackbone(Backbone("small", small_llama(**changes), None, 2, 256))
    llama = FrozenLlama(shared.backbone.model, use_kernels=False)
    assert llama.kernel_problems() == {"attention": "", "sampling": ""}


def test_kernels_that_fail_are_not_used(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    kernels = ModuleType("answer_kernels")
    monkeypatch.setattr(fleet, "answer_kernels", kernels, raising=False)
    installed = SimpleNamespace(util=SimpleNamespace(find_spec=lambda name: True))
    monkeypatch.setattr(frozen_llama, "importlib", installed)
    shared = SharedBackbone(Backbone("small", small_llama(), None, 2, 256))
    llama = FrozenLlama(shared.backbone.model, use_kernels=False)
    llama._embedding = SimpleNamespace(device=torch.device("cuda"), dtype=torch.float32)  # type: ignore[assignment]
    states = iter([torch.ones(3), torch.tensor([1, torch.nan, 1])] * 3)
    monkeypatch.setattr(FrozenLlama, "_answered", lambda self, most: next(states))
    monkeypatch.setattr(FrozenLlama, "_largest_gap", lambda self: 0.0)
    llama._check_kernels()
    assert llama.kernels is None and llama._finder is kernels
    assert "attention does not work here (it is off by nan%): using torch" in caplog.text
    monkeypatch.setattr(FrozenLlama, "_attention_gap", lambda self: 0.01)
    monkeypatch.setattr(FrozenLlama, "_largest_gap", lambda self: {}["a"])
    llama._check_kernels()
    assert llama.kernels is kernels and llama._finder is None
    assert "sampling does not work here (KeyError: 'a')" in caplog.text


@pytest.mark.parametrize(
    ("begins", "lengths", "expected"),
    [
        ([0, 0, 0, 0], [30, 29, 28, 27], 24),
        ([0, 0, 0, 0], [30, 29, 28, 24], 16),  # every prompt has a token of its own
        ([0, 1, 2, 3], [30, 29, 28, 27], 0),
        ([0, 0, 1, 1], [90, 90, 28, 27], 24),
        ([0, 0, 1, 2], [90, 90, 90, 90], 0),  # too little to save
    ],
)
def test_common_starts_are_found(begins: list[int], lengths: list[int], expected: int) -> None:
    rng = np.random.default_rng(0)
    table = rng.integers(0, 50, (len(begins), max(lengths)))
    starts = rng.integers(0, 50, (4, 26))
    table[:, :26] = starts[begins]
    assert frozen_llama.common_start(table, np.array(lengths)) == expected


@pytest.mark.parametrize("hashed", [True, False])
def test_different_rows_are_found_even_if_hashes_are_equal(
    hashed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = np.array([[1, 2], [3, 4], [1, 2], [1, 4], [3, 4]])
    if not hashed:
        monkeypatch.setattr(frozen_llama, "_hashes", lambda table: [np.zeros(5, dtype=np.uint64)])
    first, which = frozen_llama.distinct_rows(table)
    assert sorted(first.tolist()) == [0, 1, 3]
    assert np.array_equal(table[first][which], table)
