"""The kernels of answers against torch: on a GPU, or on a CPU in Triton's interpreter."""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch")
ON_GPU = torch.cuda.is_available()
# Triton is interpreted only if it is told so before it is imported.
INTERPRETED = "triton" not in sys.modules or os.environ.get("TRITON_INTERPRET") == "1"
if not ON_GPU:
    os.environ["TRITON_INTERPRET"] = "1"
transformers = pytest.importorskip("transformers")

from synthleak.releases.lm import fleet  # noqa: E402
from synthleak.releases.lm.backbone import Backbone  # noqa: E402
from synthleak.releases.lm.fleet import shared_backbone  # noqa: E402
from synthleak.releases.lm.fleet.frozen_llama import FrozenLlama  # noqa: E402
from synthleak.releases.lm.fleet.shared_backbone import (  # noqa: E402
    SharedBackbone,
    check_and_use_kernels,
    kernel_problem,
)

DEVICE = torch.device("cuda" if ON_GPU else "cpu")


def small_llama(**changes: Any) -> Any:
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        **{
            "vocab_size": 60,
            "hidden_size": 96,
            "intermediate_size": 80,
            "num_hidden_layers": 2,
            "num_attention_heads": 3,
            "num_key_value_heads": 1,
            "head_dim": 32,
        }
        | changes,
        max_position_embeddings=256,
        tie_word_embeddings=True,
        initializer_range=0.2,
    )
    return transformers.LlamaForCausalLM(config).eval().requires_grad_(False).to(DEVICE)


@pytest.mark.skipif(not find_spec("triton"), reason="needs Triton")
@pytest.mark.skipif(not ON_GPU and not INTERPRETED, reason="Triton was imported before")
@pytest.mark.parametrize("changes", [{}, {"num_attention_heads": 4, "num_key_value_heads": 2}])
def test_kernels_compute_what_torch_computes(
    changes: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_backbone, "TOLERANCE", 1e-5)
    shared = SharedBackbone(Backbone("small", small_llama(**changes), None, 2, 256))
    llama = FrozenLlama(shared.backbone.model)
    assert kernel_problem(llama) == ""


@pytest.fixture
def on_gpu(monkeypatch: pytest.MonkeyPatch) -> FrozenLlama:
    """A Llama that takes itself to be on a GPU, where Triton is installed."""
    monkeypatch.setattr(fleet, "attention_kernels", ModuleType("attention_kernels"), raising=False)
    installed = SimpleNamespace(util=SimpleNamespace(find_spec=lambda name: True))
    monkeypatch.setattr(shared_backbone, "importlib", installed)
    shared = SharedBackbone(Backbone("small", small_llama(), None, 2, 256))
    llama = FrozenLlama(shared.backbone.model)
    llama.embedding = SimpleNamespace(device=torch.device("cuda"), dtype=torch.float32)
    return llama


def test_kernels_that_fail_are_not_used(
    on_gpu: FrozenLlama, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    right, wrong = torch.ones(3), torch.tensor([1, torch.nan, 1])
    states = iter([right, right, right, wrong, right, right])
    monkeypatch.setattr(shared_backbone, "_answered", lambda llama, most: next(states))
    check_and_use_kernels(on_gpu)
    assert on_gpu.kernels is None
    assert "attention does not work here (it is off by nan%): using torch" in caplog.text
    monkeypatch.setattr(shared_backbone, "_attention_gap", lambda llama: {}["a"])
    check_and_use_kernels(on_gpu)
    assert on_gpu.kernels is None
    assert "attention does not work here (KeyError: 'a')" in caplog.text
    monkeypatch.setattr(shared_backbone, "_attention_gap", lambda llama: 0.01)
    check_and_use_kernels(on_gpu)
    assert on_gpu.kernels is fleet.attention_kernels


def test_kernels_that_cannot_be_imported_are_not_needed(
    on_gpu: FrozenLlama, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(fleet, "attention_kernels", raising=False)
    monkeypatch.setitem(sys.modules, "synthleak.releases.lm.fleet.attention_kernels", None)
    check_and_use_kernels(on_gpu)
    assert on_gpu.kernels is None


@pytest.mark.parametrize(("gap", "problem"), [(0.05, ""), (0.15, "it is off by 15%")])
def test_rounding_passes_and_a_small_mistake_does_not(
    on_gpu: FrozenLlama, gap: float, problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    states = iter([torch.ones(3), (1 + gap) * torch.ones(3)] * 3)
    monkeypatch.setattr(shared_backbone, "_answered", lambda llama, most: next(states))
    assert kernel_problem(on_gpu) == problem
