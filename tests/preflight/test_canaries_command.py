"""`synthleak canaries`: nothing but membership depends on a coin, and `check --coins` reads it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import synthleak
from synthleak.core.errors import StoreError, UserError
from synthleak.core.seeds import stream
from synthleak.preflight.split import CanariesWritten, canaries
from synthleak.testing import tiny_corpus

RECORDS = tiny_corpus(900).records


def rows_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def data_in(folder: Path) -> Path:
    rows = [{"id": r.id, "text": r.text, "labels": list(r.labels), "site": "A"} for r in RECORDS]
    path = folder / "data.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def write(folder: Path, **settings: Any) -> CanariesWritten:
    settings = {"size": 30, "words": 10, "prefix": 0.7, "seed": 5, **settings}
    return canaries(data_in(folder), folder / "out", **settings)


def test_files_agree_with_the_recorded_coins(tmp_path: Path) -> None:
    made = write(tmp_path)
    out = tmp_path / "out"
    recorded = json.loads((out / "coins.json").read_text("utf-8"))
    members, holdout = (rows_of(out / f"{name}.jsonl") for name in ("members", "holdout"))
    train = rows_of(out / "train.jsonl")
    assert {row["id"] for row in members} == {n for n, coin in recorded["coins"].items() if coin}
    assert len(members) + len(holdout) == 30 == made.members + made.holdout
    assert [row for row in train if row in members] and not [row for row in train if row in holdout]
    others = [row for row in train if row not in members]
    reference = rows_of(out / "reference.jsonl")
    assert len(others) + len(reference) == len(RECORDS) and others[0]["site"] == "A"
    assert len(train) == made.trained and (out / "coins.json").stat().st_mode & 0o077 == 0


def test_texts_and_places_do_not_depend_on_coins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    write(tmp_path / "one")

    def other(*name: Any) -> Any:
        return stream(*name, "others") if name[1] == "coins" else stream(*name)

    monkeypatch.setattr("synthleak.preflight.split.stream", other)
    write(tmp_path / "two")

    def everybody(folder: Path) -> list[str]:
        both = rows_of(folder / "out/members.jsonl") + rows_of(folder / "out/holdout.jsonl")
        return sorted(row["text"] for row in both)

    def without(folder: Path) -> list[str]:
        return [r["id"] for r in rows_of(folder / "out/train.jsonl") if "canary" not in r["id"]]

    one, two = tmp_path / "one", tmp_path / "two"
    assert everybody(one) == everybody(two) and without(one) == without(two)
    assert rows_of(one / "out/members.jsonl") != rows_of(two / "out/members.jsonl")


def test_seeds_differ_unless_one_is_given(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    assert write(tmp_path / "one", seed=None).seed != write(tmp_path / "two", seed=None).seed


def test_coins_are_never_overwritten(tmp_path: Path) -> None:
    write(tmp_path)
    with pytest.raises(StoreError, match="not empty"):
        write(tmp_path)


def test_too_many_canaries_are_refused_and_nothing_is_written(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="too many for 810 records"):
        write(tmp_path, size=400, words=2, prefix=0.5)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("few", [60, 900])
def test_the_size_that_an_error_advises_fits(tmp_path: Path, few: int) -> None:
    texts = [record.text for record in RECORDS[:few]]
    for seed in range(6):
        with pytest.raises(UserError, match=r"400 canaries .* too many") as refused:
            canaries(texts, tmp_path / "out", size=400, seed=seed)
        size = int(refused.value.remedy.removeprefix("use at most "))
        made = canaries(texts, tmp_path / f"other-{seed}", size=size, seed=seed + 100)
        assert made.members + made.holdout == size


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"fields": {"text": "id"}}, "two of id, text and labels are the field 'id'"),
        ({"fields": {"id": "labels"}}, "two of id, text and labels are the field 'labels'"),
        ({"fields": {"text": "group"}}, "group and text name the same field"),
        ({"fields": {"text": "body"}}, "line 1: no field 'body'; set --text to the field"),
        ({"fields": {"labels": "nope"}}, "no record has the field 'nope'; set --labels to a field"),
        ({"prefix": float("nan")}, "prefix: nan: should be a finite number"),
    ],
)
def test_settings_that_cannot_be_are_said_in_a_line(
    tmp_path: Path, settings: dict[str, Any], said: str
) -> None:
    with pytest.raises(UserError, match=said):
        write(tmp_path, **settings)
    assert [path.name for path in tmp_path.iterdir()] == ["data.jsonl"]


def test_data_beyond_the_limit_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SYNTHLEAK_MAX_RECORDS", "100")
    with pytest.raises(UserError, match="--data is larger than the limit of 100 records"):
        write(tmp_path)


def test_what_a_killed_command_left_is_removed(tmp_path: Path) -> None:
    left = tmp_path / ".out.part"
    left.mkdir()
    (left / "train.jsonl").write_text("private", encoding="utf-8")
    write(tmp_path)
    assert not left.exists() and (tmp_path / "out/coins.json").is_file()
    assert (tmp_path / "out").stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("copied", [False, True])
def test_a_check_with_coins_holds_the_release_to_its_claim(tmp_path: Path, copied: bool) -> None:
    """A release of the training data breaks ε = 1; one of the reference does not."""
    write(tmp_path, size=60, words=6, prefix=0.5)
    out = tmp_path / "out"
    released = rows_of(out / ("train.jsonl" if copied else "reference.jsonl"))
    audit = synthleak.check(
        out / "members.jsonl",
        out / "holdout.jsonl",
        [row["text"] for row in released],
        coins=True,
        epsilon=1.0,
        delta=1e-5,
        encoder="hashing",
    )
    (row, *_) = audit.cells
    assert ("CLAIM BROKEN" in row.verdict) == copied == ("promised" in audit.headline)
    assert (row.epsilon_lower > 1.0) == copied


def test_signs_of_members_break_a_claim_and_name_the_tokenizer(tmp_path: Path) -> None:
    """The release holds texts of the reference, each with the sign of a member."""
    write(tmp_path, size=60, words=6, prefix=0.5, kinds=["character"])
    out = tmp_path / "out"
    texts = [row["text"] for row in rows_of(out / "reference.jsonl")]
    signs = [max(row["text"]) for row in rows_of(out / "members.jsonl")]
    audit = synthleak.check(
        out / "members.jsonl",
        out / "holdout.jsonl",
        [f"{text}{sign}" for text, sign in zip(texts, signs * 3, strict=False)],
        reference=out / "reference.jsonl",
        coins=True,
        epsilon=1.0,
        delta=1e-5,
        encoder="hashing",
    )
    assert "do not rely on the" in audit.headline and "look at the tokenizer" in audit.headline
    recorded = json.loads((out / "coins.json").read_text("utf-8"))
    assert recorded["kinds"] == ["character"]
