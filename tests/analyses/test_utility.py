"""Utility: what a release is good for, beside what the private set itself would be good for."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from synthleak.analyses.utility import (
    RELEASES,
    Measures,
    frontier,
    frontier_area,
    measure,
    top_label_accuracy,
)
from synthleak.audit.run import run
from synthleak.core.artefact import as_json
from synthleak.core.runtime import Runtime
from synthleak.core.spec import LoadedSpec
from synthleak.encoders.builtin.hashing import Hashing
from synthleak.testing import tiny_corpus

ONE = Runtime(workers=1)

LABELLED = [(record.text, record.labels) for record in tiny_corpus(240).records]


def slow_top_label(train: list, test: list, alpha: float = 0.1) -> float:
    """Naive Bayes in plain loops."""
    words = sorted({w for text, _ in train for w in text.lower().split()})
    pairs = [(text.lower().split(), label) for text, labels in train for label in labels]
    right = 0
    for text, labels in test:
        best, most = None, -math.inf
        for name in sorted({label for _, label in pairs}):
            own = [w for found, label in pairs if label == name for w in found]
            value = math.log(sum(label == name for _, label in pairs) / len(pairs))
            for w in text.lower().split():
                if w in words:
                    value += math.log((own.count(w) + alpha) / (len(own) + alpha * len(words)))
            if value > most:
                best, most = name, value
        right += best in labels
    return right / len(test)


def test_the_classifier_equals_plain_loops() -> None:
    rng = np.random.default_rng(3)
    vocabulary = ["red", "blue", "cold", "warm", "wet", "dry"]

    def some(count: int) -> list:
        return [
            (" ".join(rng.choice(vocabulary, 4)), tuple(rng.choice(["a", "b", "c"], 2)))
            for _ in range(count)
        ]

    train, test = some(25), some(20)
    assert top_label_accuracy(train, test) == pytest.approx(slow_top_label(train, test))


def test_without_labels_or_words_there_is_no_score() -> None:
    assert top_label_accuracy([("a b", ())], [("a", ("x",))]) is None
    assert top_label_accuracy([("a b", ("x",))], [("a", ())]) is None
    assert top_label_accuracy([("!!", ("x",))], [("a", ("x",))]) is None
    assert top_label_accuracy([("a b", ("x",))] * 2, [("a", ("x",))]) == 1.0


def test_the_frontier_falls_as_sets_part() -> None:
    rng = np.random.default_rng(1)
    base = rng.normal(size=(300, 8)).astype(np.float32)
    same, near, far = (
        frontier(rng.normal(shift, size=(300, 8)).astype(np.float32), base)
        for shift in (0.0, 0.6, 5.0)
    )
    assert same is not None and near is not None and far is not None
    assert same > 0.8 > near > far
    assert far < 0.1
    assert frontier(base[:10], base) is None


def test_frontier_area_of_disjoint_sets_is_lowest() -> None:
    p, q = np.array([1 - 1e-12, 1e-12]), np.array([1e-12, 1 - 1e-12])
    assert frontier_area(p, q) < 0.02
    assert frontier_area(p, p) == pytest.approx(1.0)


def test_utility_of_real_copied_and_repeated_texts() -> None:
    real = measure(LABELLED[:100], LABELLED[100:], Hashing().encode)
    assert real.score is not None and real.score > 0.4
    assert real.different == 1.0
    stuck = measure([LABELLED[0]] * 100, LABELLED[100:], Hashing().encode)
    assert stuck.different == 0.01
    assert stuck.distinct_1 is not None and real.distinct_1 is not None
    assert stuck.distinct_1 < real.distinct_1
    assert stuck.frontier is not None and real.frontier is not None
    assert stuck.frontier < real.frontier
    assert stuck.words == len(LABELLED[0][0].split()) or stuck.words > 0
    wrong = [(text, ("nonsense",)) for text, _ in LABELLED[:100]]
    assert measure(wrong, LABELLED[100:], Hashing().encode).label_accuracy == 0.0
    dump, load = as_json(Measures)
    assert load(dump(real)) == real
    empty = measure([("", ())] * 3, LABELLED[100:], Hashing().encode)
    assert (empty.score, empty.words, empty.distinct_2) == (None, 0.0, None)


def test_echo_releases_are_as_useful_as_real_records(
    tiny: Callable[..., LoadedSpec], tmp_path: Path
) -> None:
    loaded = tiny(
        generator=[{"kind": "echo"}, {"kind": "constant"}],
        game={"instances": 10, "records": 60, "rounds": 2, "candidates": 3, "references": 2},
        corpus={"reader": "demo", "size": 300},
        evidence={"families": ["bigram_logprob"]},
    )
    audit = run(loaded, tmp_path / "run", runtime=ONE)
    with (tmp_path / "run" / "results" / "utility.csv").open() as file:
        rows = {row["generator"]: row for row in csv.DictReader(file)}
    assert set(rows) == {"echo", "constant"}
    echo, constant = rows["echo"], rows["constant"]
    for column in ("score", "label_accuracy", "words", "distinct_2", "frontier"):
        # `echo` releases the private set itself, so each figure equals its twin.
        assert float(echo[column]) == pytest.approx(float(echo[f"{column}_real"]), abs=0.08)
        assert constant[f"{column}_real"] == echo[f"{column}_real"]
    assert float(constant["different"]) < 0.1
    assert float(constant["frontier"]) < float(echo["frontier"])
    assert int(echo["releases"]) == RELEASES
    assert audit.tables["utility"] == run(loaded, tmp_path / "run", runtime=ONE).tables["utility"]


def test_measured_releases_do_not_depend_on_coins(
    tiny: Callable[..., LoadedSpec], tmp_path: Path
) -> None:
    audit = run(tiny(generator=[{"kind": "constant"}]), tmp_path / "run", runtime=ONE)
    from synthleak.audit.steps.releases import _measured_sets

    (cell,) = audit.setup.cells
    names = [item.name for item in _measured_sets(audit.setup, cell)]
    plan = audit.setup.plans[cell.pool]
    assert names == [item.name for item in plan.sets if item.form == "release"][:RELEASES]
