"""Against Opacus: the gradients of the same model, and the privacy of the same config."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("opacus")

from test_fleet_gradients import ONE_WIDTH, examples, shaken, shared_backbone, tiny_llama  # noqa: E402

from synthleak.releases.claim import Claim, GaussianEvent  # noqa: E402
from synthleak.releases.lm.fleet.adapters import fuse_norms  # noqa: E402
from synthleak.releases.lm.fleet.batches import IGNORED, PaddedExamples  # noqa: E402
from synthleak.releases.lm.fleet.training import example_losses  # noqa: E402


class Lora(torch.nn.Module):
    """A frozen layer beside two small ones, the way Opacus can hook."""

    def __init__(self, base: torch.nn.Linear, a: torch.Tensor, b: torch.Tensor) -> None:
        super().__init__()
        self.base = base
        self.down = torch.nn.Linear(a.shape[1], a.shape[0], bias=False, dtype=a.dtype)
        self.up = torch.nn.Linear(b.shape[1], b.shape[0], bias=False, dtype=a.dtype)
        self.down.weight.data.copy_(a)
        self.up.weight.data.copy_(b)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.base(x) + 2.0 * self.up(self.down(x))


def test_per_example_gradients_equal_opacus() -> None:
    from opacus.grad_sample import GradSampleModule

    shared = shared_backbone(tiny_llama())
    adapters = shaken(shared, instances=1)
    sets = [examples([9, 9, 9, 9])]
    (microbatch,) = PaddedExamples(sets, torch.device("cpu"), 64).microbatches(
        [np.arange(4)], ONE_WIDTH.cut
    )
    grads = adapters.live.new_empty(4, adapters.size)
    with adapters.collecting(grads, torch.zeros(4, dtype=torch.long)):
        losses = example_losses(
            shared.decode(microbatch.tokens), shared.backbone.head, microbatch.labels
        )
        losses.sum().backward()

    model = tiny_llama()
    fuse_norms(model)
    numbers = {
        name: layer.number
        for name, layer in shared.backbone.model.named_modules()
        if layer in shared.layers
    }
    for name, number in numbers.items():
        a, b = adapters.slots[number].split(adapters.master)
        parent = model.get_submodule(name.rpartition(".")[0])
        setattr(parent, name.rpartition(".")[2], Lora(model.get_submodule(name), a[0], b[0]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of hooks on frozen layers
        hooked = GradSampleModule(model, loss_reduction="sum", strict=False)
        logits = hooked(input_ids=microbatch.tokens, use_cache=False).logits
        each = torch.nn.functional.cross_entropy(
            logits.flatten(0, 1),
            microbatch.labels.flatten(),
            ignore_index=IGNORED,
            reduction="none",
        ).view(4, -1)
        (each.sum(dim=1) / (microbatch.labels != IGNORED).sum(dim=1)).sum().backward()
    for name, number in numbers.items():
        of_a, of_b = adapters.slots[number].split(grads)
        layer = hooked._module.get_submodule(name)
        assert torch.allclose(of_a, layer.down.weight.grad_sample, rtol=1e-7, atol=1e-10)
        assert torch.allclose(of_b, layer.up.weight.grad_sample, rtol=1e-7, atol=1e-10)


@pytest.mark.parametrize("n", [200, 500, 5000])
@pytest.mark.parametrize("batch", [4, 16])
@pytest.mark.parametrize("sigma", [0.7, 1.0, 2.5])
def test_the_accountant_agrees_with_opacus_s_prv(n: int, batch: int, sigma: float) -> None:
    from opacus.accountants import PRVAccountant

    steps, rate, delta = int(10 * n / batch), batch / n, 1 / n**2
    event = GaussianEvent("steps", sigma, 1.0, 2.0, steps, rate)
    ours = Claim(1.0, delta, (event,)).epsilon_at(delta)
    peer = PRVAccountant()
    peer.history = [(sigma, rate, steps)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = peer.get_epsilon(delta, eps_error=0.002, delta_error=delta / 1000)
    assert ours == pytest.approx(theirs, rel=0.01, abs=0.01)
