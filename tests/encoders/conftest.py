"""A model folder that the tests write themselves: random weights, a tiny vocabulary."""

from __future__ import annotations

from pathlib import Path

import pytest

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "i", "took", "mg", "at", "it", "works"]


def write_model(folder: Path, seed: int = 0, max_length: int = 48) -> Path:
    """Write a sentence-transformers folder with a one-layer BERT."""
    pytest.importorskip("sentence_transformers")
    import torch
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.models import Pooling, Transformer
    from transformers import BertConfig, BertModel, BertTokenizerFast

    torch.manual_seed(seed)
    inner = folder.parent / f"{folder.name}-bert"
    inner.mkdir(parents=True)
    letters = [*"abcdefghijklmnopqrstuvwxyz0123456789.!,"]
    vocabulary = inner / "vocab.txt"
    vocabulary.write_text("\n".join([*WORDS, *letters, *(f"##{x}" for x in letters)]))
    BertTokenizerFast(vocab_file=str(vocabulary)).save_pretrained(inner)
    config = BertConfig(
        vocab_size=len(vocabulary.read_text().split("\n")),
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=64,
    )
    BertModel(config).save_pretrained(inner)
    words = Transformer(str(inner), max_seq_length=max_length)
    SentenceTransformer(modules=[words, Pooling(16)], device="cpu").save(str(folder))
    return folder


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a tiny model."""
    return write_model(tmp_path_factory.mktemp("models") / "tiny")
