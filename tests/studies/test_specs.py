"""The specs of the study name what there is, and share pools across generators."""

from __future__ import annotations

import csv
from importlib.resources import files
from pathlib import Path

import pytest

from support.scripts import PAPER
from synthleak.audit.stages import build_plugins
from synthleak.core.spec import load_spec

TOKENS = "Tok. md/p95/mx"
SPECS = sorted(PAPER.glob("specs/*.toml"))
PRESETS = sorted(Path(str(files("synthleak.paper"))).glob("presets/*.toml"))


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


@pytest.mark.parametrize("path", PRESETS, ids=lambda path: path.stem)
def test_preset_audits_the_three_generators_of_the_study(path: Path) -> None:
    loaded = load_spec(path).spec
    assert [section.kind for section in loaded.generator] == ["dpsgd", "epsvec", "augpe"]
    assert loaded.analyses.also == ("meta",)
    with (PAPER / "published.csv").open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["corpus"] == path.stem]
    longest = next(row for row in rows if (row["item"], row["column"]) == (TOKENS, "second"))
    count = next(row for row in rows if row["item"] == "N")
    assert loaded.generator[0].settings["max_tokens"] >= float(longest["value"])
    split = loaded.corpus.settings["split"]
    assert split <= 1 or split == float(count["value"])


@pytest.mark.parametrize("corpus", ["dmsafn", "goemotions"])
def test_chance_is_played_on_the_pools_of_the_study(corpus: str) -> None:
    played, chance = (load_spec(PAPER / f"specs/{corpus}-{x}.toml") for x in ("dpsgd", "chance"))
    assert [section.kind for section in chance.spec.generator] == ["bystander"]
    usual = played.spec.model_copy(update={"generator": chance.spec.generator})
    assert chance.spec == usual
