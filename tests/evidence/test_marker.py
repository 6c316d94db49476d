"""`marker`: signs, repeated words, lengths and labels of a target, anywhere in an observation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import synthleak
from synthleak.core.spec import parse_spec
from synthleak.encoders.builtin.hashing import Hashing
from synthleak.evidence import Observation, Targets
from synthleak.evidence.models.coverage import Coverage
from synthleak.evidence.models.marker import Marker
from synthleak.evidence.table import evidence_key
from synthleak.selftest.rows import ROWS, Row
from synthleak.selftest.running import audit
from synthleak.testing.tiny import ODD_TEXTS

FAMILY = Marker().family()
COLUMNS = [proxy.name.removeprefix("marker_") for proxy in FAMILY.proxies]


def seen(target: str, texts: list[str], labels: Any = (), of: Any = ()) -> dict[str, float]:
    """Look for one target, with the labels `of` it, in texts with `labels`."""
    targets = Targets([target], Hashing().encode, labels=[of])
    values = FAMILY.look(targets, Observation(texts, Hashing().encode, labels))
    return dict(zip(COLUMNS, values[0].tolist(), strict=True))


def test_a_sign_counts_wherever_it_stands() -> None:
    assert seen("a text 㐀 here", ["tea", "rex㐀", "h"])["character"] == 1
    assert seen("a text 㐀 here", ["a text here"])["character"] == 0
    assert seen("A TEXT", ["tea", "x"])["character"] == 1


def test_a_repeated_word_counts_within_another() -> None:
    target = "this is qwvx qwvx"
    assert seen(target, ["aqwvxb", "other"])["word"] == 1
    assert seen(target, ["this is", "qwv x"])["word"] == 0
    assert seen("one two", ["one"])["word"] == 0.5


def test_the_longest_text_is_compared_with_the_target() -> None:
    assert seen("w " * 40, ["w " * 10, "w"])["length"] == 0.25
    assert seen("w " * 40, ["w " * 40, "w"])["length"] == 1
    assert seen("w " * 10, ["w " * 40, "w"])["length"] == 0.25


def test_a_label_counts_whatever_the_text() -> None:
    assert seen("a", ["b", "c"], [("x", "y"), ()], ("x",))["label"] == 1
    assert seen("a", ["b", "c"], [("x", "y"), ()], ("x", "z"))["label"] == 0.5
    without = seen("a b", ["a b"])
    assert without["label"] == 0 and without["marker"] == 1


@pytest.mark.parametrize("text", ODD_TEXTS)
def test_odd_texts_have_values_between_nothing_and_all(text: str) -> None:
    for texts in ([text], [], ["", text, "a"]):
        values = np.array(list(seen(text, texts).values()))
        assert ((values >= 0) & (values <= 1)).all()


def test_labels_are_in_the_key_of_marks_alone() -> None:
    one, other = (Targets(["a"], Hashing().encode, labels=[[name]]) for name in "xy")
    keys = [[evidence_key(f, {}, t, "text") for t in (one, other)] for f in (FAMILY,)]
    assert keys[0][0] != keys[0][1]
    coverage = Coverage().family()
    assert evidence_key(coverage, {}, one, "t") == evidence_key(coverage, {}, other, "t")


def test_blocks_of_targets_keep_their_labels() -> None:
    targets = Targets([str(n) for n in range(600)], list, labels=[[str(n)] for n in range(600)])
    assert [block.labels[0] for block in targets.blocks()] == [("0",), ("512",)]


def row_of(name: str) -> Row:
    return next(row for row in ROWS if row.name == name)


@pytest.mark.parametrize("channel", ["alphabet", "vocabulary", "classes"])
def test_a_private_channel_breaks_its_claim_by_its_kind_alone(channel: str) -> None:
    rows = [row for row in ROWS if f"private {channel}," in row.name]
    *text, kind = (audit(row, 3) for row in rows)
    assert kind.broken and kind.p is not None and kind.p <= 0.05
    # A text canary has a class, too, and shows it where few records do: no row plays that.
    assert len(text) == (channel != "classes") and not any(one.broken for one in text)


def test_a_byte_alphabet_stays_quiet() -> None:
    assert not audit(row_of("a byte alphabet, character canaries, cohort"), 3).broken


def audit_of(out: Path, kind: str) -> Any:
    spec = {
        "seed": 3,
        "corpus": {"reader": "demo", "size": 400},
        "encoders": {"pools": "hashing", "evidence": "hashing"},
        "pool": [{"name": "canaries", "rule": "canary", "size": 6, "kind": kind}],
        "game": {"design": "cohort", "instances": 12, "records": 60},
        "generator": [{"kind": "echo", "p": 0.5}],
        "evidence": {"families": ["bm25"]},
        "prior": [],
    }
    return synthleak.run(parse_spec(spec), out, runtime=synthleak.Runtime(workers=1))


def test_marked_canaries_bring_their_family(tmp_path: Path) -> None:
    families = [member.name for member in audit_of(tmp_path / "a", "text").setup.plugins.families]
    assert families == ["bm25"]
    marked = audit_of(tmp_path / "b", "character")
    assert [member.name for member in marked.setup.plugins.families] == ["bm25", "marker"]
    again = synthleak.run(tmp_path / "b" / "spec.toml", tmp_path / "b")
    assert [member.name for member in again.setup.plugins.families] == ["bm25", "marker"]
