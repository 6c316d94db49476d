"""Memory is planned: no plan exceeds its limit by its own arithmetic, and an overflow halves."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

from synthleak.core.errors import GeneratorError
from synthleak.releases.lm.fleet.memory import HEADROOM, Fleet, Shape, plan_fleet

GIB = 2**30
SMOLLM2 = Shape(30, 576, 1536, 192, 49_152, 134_515_008, 4_884_480, 2)
LLAMA_1B = Shape(16, 2048, 8192, 512, 128_256, 1_235_814_400, 11_272_192, 2)


def used(shape: Shape, fleet: Fleet, longest: int) -> tuple[int, int]:
    fixed = shape.weights + fleet.instances * shape.instance
    training = fleet.tokens * shape.token + fleet.examples * shape.example + shape.head
    return fixed + training, fixed + fleet.texts * shape.text(longest)


@pytest.mark.parametrize("shape", [SMOLLM2, LLAMA_1B], ids=["smollm2", "1b"])
@pytest.mark.parametrize("gib", [24, 80, 141])
@pytest.mark.parametrize("longest", [32, 128, 512])
def test_no_plan_overflows(shape: Shape, gib: int, longest: int) -> None:
    fleet = plan_fleet(shape, gib * GIB, wanted=104, batch=16, longest=longest)
    assert max(used(shape, fleet, longest)) <= gib * GIB * HEADROOM
    assert fleet.tokens >= longest
    assert 1 <= fleet.instances <= 104


def test_fleet_size_respects_memory_and_cap() -> None:
    assert plan_fleet(SMOLLM2, 141 * GIB, wanted=104, batch=16, longest=64).instances == 104
    assert plan_fleet(LLAMA_1B, 141 * GIB, wanted=104, batch=16, longest=64).instances == 104
    assert plan_fleet(SMOLLM2, 141 * GIB, wanted=104, batch=16, longest=64, most=7).instances == 7
    small = plan_fleet(LLAMA_1B, 24 * GIB, wanted=104, batch=16, longest=64)
    assert small.instances < 40


def test_what_does_not_fit_is_said() -> None:
    with pytest.raises(GeneratorError, match=r"needs .* GiB for one instance, but only"):
        plan_fleet(LLAMA_1B, 3 * GIB, wanted=104, batch=16, longest=64)


def test_out_of_memory_halves_the_fleet(caplog: pytest.LogCaptureFixture) -> None:
    import torch

    from synthleak.releases.lm.fleet.shared_backbone import retry_halved

    tried: list[int] = []

    def work(size: int) -> str:
        tried.append(size)
        if size > 5:
            raise torch.OutOfMemoryError
        return "made"

    assert retry_halved(work, 20, "instances") == "made"
    assert tried == [20, 10, 5]
    assert "out of device memory: continuing with 10 instances at once" in caplog.text
    with pytest.raises(torch.OutOfMemoryError):
        retry_halved(lambda size: work(99), 1, "instances")
