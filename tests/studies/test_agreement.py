"""The same cells in two runs: what moved, and how far V(x) agrees."""

from __future__ import annotations

import csv
import math
import shutil
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import spearmanr

from support.scripts import SMALL_STUDY, script
from synthleak import run
from synthleak.audit.finished import open_finished
from synthleak.core.runtime import Runtime
from synthleak.evidence import Floats


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a finished run."""
    folder = tmp_path_factory.mktemp("first")
    (folder / "small.toml").write_text(SMALL_STUDY, encoding="utf-8")
    run(folder / "small.toml", folder / "small", runtime=Runtime(workers=1))
    return folder / "small"


def agreement(*words: object) -> None:
    script("agreement").main([str(word) for word in words])


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def given(one: Floats, two: Floats, other: Floats) -> float:
    """Return the partial rank correlation by its formula."""
    r = [float(spearmanr(*pair).statistic) for pair in ((one, two), (one, other), (two, other))]
    return (r[0] - r[1] * r[2]) / math.sqrt((1 - r[1] ** 2) * (1 - r[2] ** 2))


def test_a_copy_is_the_same_in_every_column(first: Path, tmp_path: Path) -> None:
    shutil.copytree(first, tmp_path / "small")
    to = tmp_path / "out/twice.csv"
    agreement("--first", first, "--second", tmp_path / "small", "--to", to)
    rows = rows_of(to)
    assert len(rows) == 2 * 2 * 3 * 3 and {row["by"] for row in rows} == {"first", "second", "own"}
    for row in rows:
        for column in ("auc", "p", "verdict", "reliability"):
            assert row[f"{column}_first"] == row[f"{column}_second"]
        assert row["same_releases"] == row["releases"] == "10"
    assert all(float(row["rho"]) == pytest.approx(1) for row in rows if row["rho"])


def test_two_generators_are_compared_by_the_proxies_of_both(tmp_path: Path) -> None:
    wide = SMALL_STUDY.replace("instances = 6", 'instances = 16\ndesign = "cohort"')
    wide = wide.replace("records = 30", "records = 65")
    wide = wide.replace('["bigram_logprob"]', '["bigram_logprob", "cos"]')
    for kind in ("ngram", "echo"):
        text = wide.replace('"ngram"', f'"{kind}"').replace("[inf, 2]", "[inf]")
        (tmp_path / f"{kind}.toml").write_text(text, encoding="utf-8")
        run(tmp_path / f"{kind}.toml", tmp_path / kind, runtime=Runtime(workers=1))
    to = tmp_path / "generators.csv"
    agreement("--first", tmp_path / "ngram", "--second", tmp_path / "echo", "--to", to)
    rows = rows_of(to)
    assert {(row["first"], row["second"]) for row in rows} == {("ngram", "echo")}
    assert {row["same_releases"] for row in rows} == {"0"}
    one, two = (open_finished(tmp_path / kind).study for kind in ("ngram", "echo"))
    for row in rows:
        best = [
            next(
                r.proxy
                for r in study.cells
                if (r.pool, r.scenario) == (row["pool"], row["scenario"])
            )
            for study in (one, two)
        ]
        wanted = {"first": best[:1] * 2, "second": best[1:] * 2, "own": best}[row["by"]]
        assert [row["proxy_first"], row["proxy_second"]] == wanted
        v, of_paper = [], []
        for study, name, proxy in zip((one, two), ("first", "second"), wanted, strict=True):
            data = next(d for d in study.cell_data if d.pool.name == row["pool"])
            place = data.place(row["scenario"], proxy)
            assert place is not None
            v.append(data.profile.v[place])
            of_paper.append(data.profile.v_paper[place])
            assert float(row[f"reliability_{name}"]) == data.profile.reliability[place]
        assert float(row["rho"]) == pytest.approx(spearmanr(*v).statistic)
        assert float(row["rho_paper"]) == pytest.approx(spearmanr(*of_paper).statistic)
        lengths = {a.record: a.length for a in one.attributes if a.pool == row["pool"]}
        length = np.array([lengths[record] for record in data.pool.records])
        assert float(row["rho_given_length"]) == pytest.approx(given(*v, length))


def test_only_cells_of_both_runs_are_compared(first: Path, tmp_path: Path) -> None:
    again = tmp_path / "small"
    shutil.copytree(first, again)
    words = ("finish", first.parent / "small.toml", "--run", again, "--epsilon", 2, "--workers", 1)
    script("slice").main([str(word) for word in words])
    agreement("--first", first, "--second", again, "--to", tmp_path / "twice.csv")
    assert {row["epsilon"] for row in rows_of(tmp_path / "twice.csv")} == {"2.0"}


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("seed = 3", "seed = 4", "other records or coins"),
        ("[inf, 2]", "[8]", "no cell has a pool and an ε"),
        ('["bigram_logprob"]', '["cos"]', "other proxies"),
        ("[evidence]", '[[generator]]\nkind = "echo"\n[evidence]', "several generators"),
    ],
)
def test_runs_that_cannot_be_compared_are_refused(
    old: str,
    new: str,
    why: str,
    first: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    spec = tmp_path / "small.toml"
    spec.write_text(SMALL_STUDY.replace(old, new), encoding="utf-8")
    run(spec, tmp_path / "small", runtime=Runtime(workers=1))
    with pytest.raises(SystemExit) as ended:
        agreement("--first", first, "--second", tmp_path / "small", "--to", tmp_path / "twice.csv")
    assert ended.value.code == 2 and why in capsys.readouterr().err
    assert not (tmp_path / "twice.csv").exists()


def test_every_run_needs_a_partner(first: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        agreement("--first", first, "--second", first, first, "--to", "twice.csv")
    assert ended.value.code == 2 and "1 first runs, 2 second" in capsys.readouterr().err


def test_correlation_is_of_the_records_that_both_know() -> None:
    correlation = script("agreement").correlation
    one = np.array([0.1, np.nan, 0.3, 0.2, 0.9, 0.8])
    two = np.array([5.0, 1.0, 7.0, 6.0, np.nan, 9.0])
    assert correlation(one, two) == pytest.approx(1)
    assert correlation(one, -two) == pytest.approx(-1)
    assert correlation(one, np.full(6, np.nan)) is None
    assert correlation(one, np.where(np.isfinite(two), 1.0, np.nan)) is None


def test_correlation_given_length_is_partial() -> None:
    correlation = script("agreement").correlation
    rng = np.random.default_rng(3)
    length = rng.permutation(400).astype(float)
    one, two = (-length + rng.normal(0, 150, 400) for _ in range(2))
    assert correlation(one, two) > 0.3 and abs(correlation(one, two, length)) < 0.1
    assert correlation(one, two, length) == pytest.approx(given(one, two, length))
