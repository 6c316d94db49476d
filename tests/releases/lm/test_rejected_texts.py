"""Every text is looked at once it is drawn, with the labels that it was asked to fit."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from support.tiny_backbone import ask, side_of, write_backbone
from synthleak.releases.generators.augpe import AugPe
from synthleak.releases.generators.epsvec import EpsVec
from synthleak.releases.lm import evolution
from synthleak.releases.lm import text_sampling as sampler

SIDE = side_of()


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = write_backbone(tmp_path_factory.mktemp("backbone"))
    return {"backbone": folder, "encoder": "hashing", "device": "cpu", "max_tokens": 8}


@pytest.fixture
def looked_at(monkeypatch: pytest.MonkeyPatch) -> Counter[tuple[str, ...]]:
    """Count the labels that texts are looked at with; all texts pass."""
    found: Counter[tuple[str, ...]] = Counter()

    def degenerate(text: str, labels: tuple[str, ...] = ()) -> bool:
        found[labels] += 1
        return False

    monkeypatch.setattr(sampler, "degenerate", degenerate)
    return found


def test_texts_of_augpe(
    settings: dict[str, Any],
    looked_at: Counter[tuple[str, ...]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    varied: Counter[tuple[str, ...]] = Counter()

    def every_one(text: str, labels: tuple[str, ...] = ()) -> bool:
        varied[labels] += 1
        return True

    monkeypatch.setattr(evolution, "degenerate", every_one)
    first: list[str] = []
    begun = evolution.Evolution._begin

    def begin(*asked: Any) -> Any:
        instances = begun(*asked)
        first.extend(instances[0].population.texts)
        return instances

    monkeypatch.setattr(evolution.Evolution, "_begin", begin)
    made = AugPe(rounds=3, variations=2, **settings)
    release = made.generate(ask(size=12, side=SIDE))
    quota = Counter(record.labels for record in release)
    assert len(quota) > 1
    # L = 3 texts a place at first, then two rounds of two variations of each survivor.
    assert looked_at == {labels: count * (3 + 2 * 2) for labels, count in quota.items()}
    assert varied == {labels: count * 2 * 2 for labels, count in quota.items()}
    # Every variation was found to be none, so all texts are of the first population.
    assert {record.text for record in release} <= set(first)


def test_texts_of_epsvec(settings: dict[str, Any], looked_at: Counter[tuple[str, ...]]) -> None:
    made = EpsVec(candidates=4, references=3, **settings)
    release = made.generate(ask(size=12, side=side_of()))
    quota = Counter(record.labels for record in release)
    assert len(quota) > 1
    assert looked_at == {labels: count + 4 + 3 for labels, count in quota.items()}
