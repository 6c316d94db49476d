"""What prompts begin with alike, so that it is read once for all of them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from synthleak.releases.lm.fleet.kv_cache import BLOCK

WORTH = 8
"""What prompts begin with is read once if that saves one token in this many."""


def common_start(table: NDArray[np.int64], lengths: NDArray[np.int64]) -> int:
    """Return how many first tokens of prompts to read once for all that begin with them.

    That is as many as save most, or 0 if they save little; a prompt has a token of its own.
    """
    best, most = 0, int(lengths.sum()) // WORTH
    for place, mixed in enumerate(_hashes(table[:, : int(lengths.min()) - 1]), 1):
        if place % (BLOCK // 2) == 0:
            saved = (len(table) - len(np.unique(mixed))) * place
            if saved > most:
                best, most = place, saved
    return best


def _hashes(table: NDArray[np.int64]) -> Iterator[NDArray[np.uint64]]:
    """Yield a hash of the first tokens of every row: of one, of two, and so on."""
    mixed = np.zeros(len(table), dtype=np.uint64)
    for column in table.T.astype(np.uint64):
        mixed = (mixed ^ column) * np.uint64(0x9E3779B97F4A7C15)
        mixed ^= mixed >> np.uint64(29)
        yield mixed


def distinct_rows(table: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return where each different row is first, and for every row its number among them."""
    *_, mixed = _hashes(table)
    _, first, which = np.unique(mixed, return_index=True, return_inverse=True)
    if not np.array_equal(table[first][which], table):  # two rows with one hash
        _, first, which = np.unique(table, axis=0, return_index=True, return_inverse=True)
    return first, which.reshape(-1)
