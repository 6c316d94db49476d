"""A backbone pinned to a revision, loaded by the library itself from a cache of the hub."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

pytest.importorskip("torch")
pytest.importorskip("transformers")

from huggingface_hub import constants

from support.tiny_backbone import ask, write_backbone
from synthleak.core.errors import GeneratorError
from synthleak.releases.generators.augpe import AugPe
from synthleak.releases.generators.dpsgd import DpSgd
from synthleak.releases.generators.epsvec import EpsVec
from synthleak.releases.lm.backbone import depth_of, load_backbone
from synthleak.releases.lm.generator import LanguageModel

NAME = "somebody/tiny"
FIRST, SECOND = "1" * 40, "2" * 40
KINDS = pytest.mark.parametrize("kind", [DpSgd, AugPe, EpsVec])


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache of the hub with two commits of one model; `main` is the first."""
    cache = tmp_path_factory.mktemp("hub")
    model = cache / "models--somebody--tiny"
    for commit, layers in ((FIRST, 2), (SECOND, 3)):
        write_backbone(model / "snapshots" / commit, layers=layers)
    (model / "refs").mkdir()
    (model / "refs" / "main").write_text(FIRST)
    (model / "refs" / "v2").write_text(SECOND)
    return cache


@pytest.fixture(autouse=True)
def offline(hub: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(hub))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    depth_of.cache_clear()


@pytest.mark.parametrize(("revision", "layers"), [(None, 2), (FIRST, 2), (SECOND, 3), ("v2", 3)])
def test_a_revision_decides_what_is_loaded(revision: str | None, layers: int) -> None:
    backbone = load_backbone(NAME, "cpu", "float64", revision)
    assert backbone.model.config.num_hidden_layers == layers
    assert len(backbone.model.base_model.layers) == layers
    assert depth_of(NAME, revision) == layers


@KINDS
def test_a_generator_loads_the_revision_that_it_names(kind: type[LanguageModel]) -> None:
    for revision, layers in ((SECOND, 3), (FIRST, 2), (SECOND, 3)):
        made = kind(backbone=NAME, revision=revision, device="cpu", dtype="float64", **_small(kind))
        assert made.shared_backbone().backbone.model.config.num_hidden_layers == layers
        assert len(made.generate(ask(4.0, size=4))) == 4


def _small(kind: type[LanguageModel]) -> dict[str, Any]:
    small: dict[Any, dict[str, Any]] = {
        DpSgd: {"epochs": 1, "batch_size": 8, "max_tokens": 16},
        AugPe: {"rounds": 1, "variations": 1, "max_tokens": 8, "encoder": "hashing"},
        EpsVec: {"candidates": 2, "references": 2, "max_tokens": 8, "encoder": "hashing"},
    }
    return small[kind]


def test_the_claim_of_steering_counts_the_layers_of_the_revision() -> None:
    for revision, layers in ((FIRST, 2), (SECOND, 3)):
        made = EpsVec(backbone=NAME, revision=revision, depth=(0.0, 0.99), encoder="hashing")
        assert made.claim(ask(4.0)).events[1].count == layers


@KINDS
def test_a_revision_counts_where_one_is_named(kind: type[LanguageModel]) -> None:
    usual = kind(backbone=NAME)
    assert "revision" not in usual.identity()
    pinned = kind(backbone=NAME, revision=SECOND)
    assert pinned.identity() == usual.identity() | {"revision": SECOND}
    assert pinned.seed_name("") != usual.seed_name("")


@KINDS
def test_missing_revision_is_a_one_line_error(kind: type[LanguageModel]) -> None:
    made = kind(backbone=NAME, revision="absent", device="cpu", **_small(kind))
    with pytest.raises(
        GeneratorError, match=r"'somebody/tiny' at revision 'absent' cannot be.*a revision that"
    ) as error:
        made.generate(ask(math.inf))
    assert "\n" not in str(error.value)
    with pytest.raises(GeneratorError, match="at revision 'absent' cannot be read"):
        depth_of(NAME, "absent")


@KINDS
@pytest.mark.parametrize("backbone", ["smollm2", "folder"])
def test_only_a_model_on_the_hub_has_revisions(
    kind: type[LanguageModel], backbone: str, tmp_path: Path
) -> None:
    name = str(tmp_path) if backbone == "folder" else backbone
    with pytest.raises(ValidationError, match="belongs to a model on the Hugging Face hub"):
        kind(backbone=name, revision=FIRST)


def test_an_address_has_no_revisions() -> None:
    with pytest.raises(ValidationError, match="belongs to a backbone"):
        AugPe(backbone=NAME, address="http://localhost:1", model="m", revision=FIRST)


def test_an_empty_revision_is_refused() -> None:
    with pytest.raises(ValidationError, match="revision"):
        DpSgd(backbone=NAME, revision="")
