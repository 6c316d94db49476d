"""A whole audit with language models, prompted and trained, on a tiny backbone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from support.tiny_backbone import write_backbone
from synthleak.audit.result import open_run
from synthleak.audit.run import run
from synthleak.audit.stages import set_up
from synthleak.audit.steps.releases import missing_releases, release_key
from synthleak.core.errors import UserError
from synthleak.core.runtime import Runtime
from synthleak.core.spec import LoadedSpec
from synthleak.core.store import MemoryStore


def test_all_are_audited_like_the_rest(tiny: Callable[..., LoadedSpec], tmp_path: Path) -> None:
    shared = {
        "backbone": write_backbone(tmp_path / "backbone"),
        "encoder": {"kind": "hashing"},
        "max_tokens": 8,
        "device": "cpu",
    }
    game = {"instances": 4, "records": 30, "rounds": 2, "candidates": 3, "references": 2}

    def spec(description: str) -> LoadedSpec:
        return tiny(
            corpus={"reader": "demo", "size": 160, "description": description},
            game=game | {"release_size": 8},
            generator=[
                {"kind": "augpe", "epsilon": 2, "rounds": 2, "variations": 1, **shared},
                {"kind": "epsvec", "candidates": 3, "references": 2, **shared, "encoder": "static"},
                {"kind": "dpsgd", **{k: v for k, v in shared.items() if k != "encoder"}},
            ],
            evidence={"families": ["bigram_logprob"], "model": True},
        )

    audit = run(spec("short notes"), tmp_path / "run", runtime=Runtime(workers=1))
    private, steered, _ = audit.setup.cells
    assert audit.claim(private).events[0].count == 2
    assert not audit.claim(steered).promises
    assert [row.generator for row in audit.tables["utility"][1]] == ["augpe", "epsvec", "dpsgd"]
    assert len(audit.cells) > 0
    _, rungs = audit.tables["ladder"]
    signals = [row.signal.split()[0] for row in rungs if row.rung == "model"]
    assert signals[:2] == ["model_votes", "model_projection"] and len(signals) == 3
    # Evidence is read with the encoder of one of them; the page warns of the other.
    page = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    for what in ("the noised votes", "the vectors", "the model"):
        assert page.count(f"If {what} were published</h4>") == 1
        assert page.count(f">who has {what}</th>") == 1
    assert "Another encoder in epsvec" in page and "Another encoder in augpe" not in page
    texts = {record.text for record in audit.release(steered, 0)}
    assert len(texts) > 1
    for file in (tmp_path / "run" / "store" / "release").iterdir():
        file.rename(file.with_suffix(".old"))
    with pytest.raises(UserError, match="release 0 of epsvec was not made yet by this version"):
        audit.release(steered, 0)
    for file in (tmp_path / "run" / "store" / "release").iterdir():
        file.rename(file.with_suffix(".json"))
    # The folder spells all settings out, and knows its releases by what it says.
    assert not missing_releases(open_run(tmp_path / "run").setup)
    # Prompts are made of the description: another one is another release.
    keys = {release_key(audit.setup, private, item) for item in audit.setup.plans["outlier"].sets}
    other = set_up(spec("laws"), MemoryStore())
    assert not keys & {release_key(other, private, item) for item in other.plans["outlier"].sets}
