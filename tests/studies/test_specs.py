"""The specs of the study name what there is, and share pools across generators."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.scripts import PAPER
from synthleak.audit.stages import build_plugins
from synthleak.core.spec import load_spec

SPECS = sorted(PAPER.glob("specs/*.toml"))
PRESETS = sorted(PAPER.glob("presets/*.toml"))


@pytest.mark.parametrize("path", [*SPECS, *PRESETS], ids=lambda path: path.stem)
def test_spec_names_what_there_is(path: Path) -> None:
    plugins = build_plugins(load_spec(path))
    first = "canary" if path.stem.endswith("canaries") else "outlier"
    assert plugins.generators and plugins.orders[0].name == first


@pytest.mark.parametrize("corpus", ["dmsafn", "goemotions"])
def test_generators_are_audited_on_the_same_pools(corpus: str) -> None:
    specs = [
        load_spec(PAPER / "specs" / f"{corpus}-{g}.toml") for g in ("dpsgd", "epsvec", "augpe")
    ]
    whole = specs[0].spec
    for other in (loaded.spec for loaded in specs[1:]):
        assert other.pool == whole.pool[: len(other.pool)]
        assert (other.seed, other.game, other.encoders, other.corpus) == (
            (whole.seed, whole.game, whole.encoders, whole.corpus)
        )


@pytest.mark.parametrize("name", ["dmsafn-dpsgd", "dmsafn-augpe-cohort", "goemotions-augpe-cohort"])
def test_evidence_with_another_encoder_reads_the_same_releases(name: str) -> None:
    usual, other = (load_spec(PAPER / "specs" / f"{name}{x}.toml").spec for x in ("", "-minilm"))
    assert usual.encoders.evidence.kind == "static" and other.encoders.evidence.kind == "minilm"
    encoders = {"encoders": usual.encoders}
    assert other.model_copy(update=encoders) == usual
