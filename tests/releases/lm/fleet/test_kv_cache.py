"""Decoding with room to grow and shared heads against the library's own attention."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from transformers.integrations.sdpa_attention import sdpa_attention_forward  # noqa: E402

from synthleak.releases.lm.fleet.kv_cache import BLOCK, PreallocatedLayer, grouped_attention  # noqa: E402


def drawn(*shape: int) -> Any:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("groups", [1, 2, 6])
@pytest.mark.parametrize("masked", [False, True])
def test_single_position_attention_equals_the_library(groups: int, masked: bool) -> None:
    query, key, value = drawn(4, 6, 1, 8), drawn(4, groups, 9, 8), drawn(4, groups, 9, 8).flip(0)
    mask = None
    if masked:
        mask = torch.ones(4, 1, 1, 9, dtype=torch.bool)
        mask[1, :, :, :4] = mask[2, :, :, :8] = False
    module: Any = SimpleNamespace(num_key_value_groups=6 // groups, is_causal=True)
    for scaling in (None, 0.7):
        expected, _ = sdpa_attention_forward(module, query, key, value, mask, scaling=scaling)
        made, _ = grouped_attention(module, query, key, value, mask, scaling=scaling)
        assert made.shape == expected.shape == (4, 1, 6, 8)
        assert torch.allclose(made, expected, rtol=1e-6, atol=1e-7)


def test_float_mask_is_added_and_not_changed() -> None:
    query, key, value = drawn(4, 1, 1, 8), drawn(4, 1, 9, 8), drawn(4, 1, 9, 8).flip(0)
    mask = torch.zeros(4, 1, 1, 9, dtype=torch.float64)
    mask[1, :, :, :4] = -torch.inf
    mask[2, :, :, 5] = 0.3
    before = mask.clone()
    module: Any = SimpleNamespace(num_key_value_groups=1, is_causal=True)
    expected, _ = sdpa_attention_forward(module, query, key, value, mask)
    made, _ = grouped_attention(module, query, key, value, mask)
    assert torch.allclose(made, expected, rtol=1e-6, atol=1e-7)
    assert torch.equal(mask, before)


@pytest.mark.parametrize("ahead", [1, 5, BLOCK + 9, 3 * BLOCK])
def test_cache_shows_whole_blocks_and_selected_rows(ahead: int) -> None:
    layer, steps = PreallocatedLayer(ahead), drawn(BLOCK + 9, 3, 2, 1, 4)
    first, _ = layer.update(drawn(3, 2, 5, 4), -drawn(3, 2, 5, 4))
    first = first.clone()
    for number, step in enumerate(steps):
        announced, _ = layer.get_mask_sizes(1)
        seen, _ = layer.update(step, -step)
        assert layer.get_seq_length() == layer.keys.shape[2] == 6 + number
        assert seen.shape[2] == announced and announced % BLOCK == 0
        assert torch.equal(seen[:, :, : 6 + number], layer.keys)
        assert not seen[:, :, 6 + number :].any()
    keys = layer.keys.clone()
    assert torch.equal(keys, torch.cat([first, *steps], dim=2))
    assert torch.equal(layer.values, -keys)
    layer.batch_select_indices(torch.tensor([2, 0]))
    assert torch.equal(layer.keys, keys[[2, 0]])
    layer.update(steps[0][:2], steps[0][:2])
    assert torch.equal(layer.keys, torch.cat([keys[[2, 0]], steps[0][:2]], dim=2))
    layer.forget()
    assert layer.get_seq_length() == 0


def test_a_prompt_is_read_without_blocks() -> None:
    layer = PreallocatedLayer()
    assert layer.get_mask_sizes(5) == (5, 0)
    keys, _ = layer.update(drawn(3, 2, 5, 4), drawn(3, 2, 5, 4))
    assert keys.shape[2] == 5
    assert layer.get_mask_sizes(2) == (7, 0)
