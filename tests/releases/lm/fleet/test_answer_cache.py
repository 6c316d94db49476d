"""Answers that share keys and values of their prompt against a copy of it for each answer."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from synthleak.releases.lm.fleet.frozen_llama import AnswerCache, Heads, Prompts, grouped  # noqa: E402

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


@pytest.mark.parametrize("answers", [(3, 3, 3, 3, 3), (1, 1, 1, 1, 1), (4, 1, 9, 2, 3)])
@pytest.mark.parametrize("heads", [Heads(4, 2, 8), Heads(3, 3, 8), Heads(6, 1, 8)])
def test_shared_prompts_attend_as_copies_do(heads: Heads, answers: tuple[int, ...]) -> None:
    of = np.repeat(np.arange(len(LENGTHS)), answers)
    angle = drawn(max(LENGTHS) + LONGEST, heads.size // 2).float()
    angles = angle.cos(), angle.sin()
    slow = Copies(read_prompts(heads, 2), of, heads, angles)
    fast = AnswerCache(read_prompts(heads, 2), of, heads, angles, longest=LONGEST)
    width = (heads.queries + 2 * heads.keys) * heads.size
    rows = len(of)
    for step in range(LONGEST):
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
