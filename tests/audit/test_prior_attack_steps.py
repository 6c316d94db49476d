"""Prior attacks in whole audits: what they find, what is kept, what is left out."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from synthleak.audit.facts import degenerate_releases
from synthleak.audit.result import open_run
from synthleak.audit.run import run
from synthleak.audit.steps.prior_attacks import reference_positions
from synthleak.core.errors import SpecError
from synthleak.core.runtime import Runtime
from synthleak.core.spec import LoadedSpec, parse_spec

Make = Callable[..., LoadedSpec]
ONE = Runtime(workers=1)
BOTH = [{"kind": "canary"}, {"kind": "domias"}]


def echoing(tiny: Make, **changes: Any) -> LoadedSpec:
    """An audit of a generator that copies everything it is given."""
    return tiny(
        **{
            "corpus": {"reader": "demo", "size": 400},
            "game": {"instances": 24, "records": 60, "rounds": 4},
            "generator": [{"kind": "echo", "p": 1.0}],
            "evidence": {"families": ["char_overlap"]},
            "prior": BOTH,
        }
        | changes
    )


def test_copies_are_found_by_the_calibrated_arms(tiny: Make, tmp_path: Path) -> None:
    audit = run(echoing(tiny), tmp_path / "run", runtime=ONE)
    by_arm = {(row.family, row.arm, row.scenario): row for row in audit.study.prior}
    assert len(by_arm) == 14
    assert by_arm["canary", "nR", "S2"].auc > 0.9
    assert by_arm["domias", "k", "S3"].auc > 0.95
    (row,) = audit.study.comparison
    assert row.ours_auc == 1.0
    assert row.canary_p is not None and row.canary_p < 0.01
    assert row.delta == pytest.approx(row.ours_auc - max(row.canary_auc or 0, row.domias_auc or 0))


def test_nothing_is_found_in_one_text_for_all(tiny: Make, tmp_path: Path) -> None:
    audit = run(echoing(tiny, generator=[{"kind": "constant"}]), tmp_path / "run", runtime=ONE)
    assert all((row.canary_p or 1) > 0.01 for row in audit.study.comparison)
    facts = degenerate_releases(audit.setup, audit.setup.cells[0])
    assert facts == {"empty_releases": 0, "one_text_releases": 28}
    assert "one text over and over" in (tmp_path / "run" / "report.html").read_text()


@pytest.mark.parametrize("design", ["lone", "cohort"])
def test_both_designs_are_played_and_opened_again(tiny: Make, tmp_path: Path, design: str) -> None:
    game = {"design": design, "instances": 8, "records": 160, "rounds": 2, "candidates": 3}
    spec = echoing(tiny, game=game, generator=[{"kind": "ngram", "epsilon": [math.inf, 2]}])
    audit = run(spec, tmp_path / "run", runtime=ONE)
    assert len(audit.study.prior) == 28
    again = open_run(tmp_path / "run")
    assert again.study.prior == audit.study.prior
    assert again.study.comparison == audit.study.comparison
    results = tmp_path / "run" / "results"
    assert len((results / "prior.csv").read_text().splitlines()) == 29
    assert len((results / "comparison.csv").read_text().splitlines()) == 3


def test_workers_do_not_change_what_is_found(tiny: Make, tmp_path: Path) -> None:
    files = []
    for workers in (1, 2):
        out = tmp_path / str(workers)
        run(echoing(tiny), out, runtime=Runtime(workers=workers))
        files.append((out / "results" / "prior.csv").read_bytes())
    assert files[0] == files[1]


def test_an_attack_can_be_added_later_and_is_all_that_is_made(tiny: Make, tmp_path: Path) -> None:
    out = tmp_path / "run"
    game = {"instances": 8, "records": 60, "rounds": 2}
    run(echoing(tiny, game=game, prior=[]), out, runtime=ONE)
    assert not (out / "results" / "prior.csv").exists()
    before = set((out / "store" / "evidence").iterdir())
    releases = sorted((out / "store" / "release").iterdir())
    run(echoing(tiny, game=game, prior=BOTH[:1]), out, extend=True, runtime=ONE)
    # 8 instances, 4 references and the same 4 raw.
    assert len(set((out / "store" / "evidence").iterdir()) - before) == 16
    run(echoing(tiny, game=game, prior=BOTH), out, extend=True, runtime=ONE)
    # DOMIAS looks at what it scores and at nothing else.
    assert len(set((out / "store" / "evidence").iterdir()) - before) == 24
    assert sorted((out / "store" / "release").iterdir()) == releases


def test_mistakes_in_the_spec_are_named(tiny: Make) -> None:
    from synthleak.audit.stages import set_up
    from synthleak.core.store import MemoryStore

    with pytest.raises(SpecError, match=r"prior\[0\]\.kind: unknown prior attack 'domais'"):
        set_up(tiny(prior=[{"kind": "domais"}]), MemoryStore())
    with pytest.raises(SpecError, match=r"prior\[0\]\.order"):
        set_up(tiny(prior=[{"kind": "canary", "order": 1}]), MemoryStore())
    with pytest.raises(SpecError, match="name each attack once"):
        tiny(prior=[{"kind": "canary"}, {"kind": "canary"}])


def test_both_attacks_are_played_unless_the_spec_says_otherwise() -> None:
    from support.specs import tiny_spec

    content = tiny_spec()
    del content["prior"]
    assert [section.kind for section in parse_spec(content).prior] == ["canary", "domias"]


def test_a_release_that_calibrates_others_takes_the_next_four_as_references(tiny: Make) -> None:
    from synthleak.audit.stages import set_up
    from synthleak.core.store import MemoryStore

    game = {"design": "cohort", "instances": 12, "records": 160}
    spec = tiny(corpus={"reader": "demo", "size": 400}, game=game)
    plan = next(iter(set_up(spec, MemoryStore()).plans.values()))
    assert reference_positions(plan, 2) == (3, 4, 5, 6)
    assert reference_positions(plan, 10) == (11, 0, 1, 2)
    lone = next(iter(set_up(tiny(), MemoryStore()).plans.values()))
    assert [lone.sets[p].name for p in reference_positions(lone, 3)] == [
        f"reference-{j}" for j in range(4)
    ]
