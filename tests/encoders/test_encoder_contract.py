"""Every built-in encoder keeps its contract, including those not yet written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support.model_folder import write_model
from synthleak.core.errors import MissingExtra
from synthleak.encoders import Encoder, encoders

TEXTS = [
    "I took 20 mg at night and could not sleep.",
    "It works.",
    "",
    "Größe, naïve, 数字, 🙂 — and   odd\tspaces\n",
    "a long text " * 40,
    "It works!",
]


@pytest.fixture(scope="module")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture(params=[entry.name for entry in encoders])
def encoder(request: pytest.FixtureRequest) -> Encoder:
    settings: dict[str, Any] = {}
    if request.param == "sentence-transformers":
        settings["model"] = str(request.getfixturevalue("tiny_model"))
    built = encoders.build(request.param, settings, key="kind", where=("encoders",))
    try:
        built.check()
    except MissingExtra as error:
        pytest.skip(str(error))
    return built


def test_a_float32_row_per_text(encoder: Encoder) -> None:
    vectors = encoder.encode(TEXTS)
    assert vectors.dtype == np.float32
    assert vectors.ndim == 2
    assert len(vectors) == len(TEXTS)
    assert np.isfinite(vectors).all()
    assert len({vector.tobytes() for vector in vectors}) > 3


def test_no_texts_give_an_empty_array_of_the_same_width(encoder: Encoder) -> None:
    assert encoder.encode([]).shape == (0, encoder.encode(["x"]).shape[1])


def test_the_same_texts_give_the_same_vectors(encoder: Encoder) -> None:
    assert np.array_equal(encoder.encode(TEXTS), encoder.encode(TEXTS))


def test_a_row_comes_from_its_text_alone(encoder: Encoder) -> None:
    together = encoder.encode(TEXTS)
    alone = np.concatenate([encoder.encode([text]) for text in TEXTS])
    turned = encoder.encode(TEXTS[::-1])[::-1]
    scale = np.abs(together).max()
    assert np.abs(together - alone).max() <= 1e-5 * scale
    assert np.abs(together - turned).max() <= 1e-5 * scale


def test_identity_names_the_encoder_and_no_place(encoder: Encoder, tmp_path: Path) -> None:
    identity = encoder.identity()
    assert identity["kind"] == encoder.kind
    assert identity["version"] >= 1
    assert not {"batch", "device"} & set(identity)
    assert "/" not in str(identity)


def test_what_is_installed_passes_its_own_check(encoder: Encoder) -> None:
    encoder.check()
