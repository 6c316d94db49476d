"""Which Llamas are written out, and their weights stacked."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from synthleak.releases.lm.backbone import Backbone  # noqa: E402
from synthleak.releases.lm.fleet import packed_model  # noqa: E402
from synthleak.releases.lm.fleet.adapters import stacked  # noqa: E402
from synthleak.releases.lm.fleet.packed_model import packable, tile_of  # noqa: E402
from synthleak.releases.lm.fleet.shared_backbone import SharedBackbone  # noqa: E402


def small_config(**changes: Any) -> Any:
    sides = {
        "vocab_size": 60,
        "hidden_size": 96,
        "intermediate_size": 64,
        "num_hidden_layers": 1,
        "num_attention_heads": 3,
        "num_key_value_heads": 1,
        "head_dim": 32,
    }
    return transformers.LlamaConfig(**sides | changes)


class LlamaForCausalLM:
    """As much of a model on a GPU as `packable` looks at."""

    device = torch.device("cuda")

    def __init__(self, config: Any) -> None:
        self.config = config


class OtherForCausalLM(LlamaForCausalLM):
    """Another decoder with the same sides."""


@pytest.fixture
def with_triton(monkeypatch: pytest.MonkeyPatch) -> None:
    installed = SimpleNamespace(util=SimpleNamespace(find_spec=lambda name: True))
    monkeypatch.setattr(packed_model, "importlib", installed)


@pytest.mark.parametrize(
    ("changes", "rank"),
    [
        ({"attention_bias": True}, 16),
        ({"mlp_bias": True}, 16),
        ({"hidden_act": "gelu"}, 16),
        ({"hidden_size": 48}, 16),
        ({"intermediate_size": 80}, 16),
        ({"head_dim": 16, "num_attention_heads": 2, "num_key_value_heads": 2}, 16),
        ({}, 3),
    ],
)
def test_other_sides_take_the_plain_pass(
    changes: dict[str, Any], rank: int, with_triton: None
) -> None:
    assert packable(LlamaForCausalLM(small_config()), 16)
    assert not packable(LlamaForCausalLM(small_config(**changes)), rank)


def test_packing_needs_a_llama_a_gpu_and_triton(
    with_triton: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = LlamaForCausalLM(small_config())
    assert packable(model, 16)
    assert not packable(OtherForCausalLM(small_config()), 16)
    monkeypatch.setattr(model, "device", torch.device("cpu"), raising=False)
    assert not packable(model, 16)
    monkeypatch.undo()
    missing = SimpleNamespace(util=SimpleNamespace(find_spec=lambda name: None))
    monkeypatch.setattr(packed_model, "importlib", missing)
    assert not packable(model, 16)


def test_a_tile_divides_all_sides() -> None:
    assert tile_of(small_config()) == 32
    assert tile_of(small_config(hidden_size=192, head_dim=64)) == 64
    assert tile_of(small_config(intermediate_size=80)) == 0


def test_weights_are_stacked_once() -> None:
    torch.manual_seed(0)
    model = transformers.LlamaForCausalLM(small_config()).eval().requires_grad_(False)
    shared = SharedBackbone(Backbone("small", model, None, 2, 256))
    mlp = shared.backbone.model.model.layers[0].mlp
    expected = torch.cat([mlp.gate_proj.weight, mlp.up_proj.weight])
    first = stacked([mlp.gate_proj, mlp.up_proj])
    again = stacked([mlp.gate_proj, mlp.up_proj])
    assert torch.equal(first, expected) and torch.equal(again, expected)
    assert again.data_ptr() == first.data_ptr() == mlp.gate_proj.weight.data_ptr()
    assert torch.equal(stacked([mlp.up_proj, mlp.gate_proj]), expected.roll(len(expected) // 2, 0))
    attention = shared.backbone.model.model.layers[0].self_attn
    apart = [attention.q_proj, attention.v_proj]
    expected = torch.cat([layer.weight for layer in apart])
    stacked([attention.q_proj, attention.k_proj, attention.v_proj])
    assert torch.equal(stacked(apart), expected)
