"""`static`: the mean of WordLlama's token vectors; fast, the default (docs/method.md §2)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from synthleak.core.errors import MissingExtra
from synthleak.encoders import Encoder, Vectors, encoders
from synthleak.encoders.encoder import package_folder

DIMENSIONS = 256
_WEIGHTS = "weights/l2_supercat_256.safetensors"
_TOKENIZER = "tokenizers/l2_supercat_tokenizer_config.json"
_CHUNK = 4096


@encoders.register("static", version=1)
class Static(Encoder):
    """WordLlama's 256-d token vectors, averaged over a text: fast, no torch; the default."""

    @property
    def cheap(self) -> bool:
        """A look-up and a mean per token cost less than a file."""
        return True

    def check(self) -> None:
        _package_folder()

    def encode(self, texts: Sequence[str]) -> Vectors:
        """Return the mean token vector of each text (zero for an empty one).

        A product with a sparse matrix, whose row r has a 1 for every token of text r.
        """
        from scipy.sparse import csr_array

        _, table = _load()
        vectors = np.zeros((len(texts), DIMENSIONS), dtype=np.float32)
        for number, ids in enumerate(_token_ids(texts)):
            counts = np.fromiter(map(len, ids), np.int64, len(ids))
            ends = np.concatenate([[0], counts.cumsum()])
            tokens = np.fromiter(chain.from_iterable(ids), np.int32, ends[-1])
            ones = np.ones(len(tokens), dtype=np.float32)
            sums: Vectors = csr_array((ones, tokens, ends), shape=(len(ids), len(table))) @ table
            start = number * _CHUNK
            vectors[start : start + _CHUNK] = sums / np.maximum(counts, 1)[:, None]
        return vectors


def count_tokens(texts: Sequence[str]) -> NDArray[np.int64]:
    """Return how many tokens each text has, by this encoder's tokenizer."""
    return np.array([len(row) for ids in _token_ids(texts) for row in ids], dtype=np.int64)


def _token_ids(texts: Sequence[str]) -> Iterator[list[list[int]]]:
    """Yield the tokens of some texts at a time."""
    tokenizer, _ = _load()
    for start in range(0, len(texts), _CHUNK):
        part = list(texts[start : start + _CHUNK])
        yield [e.ids for e in tokenizer.encode_batch_fast(part, add_special_tokens=False)]


@lru_cache(maxsize=1)
def _load() -> tuple[Any, NDArray[np.float32]]:
    """Read the files that the wordllama package carries, without importing the package."""
    from safetensors.numpy import load_file
    from tokenizers import Tokenizer

    folder = _package_folder()
    tokenizer = Tokenizer.from_file(str(folder / _TOKENIZER))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    table = load_file(folder / _WEIGHTS)["embedding.weight"].astype(np.float32)
    return tokenizer, table


def _package_folder() -> Path:
    folder = package_folder("wordllama", _WEIGHTS, _TOKENIZER)
    if folder is None:
        raise MissingExtra(
            "the encoder 'static' needs the files that the package wordllama carries",
            remedy="pip install 'wordllama>=0.3.9'",
        )
    return folder
