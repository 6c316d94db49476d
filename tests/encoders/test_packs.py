"""A text is encoded once per encoder, ever: across calls, stores reopened, and processes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from synthleak.core.errors import ContractError
from synthleak.core.store import FolderStore, MemoryStore, StagedStore, Store
from synthleak.encoders import Encoder, Vectors
from synthleak.encoders import encoder as encoder_module
from synthleak.encoders.builtin.hashing import Hashing
from synthleak.encoders.encoder import encode_once, packs_of


class Counting(Encoder):
    """Writes down what it is asked to encode."""

    asked: ClassVar[list[str]] = []
    kind: ClassVar[str] = "counting"
    salt: int = 0

    def encode(self, texts: Sequence[str]) -> Vectors:
        self.asked.extend(texts)
        rows = [[len(text), text.count("a") + self.salt] for text in texts]
        return np.array(rows, dtype=np.float32).reshape(-1, 2)


@pytest.fixture(autouse=True)
def forget() -> None:
    Counting.asked.clear()
    packs_of.cache_clear()


def encode(texts: Sequence[str], store: Store, **settings: Any) -> list[list[float]]:
    return encode_once(Counting(**settings), texts, store).tolist()


def test_each_text_once_and_in_order() -> None:
    store = MemoryStore()
    assert encode(["aa", "b", "aa"], store) == [[2, 2], [1, 0], [2, 2]]
    assert encode(["ccc", "b", "aa"], store) == [[3, 0], [1, 0], [2, 2]]
    assert encode(["b"], store) == [[1, 0]]
    assert Counting.asked == ["aa", "b", "ccc"]


def test_a_store_opened_again_still_knows(tmp_path: Path) -> None:
    encode(["aa", "b"], FolderStore(tmp_path))
    assert encode(["b", "ccc", "aa"], FolderStore(tmp_path)) == [[1, 0], [3, 0], [2, 2]]
    assert Counting.asked == ["aa", "b", "ccc"]


def test_packs_that_another_process_put_are_noticed(tmp_path: Path) -> None:
    here, there = FolderStore(tmp_path), FolderStore(tmp_path)
    encode(["aa"], here)
    encode(["b"], there)
    encode(["aa", "b"], here)
    assert Counting.asked == ["aa", "b"]


def test_uncommitted_vectors_are_found(tmp_path: Path) -> None:
    below = FolderStore(tmp_path)
    staged = StagedStore(below)
    encode(["aa"], staged)
    encode(["aa"], staged)
    assert list(below.list("")) == []
    staged.commit()
    encode(["aa"], below)
    assert Counting.asked == ["aa"]


def test_encoders_do_not_share_vectors() -> None:
    store = MemoryStore()
    assert encode(["aa"], store) != encode(["aa"], store, salt=1)
    assert Counting.asked == ["aa", "aa"]


def test_long_calls_are_kept_pack_by_pack(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoder_module, "_PACK", 3)
    store = MemoryStore()
    texts = ["a" * n for n in range(8)]
    expected = [[n, n] for n in range(8)]
    assert encode(texts, store) == expected
    assert len(list(store.list("vectors/"))) == 2 * 3
    assert encode(texts[::-1], store) == expected[::-1]


def test_more_packs_than_are_held_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("synthleak.encoders.encoder._OPEN_PACKS", 2)
    store = MemoryStore()
    for n in range(6):
        encode(["a" * n], store)
    assert encode(["a" * n for n in range(6)], store) == [[n, n] for n in range(6)]
    assert len(Counting.asked) == 6


def test_a_cheap_encoder_stores_nothing() -> None:
    store = MemoryStore()
    encode_once(Hashing(), ["aa", "b"], store)
    assert list(store.list("")) == []


def test_no_text_gives_no_row() -> None:
    assert encode_once(Counting(), [], MemoryStore()).shape == (0, 2)


def test_a_pack_without_keys_was_not_finished(tmp_path: Path) -> None:
    encode(["aa"], FolderStore(tmp_path))
    next(tmp_path.rglob("*.keys")).unlink()
    encode(["aa"], FolderStore(tmp_path))
    assert Counting.asked == ["aa", "aa"]


@pytest.mark.parametrize("ending", ["npy", "keys"])
@pytest.mark.parametrize("again", [["aa"], ["aa", "b"]])
def test_a_damaged_pack_is_named_and_encoded_again(
    tmp_path: Path, ending: str, again: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    encode(["aa", "ccc"], FolderStore(tmp_path))
    path = next(tmp_path.rglob(f"*.{ending}"))
    damaged = bytearray(path.read_bytes())
    damaged[5] ^= 1
    path.write_bytes(damaged)
    expected = [[len(text), text.count("a")] for text in again]
    assert encode(again, FolderStore(tmp_path)) == expected
    (line,) = caplog.messages
    assert line.startswith("vectors/") and line.endswith(f".{ending} is damaged: it is made again")
    asked = list(Counting.asked)
    assert encode(again, FolderStore(tmp_path)) == expected
    assert Counting.asked == asked and len(caplog.messages) == 1


@pytest.mark.parametrize(
    "vectors",
    [
        np.zeros((2, 3), dtype=np.float64),
        np.zeros(2, dtype=np.float32),
        np.zeros((1, 3), dtype=np.float32),
        np.full((2, 3), np.nan, dtype=np.float32),
    ],
    ids=["double", "flat", "short", "nan"],
)
def test_an_encoder_that_breaks_its_contract_is_refused(vectors: Any) -> None:
    class Broken(Encoder):
        """Gives what it should not."""

        def encode(self, texts: Sequence[str]) -> Vectors:
            return vectors  # type: ignore[no-any-return]

    store = MemoryStore()
    with pytest.raises(ContractError, match="the encoder"):
        encode_once(Broken(), ["x", "y"], store)
    assert list(store.list("")) == []
