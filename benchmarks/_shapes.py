"""Backbones of real shapes with random weights, for timings only."""

from __future__ import annotations

from typing import Any

import torch
import transformers

SHAPES: dict[str, dict[str, Any]] = {
    "1b": {
        "vocab_size": 128_256,
        "hidden_size": 2048,
        "intermediate_size": 8192,
        "num_hidden_layers": 16,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "head_dim": 64,
    },
    "smollm2": {
        "vocab_size": 49_152,
        "hidden_size": 576,
        "intermediate_size": 1536,
        "num_hidden_layers": 30,
        "num_attention_heads": 9,
        "num_key_value_heads": 3,
    },
    "tiny": {
        "vocab_size": 500,
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
    },
}


def build(shape: str, device: str, dtype: torch.dtype) -> Any:
    """Return a frozen Llama of a named shape."""
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        **SHAPES[shape], max_position_embeddings=512, tie_word_embeddings=True, eos_token_id=2
    )
    with torch.device(device):
        model = transformers.LlamaForCausalLM(config)
    return model.to(dtype).eval().requires_grad_(False)
