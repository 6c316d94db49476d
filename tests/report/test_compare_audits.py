"""Audits side by side: differences where the question is the same, reasons where it is not."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from support.specs import tiny_spec
from synthleak import Audit, Runtime, analyse, run
from synthleak.audit.finished import compare
from synthleak.cli.reading import compare as command
from synthleak.core.errors import UserError
from synthleak.core.spec import LoadedSpec, parse_spec
from synthleak.report.compare import LESS, MORE, SAME, DifferenceLine, render_comparison

GAME = {"instances": 12, "records": 30, "rounds": 4, "candidates": 5}


@pytest.fixture(scope="module")
def run_audit(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Audit]:
    """Run an audit by name, each once."""
    root = tmp_path_factory.mktemp("compare")
    made: dict[str, Audit] = {}

    def make(name: str, **changes: Any) -> Audit:
        if name not in made:
            spec = LoadedSpec(parse_spec(tiny_spec(**changes)))
            made[name] = run(spec, root / name, runtime=Runtime(workers=1))
        return made[name]

    return make


def ngram(*budgets: float) -> list[dict[str, Any]]:
    return [{"kind": "ngram", "epsilon": list(budgets)}]


def test_the_same_plan_gives_paired_differences(run_audit: Callable[..., Audit]) -> None:
    before = run_audit("before", generator=ngram(float("inf")))
    after = run_audit("after", generator=ngram(2.0))
    made = compare([("before", before), ("after", after)])
    (line,) = made.differences
    assert line.paired and not made.reasons
    assert (line.first_cell, line.second_cell) == ("ngram without privacy", "ngram at ε = 2")
    one, other = before.study.cell_data[0], after.study.cell_data[0]
    fitted = [a.results.cells[0].measurements.crossfit for a in (before, after)]
    assert fitted[0] is not None and fitted[1] is not None
    assert line.difference == pytest.approx(fitted[1].value - fitted[0].value)
    spread = np.std(other.profile.resampled[-1] - one.profile.resampled[-1], ddof=1)
    assert line.high - line.low == pytest.approx(2 * 1.95996 * spread, rel=1e-4)
    assert [cell.audit for cell in made.cells] == ["before", "after"]
    assert [cell.auc for cell in made.cells] == [fitted[0].value, fitted[1].value]
    assert made.audits[0].headline and made.cells[0].claim == "none" != made.cells[1].claim


def test_a_comparison_begins_with_what_it_shows(run_audit: Callable[..., Audit]) -> None:
    before = run_audit("before", generator=ngram(float("inf")))
    after = run_audit("after", generator=ngram(2.0))
    other = run_audit("sizes", generator=ngram(float("inf")), game=GAME | {"records": 28})
    made = compare([("before", before), ("after", after), ("sizes", other)])
    (line,) = made.differences
    assert (line.p_holm or 0) <= 0.05 or line.low <= 0 <= line.high
    said = line.result if line.result == SAME else f"{line.result} in 1 of 1 comparisons"
    assert made.conclusion.startswith(
        f"after against before: {said}. sizes and before cannot be subtracted: read each by itself."
    )
    html = render_comparison(made).decode()
    assert html.index(made.conclusion) < html.index("What each says")
    assert html.count(made.cells[0].badge) >= 2 and f">{line.result}</span>" in html


@pytest.mark.parametrize(
    ("kind", "more"),
    [
        ({"kind": "bystander"}, ""),
        (
            {"kind": "echo", "p": 0.9},
            " Copies and disclosures are not part of this: see what each says.",
        ),
    ],
    ids=["bystander", "echo"],
)
def test_copies_are_said_beside_a_comparison(
    run_audit: Callable[..., Audit], kind: dict[str, Any], more: str
) -> None:
    audit = run_audit(kind["kind"], generator=[kind])
    made = compare([("one", audit), ("two", audit)])
    assert str(made) == f"two against one: no difference shown.{more}"


@pytest.mark.parametrize(
    ("p", "difference", "result"),
    [(0.04, -0.2, LESS), (0.04, 0.2, MORE), (0.06, 0.2, SAME), (None, 0.2, SAME)],
)
def test_a_difference_is_named_only_where_its_test_rejects(
    p: float | None, difference: float, result: str
) -> None:
    line = DifferenceLine("few", "a", "x", "b", "y", difference, 0.0, 0.0, 0.0, p, True)
    assert line.result == result


def test_intervals_of_several_differences_have_the_level_of_the_test(
    run_audit: Callable[..., Audit],
) -> None:
    both = run_audit("both", generator=ngram(float("inf"), 2.0))
    seed = run_audit("both-seed", generator=ngram(float("inf"), 2.0), seed=4)
    lines = compare([("both", both), ("seed", seed)]).differences
    if not lines:  # another seed may select other records
        lines = compare([("both", both), ("again", both)]).differences
    assert len(lines) == 2
    for line in lines:
        assert line.p_holm is not None
        assert (line.p_holm > 0.05) == (line.low <= 0 <= line.high)


def test_checks_are_not_subtracted_and_it_is_said(checked: Audit) -> None:
    made = compare([("one", checked), ("two", checked)])
    assert not made.differences
    assert made.reasons == (
        "two and one: each check has one release, so that no interval of a difference is known",
    )
    assert made.conclusion == "two and one cannot be subtracted: read each by itself."


def test_audits_folders_and_pairs_may_be_mixed(run_audit: Callable[..., Audit]) -> None:
    before = run_audit("before", generator=ngram(float("inf")))
    after = run_audit("after", generator=ngram(2.0))
    made = compare([before, after.folder.root])
    assert [line.audit for line in made.audits] == ["before", "after"]
    assert compare([str(before.folder.root), ("new", after)]).audits[1].audit == "new"
    outcomes = analyse([before, ("new", after.folder.root)], only=["consistency"])
    assert outcomes == analyse([before.folder.root, after], only=["consistency"])
    assert analyse(before, only=["vulnerability"])[0].name == "vulnerability"
    assert compare(before, ("new", after)) == compare([before, ("new", after)])
    with pytest.raises(UserError, match="a list is not an audit; give audits, run folders"):
        compare([before], after)
    with pytest.raises(UserError, match="one audit alone cannot be compared; name two or more"):
        compare([before])


def test_another_seed_is_compared_without_pairing(run_audit: Callable[..., Audit]) -> None:
    ids = [{"name": "outlier", "rule": "outlier", "percentile": 92}]
    before = run_audit("before", generator=ngram(float("inf")))
    other = run_audit("seed", generator=ngram(float("inf")), seed=4, pool=ids)
    made = compare([("before", before), ("seed", other)])
    assert [line.paired for line in made.differences] == [False]
    assert any("not paired" in caution for caution in made.cautions)


@pytest.mark.parametrize(
    ("name", "changes", "reason"),
    [
        ("corpus", {"corpus": {"reader": "demo", "size": 160, "seed": 2}}, "other corpus"),
        ("adjacency", {"game": GAME | {"adjacency": "add"}}, "other adjacency (replace, add)"),
        ("proxies", {"evidence": {"families": ["cos"]}}, "other proxies"),
        ("sizes", {"game": GAME | {"records": 28}}, "other sizes (N = 30 and 28"),
        (
            "pool",
            {"pool": [{"name": "outlier", "rule": "outlier", "percentile": 90}]},
            "pool outlier holds other records",
        ),
    ],
)
def test_incomparable_cells_are_not_subtracted(
    run_audit: Callable[..., Audit], name: str, changes: dict[str, Any], reason: str
) -> None:
    before = run_audit("before", generator=ngram(float("inf")))
    other = run_audit(name, generator=ngram(float("inf")), **changes)
    made = compare([("before", before), (name, other)])
    assert not made.differences
    assert any(reason in said for said in made.reasons), made.reasons
    assert len(made.cells) == 2


def test_the_command_prints_json_and_writes_a_page(
    run_audit: Callable[..., Audit], tmp_path: Path
) -> None:
    before = run_audit("before", generator=ngram(float("inf")))
    after = run_audit("after", generator=ngram(2.0))
    folders = [str(before.folder.root), str(after.folder.root)]
    page = tmp_path / "side" / "compare.html"
    done = CliRunner().invoke(
        command, [*folders, "--json", "--out", str(page)], catch_exceptions=False
    )
    told = json.loads(done.output)
    assert [line["audit"] for line in told["audits"]] == ["before", "after"]
    assert told["cells"][0]["epsilon"] == "inf"
    html = page.read_text(encoding="utf-8")
    assert "default-src &#39;none&#39;" in html and "unsafe" not in html.split("<style>")[0]
    assert f"{told['differences'][0]['difference']:+.3f}" in html
    assert not [r.id for r in before.setup.corpus.records if r.text in html]
    shown = CliRunner().invoke(command, folders, catch_exceptions=False).output
    assert "Differences of that AUC" in shown
    alone = CliRunner().invoke(command, folders[:1])
    assert isinstance(alone.exception, UserError) and "name two or more" in str(alone.exception)


def test_names_are_escaped(run_audit: Callable[..., Audit]) -> None:
    before = run_audit("before", generator=ngram(float("inf")))
    html = render_comparison(compare([("<img src=x>", before), ("b", before)])).decode()
    assert "<img src=x" not in html
