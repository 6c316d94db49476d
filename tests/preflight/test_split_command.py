"""`synthleak split`: uniform, whole groups, nothing overwritten."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy
import pyarrow
import pytest

from support.command_line import assert_one_line_mistake, synthleak
from synthleak.core.errors import StoreError, UserError
from synthleak.preflight.split import split


def data_in(folder: Path, rows: list[dict[str, Any]]) -> Path:
    path = folder / "data.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def plain(count: int) -> list[dict[str, Any]]:
    return [{"id": f"r{n}", "text": f"text number {n}", "site": n % 3} for n in range(count)]


def ids(path: Path) -> list[str]:
    return [json.loads(line)["id"] for line in path.read_text("utf-8").splitlines()]


def test_every_record_is_on_one_side(tmp_path: Path) -> None:
    data = data_in(tmp_path, plain(200))
    made = split(data, tmp_path / "split", holdout=0.3, reference=0.2, seed=1)
    sides = {n: ids(tmp_path / "split" / f"{n}.jsonl") for n in ("members", "holdout", "reference")}
    assert {n: len(side) for n, side in sides.items()} == {
        "members": 100,
        "holdout": 60,
        "reference": 40,
    }
    everybody = [name for side in sides.values() for name in side]
    assert sorted(everybody) == sorted(f"r{n}" for n in range(200))
    recorded = json.loads((tmp_path / "split" / "split.json").read_text("utf-8"))
    assert recorded["seed"] == 1 == made.seed
    row = json.loads((tmp_path / "split" / "members.jsonl").read_text("utf-8").splitlines()[0])
    assert set(row) == {"id", "text", "site"}


def test_seed_repeats_a_split_and_places_do_not_matter(tmp_path: Path) -> None:
    data = data_in(tmp_path, plain(100))
    one, two, three = (tmp_path / name for name in ("one", "two", "three"))
    for folder, seed in ((one, 4), (two, 4), (three, 5)):
        split(data, folder, seed=seed)
    assert ids(one / "holdout.jsonl") == ids(two / "holdout.jsonl") != ids(three / "holdout.jsonl")
    held = Counter(
        name
        for seed in range(60)
        for name in ids_after(split(data, tmp_path / f"s{seed}", seed=seed), tmp_path, seed)
    )
    assert min(held.values()) > 10 and max(held.values()) < 50, "some record has a fixed side"


def ids_after(_: object, folder: Path, seed: int) -> list[str]:
    return ids(folder / f"s{seed}" / "holdout.jsonl")


def test_groups_stay_whole(tmp_path: Path) -> None:
    rows = [{**row, "patient": f"p{n // 7}"} for n, row in enumerate(plain(210))]
    made = split(data_in(tmp_path, rows), tmp_path / "split", group="patient", seed=2)
    members, holdout = (
        {f"p{int(name[1:]) // 7}" for name in ids(tmp_path / "split" / f"{side}.jsonl")}
        for side in ("members", "holdout")
    )
    assert not members & holdout and len(members | holdout) == made.groups == 30


def test_repeated_texts_are_left_out_and_counted(tmp_path: Path) -> None:
    rows = [*plain(60), {"id": "again", "text": "TEXT  number 5"}]
    made = split(data_in(tmp_path, rows), tmp_path / "split", seed=3)
    sides = [*ids(tmp_path / "split" / "members.jsonl"), *ids(tmp_path / "split" / "holdout.jsonl")]
    assert made.repeated == 1 and "again" not in sides and "r5" in sides


def test_split_is_never_overwritten(tmp_path: Path) -> None:
    data = data_in(tmp_path, plain(60))
    split(data, tmp_path / "split", seed=1)
    with pytest.raises(StoreError, match="must not be overwritten"):
        split(data, tmp_path / "split", seed=1)


def test_too_few_records_and_too_large_shares_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="too few records as members: 15;"):
        split(data_in(tmp_path, plain(30)), tmp_path / "split")
    with pytest.raises(UserError, match="leave no members"):
        split(data_in(tmp_path, plain(60)), tmp_path / "split", holdout=0.6, reference=0.4)
    assert not (tmp_path / "split").exists()


def test_command_line_names_the_next_step(tmp_path: Path) -> None:
    rows = [{"id": n, "body": f"text {n}"} for n in range(80)]
    data_in(tmp_path, rows)
    done = synthleak("split", "data.jsonl", "--out", "s", "--text", "body", cwd=tmp_path)
    assert done.returncode == 0
    assert done.stdout.startswith("40 members, 40 held back\n")
    assert "--holdout s/holdout.jsonl --text body --release SYNTHETIC" in done.stdout
    wrong = synthleak("split", "data.jsonl", "--out", "t", "--text", "words", cwd=tmp_path)
    assert_one_line_mistake(wrong, "words")
    wrong = synthleak(
        "split", "data.jsonl", "--out", "t", "--text", "body", "--group", "patient", cwd=tmp_path
    )
    assert_one_line_mistake(wrong, "no record has the field 'patient'; set --group", "id, body")
    assert not (tmp_path / "t").exists()


def test_demo_writes_its_records(tmp_path: Path) -> None:
    done = synthleak("demo", "--records", "records.jsonl", cwd=tmp_path)
    assert done.stdout == "wrote 1,200 invented records to records.jsonl\n"
    assert len(ids(tmp_path / "records.jsonl")) == 1200
    again = synthleak("demo", "--records", "records.jsonl", cwd=tmp_path)
    assert_one_line_mistake(again, "already exists")


class Dataset:
    """What synthleak uses of a `datasets.Dataset`."""

    def __init__(self, rows: list[dict[str, Any]]) -> None:
        self.rows, self.features = rows, rows[:1]

    def to_list(self) -> list[dict[str, Any]]:
        return self.rows

    def select(self, positions: list[int]) -> Dataset:
        return Dataset([self.rows[n] for n in positions])


def _kinds() -> dict[str, tuple[Any, Any]]:
    """Return the same records as every kind of data, each with how its texts are read."""
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    rows = plain(60)
    table = pyarrow.Table.from_pylist(rows)
    return {
        "texts": ([row["text"] for row in rows], list),
        "dicts": (rows, lambda part: [row["text"] for row in part]),
        "pandas": (pandas.DataFrame(rows, index=range(100, 160)), lambda part: list(part["text"])),
        "pandas column": (pandas.DataFrame(rows)["text"], list),
        "polars": (polars.DataFrame(rows), lambda part: part["text"].to_list()),
        "polars column": (polars.DataFrame(rows)["text"], list),
        "array": (numpy.array([row["text"] for row in rows]), list),
        "Arrow": (table, lambda part: part["text"].to_pylist()),
        "Arrow column": (table["text"], lambda part: part.to_pylist()),
        "datasets": (Dataset(rows), lambda part: [row["text"] for row in part.rows]),
    }


def test_data_of_every_kind_are_split_alike() -> None:
    drawn = {}
    for kind, (data, texts) in _kinds().items():
        parts = split(data, holdout=0.4, seed=7)
        assert type(parts.members) is type(data)
        drawn[kind] = (texts(parts.members), texts(parts.holdout))
    first = drawn["dicts"]
    assert len(first[0]) == 36 and all(other == first for other in drawn.values())


def test_what_can_be_read_once_is_split_too() -> None:
    rows = plain(60)
    assert split(iter(rows), seed=7).members == split(rows, seed=7).members


def test_a_split_in_memory_is_that_of_the_command(tmp_path: Path) -> None:
    data = data_in(tmp_path, plain(60))
    split(data, tmp_path / "one", seed=3)
    parts = split(str(data), tmp_path / "two", seed=3)
    assert ids(tmp_path / "one" / "members.jsonl") == [row["id"] for row in parts.members]
    assert ids(tmp_path / "two" / "holdout.jsonl") == [row["id"] for row in parts.holdout]


def test_parts_of_a_saved_dataset_are_named(tmp_path: Path) -> None:
    for part in ("test", "train"):
        folder = tmp_path / "saved" / part
        folder.mkdir(parents=True)
        (folder / "data-00000-of-00001.arrow").write_bytes(b"")
    with pytest.raises(UserError, match="holds several parts: test, train; name one of them"):
        split(tmp_path / "saved")
    with pytest.raises(UserError, match=r"a dict holds several parts \(train, test\); give one"):
        split({"train": plain(60), "test": plain(60)})
