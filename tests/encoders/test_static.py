"""The default encoder against a plain mean over the token vectors of one text at a time."""

from __future__ import annotations

import numpy as np
import pytest

from synthleak.encoders.builtin import static
from synthleak.encoders.builtin.static import Static, count_tokens


def test_a_row_is_the_mean_of_its_token_vectors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(static, "_CHUNK", 3)
    texts = ["the the cat", "", "Ümläut und 漢字", "one", " ", "a longer text, with the cat again"]
    tokenizer, table = static._load()
    made = Static().encode(texts)
    for text, row, count in zip(texts, made, count_tokens(texts), strict=True):
        tokens = tokenizer.encode(text, add_special_tokens=False).ids
        mean = sum((table[token] for token in tokens), np.zeros(256, dtype=np.float32))
        assert count == len(tokens)
        assert np.array_equal(row, mean / np.float32(max(1, len(tokens))))
