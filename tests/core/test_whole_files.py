"""A file is written whole, or nothing of it is left."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from synthleak.core.whole_files import write_whole


def test_a_file_is_on_the_disk_before_it_has_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[list[str]] = []
    monkeypatch.setattr(
        os,
        "fsync",
        lambda handle: synced.append(sorted(p.name for p in tmp_path.iterdir())),
    )
    write_whole(tmp_path / "file", b"data")
    assert len(synced) == 2 and "file" not in synced[0] and synced[1] == ["file"]


@pytest.mark.parametrize("nameless", [True, False])
def test_a_file_of_another_name_is_never_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nameless: bool
) -> None:
    if nameless and not hasattr(os, "O_TMPFILE"):
        pytest.skip("this system has no files without a name")
    if not nameless:
        monkeypatch.delattr(os, "O_TMPFILE", raising=False)
    seen: list[list[str]] = []

    def stop(handle: int) -> None:
        seen.append([path.suffix for path in tmp_path.iterdir()])
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", stop)
    with pytest.raises(KeyboardInterrupt):
        write_whole(tmp_path / "file", b"data")
    assert seen == [[] if nameless else [".part"]]
    assert list(tmp_path.iterdir()) == []
    write_whole(tmp_path / "file", b"one", durable=False)
    write_whole(tmp_path / "file", b"two", durable=False)
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"two"]
    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o600


def test_a_device_or_a_folder_is_not_replaced_by_a_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    (tmp_path / "device").symlink_to("/dev/null")
    (tmp_path / "output").symlink_to("/proc/self/fd/1")
    before = {path: path.lstat().st_ino for path in tmp_path.iterdir()}
    for path in before:
        with pytest.raises(OSError, match="not a regular file"):
            write_whole(path, b"data")
    assert {path: path.lstat().st_ino for path in tmp_path.iterdir()} == before
    (tmp_path / "other").write_bytes(b"of somebody else")
    (tmp_path / "link").symlink_to("other")
    write_whole(tmp_path / "link", b"data")  # a link goes, what it names stays
    assert (tmp_path / "other").read_bytes() == b"of somebody else"
    assert (tmp_path / "link").read_bytes() == b"data"
