"""Stores keep whole artefacts or nothing."""

from __future__ import annotations

import errno
import gzip
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from synthleak.core.errors import Damaged, StoreError
from synthleak.core.locations import Url
from synthleak.core.store import (
    FolderStore,
    MemoryStore,
    StagedStore,
    Store,
    UrlStore,
    damaged_in,
    fetch,
    keep,
    name_of,
    unpacked,
    until_whole,
)


@pytest.fixture(params=["folder", "memory", "staged", "url"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    made: dict[str, Callable[[], Store]] = {
        "url": lambda: UrlStore(Url(f"memory://{tmp_path.name}/store")),
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


def test_a_damaged_artefact_is_named_and_made_again(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    store.put(name_of("pool", "k"), b"\xff")
    assert keep(store, "pool", "k", lambda: "made", str.encode, bytes.decode) == "made"
    assert caplog.messages == ["pool/k.json is damaged: it is made again"]
    assert store.get(name_of("pool", "k")) == b"made"
    store.put(name_of("pool", "k"), b"\xff")
    with pytest.raises(Damaged, match=r"pool/k\.json is damaged .*; run the audit again"):
        fetch(store, "pool", "k", bytes.decode)


def test_a_discarded_artefact_is_missing_until_it_is_put_again(store: Store) -> None:
    store.put("a/1", b"one")
    store.discard("a/1")
    assert not store.exists("a/1")
    store.put("a/1", b"one")
    assert store.exists("a/1")


def test_what_was_lost_is_told_from_what_was_never_put(tmp_path: Path) -> None:
    for store in (FolderStore(tmp_path), StagedStore(FolderStore(tmp_path))):
        store.discard("a/1")
        assert store.lost("a/1") and not store.lost("a/2")
        store.put("a/1", b"one")
        assert not store.lost("a/1")


def test_what_is_damaged_counts_as_missing_in_the_next_attempt(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store, name = FolderStore(tmp_path), name_of("pool", "k")
    store.put(name, b"\xff")
    attempts = 0
    for attempt in until_whole(store):
        attempts += 1
        with attempt:
            if not store.exists(name):
                store.put(name, b"made")
            assert fetch(store, "pool", "k", bytes.decode) == "made"
    assert attempts == 2 and caplog.messages == [f"{name} is damaged: it is made again"]
    with pytest.raises(Damaged):  # made again, and damaged again
        for attempt in until_whole(store):
            with attempt:
                raise Damaged(name)


def test_what_another_process_puts_again_is_no_longer_discarded(tmp_path: Path) -> None:
    here, there = FolderStore(tmp_path), FolderStore(tmp_path)
    here.put("a/1", b"one")
    here.discard("a/1")
    there.put("a/1", b"one")
    assert here.exists("a/1")


def test_a_packed_artefact_is_unpacked_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    bomb = gzip.compress(bytes(4_000_000))
    assert len(unpacked(bomb)) == 4_000_000
    monkeypatch.setenv("SYNTHLEAK_MAX_FILE_MB", "1")
    for data in (bomb, gzip.compress(b"cut off")[:-3], b"no gzip"):
        store = MemoryStore()
        store.put(name_of("text", "k"), data)
        with pytest.raises(Damaged):
            fetch(store, "text", "k", unpacked)


@pytest.mark.parametrize("data", [b"", b"{}", b"\x00" * 300, b"x" * 73])
def test_every_flipped_or_cut_byte_is_noticed(tmp_path: Path, data: bytes) -> None:
    store = FolderStore(tmp_path)
    store.put("a/1", data)
    written = (tmp_path / "a/1").read_bytes()
    for place in range(len(written)):
        for bit in (1, 0x20, 0x80):
            flipped = bytearray(written)
            flipped[place] ^= bit
            (tmp_path / "a/1").write_bytes(flipped)
            with pytest.raises(Damaged):
                store.get("a/1")
    for cut in range(1, 65):
        (tmp_path / "a/1").write_bytes(written[:-cut])
        with pytest.raises(Damaged):
            store.get("a/1")
    (tmp_path / "a/1").write_bytes(written)
    assert store.get("a/1") == data and damaged_in(store) == []
    (tmp_path / "a/2").write_bytes(written)  # whole, but of another name
    assert damaged_in(store) == ["a/2"]


def test_what_costs_most_to_make_waits_for_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", synced.append)
    store = FolderStore(tmp_path)
    for kind in ("release", "text", "answers"):
        store.put(name_of(kind, "k"), b"{}")
    assert len(synced) == 6
    store.put(name_of("evidence", "k"), b"{}")
    assert len(synced) == 6


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
