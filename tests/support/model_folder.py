"""A model folder that the tests write themselves: random weights, a tiny vocabulary."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "i", "took", "mg", "at", "it", "works"]
MODULES = [
    {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
    {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
]


def write_model(folder: Path, width: int = 16) -> Path:
    """Write a sentence-transformers folder with a one-layer BERT that averages its tokens."""
    pytest.importorskip("sentence_transformers")
    import torch
    from transformers import BertConfig, BertModel, BertTokenizerFast

    torch.manual_seed(0)
    (folder / "1_Pooling").mkdir(parents=True)
    letters = [*"abcdefghijklmnopqrstuvwxyz0123456789.!,"]
    vocabulary = [*WORDS, *letters, *(f"##{x}" for x in letters)]
    (folder / "vocab.txt").write_text("\n".join(vocabulary))
    BertTokenizerFast(vocab_file=str(folder / "vocab.txt")).save_pretrained(folder)
    config = BertConfig(
        vocab_size=len(vocabulary),
        hidden_size=width,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=64,
    )
    BertModel(config).save_pretrained(folder)
    pooling = {"word_embedding_dimension": width, "pooling_mode_mean_tokens": True}
    for name, content in (
        ("modules.json", MODULES),
        ("sentence_bert_config.json", {"max_seq_length": 48, "do_lower_case": False}),
        ("1_Pooling/config.json", pooling),
    ):
        (folder / name).write_text(json.dumps(content))
    return folder
