"""Stores keep whole artefacts or nothing."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path

import pytest

from synthleak.core.errors import StoreError
from synthleak.core.store import FolderStore, MemoryStore, StagedStore, Store, keep, name_of


@pytest.fixture(params=["folder", "memory", "staged"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    made: dict[str, Callable[[], Store]] = {
        "folder": lambda: FolderStore(tmp_path / "store"),
        "memory": MemoryStore,
        "staged": lambda: StagedStore(MemoryStore()),
    }
    return made[request.param]()


def test_what_is_put_can_be_got_and_listed(store: Store) -> None:
    assert not store.exists("a/1")
    with pytest.raises(KeyError):
        store.get("a/1")
    store.put("a/1", b"one")
    store.put("a/2", b"two")
    store.put("b/1", b"three")
    store.put("a/1", b"one again")
    assert store.get("a/1") == b"one again"
    assert list(store.list("a/")) == ["a/1", "a/2"]
    assert list(store.list("")) == ["a/1", "a/2", "b/1"]
    assert list(store.list("c/")) == []


def test_keep_makes_once(store: Store) -> None:
    made: list[int] = []

    def make() -> str:
        made.append(1)
        return "pool"

    for _ in range(2):
        assert keep(store, "pool", "k", make, str.encode, bytes.decode) == "pool"
    assert made == [1]


def test_a_damaged_artefact_is_named(store: Store) -> None:
    store.put(name_of("pool", "k"), b"\xff")
    with pytest.raises(StoreError, match=r"pool/k\.json is damaged.*delete that file"):
        keep(store, "pool", "k", str, str.encode, bytes.decode)


def test_staged_writes_reach_the_store_below_only_on_commit() -> None:
    below = MemoryStore()
    below.put("x", b"old")
    staged = StagedStore(below)
    staged.put("y", b"new")
    assert staged.get("x") == b"old"
    assert staged.exists("y") and not below.exists("y")
    staged.commit()
    assert below.get("y") == b"new"


def test_a_full_disk_leaves_nothing_half_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = FolderStore(tmp_path)

    def full(self: Path, target: Path) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(StoreError, match="the disk is full; free some space"):
        store.put("a/1", b"data")
    assert list(store.list("")) == []
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
