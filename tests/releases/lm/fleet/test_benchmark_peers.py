"""The peers of `benchmarks/fleet.py` do the work that they are timed for."""

from __future__ import annotations

import copy
import warnings
from pathlib import Path
from typing import Any

import pytest

from support.scripts import BENCHMARKS, script

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

script("_machine", BENCHMARKS)
script("_stages", BENCHMARKS)
shapes = script("_shapes", BENCHMARKS)
peers = script("_fleet_peers", BENCHMARKS)
fleet = script("fleet", BENCHMARKS)

TOKENS = torch.randint(3, 500, (6, 9), generator=torch.Generator().manual_seed(0))


def adapted(name: str) -> Any:
    """A tiny model with the peer's adapters, B as after some training."""
    if name != "loop":
        pytest.importorskip("peft")
    attach = peers.TRAINING[name][0] if name in peers.TRAINING else peers.peft_lora
    model = attach(shapes.build("tiny", "cpu", torch.float64), peers.Settings())
    generator = torch.Generator().manual_seed(1)
    for parameter in model.parameters():
        if parameter.requires_grad:
            parameter.data.normal_(0.0, 0.1, generator=generator)
    return model


def trained(model: Any) -> list[Any]:
    return [p for p in model.parameters() if p.requires_grad]


def example_gradients(model: Any) -> list[Any]:
    """Gradients of each example by autograd, one example at a time."""
    rows = []
    for tokens in TOKENS:
        loss = model(input_ids=tokens[None], labels=tokens[None]).loss
        rows.append(torch.cat([g.flatten() for g in torch.autograd.grad(loss, trained(model))]))
    return rows


@pytest.mark.parametrize("name", peers.TRAINING)
def test_a_peer_clips_and_sums_as_autograd(name: str) -> None:
    if name == "opacus":
        pytest.importorskip("opacus")
    model = adapted(name)
    rows = example_gradients(copy.deepcopy(model))
    norms = torch.stack([torch.linalg.vector_norm(row) for row in rows])
    clip = float(norms.median())
    expected = sum(
        row * min(1.0, clip / float(norm)) for row, norm in zip(rows, norms, strict=True)
    )
    settings = peers.Settings(clip=clip, sigma=0.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of hooks on frozen layers
        peers.TRAINING[name][1](model, TOKENS, settings)()
    made = torch.cat([p.grad.flatten() for p in trained(model)]) * len(TOKENS)
    assert norms.min() < clip < norms.max()
    assert torch.allclose(made, expected, rtol=1e-4, atol=1e-6 * clip)


@pytest.mark.parametrize("name", peers.TRAINING)
def test_a_peer_adds_noise_of_the_scale_of_the_clip(name: str) -> None:
    if name == "opacus":
        pytest.importorskip("opacus")
    model = adapted(name)
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        peers.TRAINING[name][1](model, TOKENS, peers.Settings(clip=0.01, sigma=50.0))()
    noise = torch.cat([p.grad.flatten() for p in trained(model)]) * len(TOKENS)
    assert float(noise.std()) == pytest.approx(0.5, rel=0.05)


@pytest.mark.parametrize("name", peers.SAMPLING)
def test_a_peer_samples_every_text_to_its_full_length(name: str) -> None:
    model = adapted(name).float()
    before = [p.clone() for p in model.parameters()]
    try:
        sampler = peers.SAMPLING[name](model, [(5, 6, 7)] * 4, 5)
    except peers.PeerError as reason:
        pytest.skip(str(reason))
    try:
        assert [sampler.sample() for _ in range(2)] == [20, 20]
    finally:
        sampler.close()
    # The adapter was merged and taken out again.
    assert all(
        torch.allclose(a, b, atol=1e-5) for a, b in zip(before, model.parameters(), strict=True)
    )


def test_a_peer_that_cannot_run_is_named() -> None:
    def missing() -> float:
        raise peers.PeerError("the package opacus is not installed")

    found = fleet.peer(missing, ours=0.1, instances=104)
    assert found == {"not_measured": "the package opacus is not installed"}
    result = {
        "machine": {"gpu": "A", "processor": "B"},
        "shapes": {"1b": {"peers": {"opacus": found}}},
    }
    assert "not measured: the package opacus is not installed" in fleet.table([result])


def test_the_table_gives_ranges_over_runs() -> None:
    def run(host: str, one: float) -> dict[str, Any]:
        own = fleet.peer(lambda: one, ours=0.1, instances=104)
        shape = {"step_ms": 100.0, "peers": {"loop": own}}
        return {"machine": {"gpu": "H200", "processor": host}, "shapes": {"smollm2": shape}}

    shown = fleet.table([run("X", 0.1), run("Y", 0.2), {"from": "before peers were kept"}])
    row = "| smollm2 | step | loop | 100 ms | 100 to 200 ms | 10.4 to 20.8 s | 104 to 208× | 2 |"
    assert row in shown.splitlines()
    assert "H200, host X" in shown and "H200, host Y" in shown


def test_the_processor_is_read_from_cpuinfo(tmp_path: Path) -> None:
    file = tmp_path / "cpuinfo"
    file.write_text("processor\t: 0\nmodel name\t: Some Chip 9\nmodel name\t: Some Chip 9\n")
    assert fleet.processor(file) == "Some Chip 9"
