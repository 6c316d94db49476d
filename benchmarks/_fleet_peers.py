"""Peers of `fleet.py`: DP-SGD and sampling of one instance, as users of other packages write them.

Training: a plain Transformers loop, and Opacus (`PrivacyEngine.make_private`) with LoRA by PEFT.
Sampling, with the adapter merged into the weights, which is PEFT's fast way: Transformers'
`generate` for a batch, and its continuous batching, whose manager stays from one instance to the
next (`generate_batch` would start a thread for each and wait for its end).

Nothing here imports synthleak.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import transformers
from torch import Tensor

SCALE, WEIGHT_DECAY = 2.0, 0.01
PATIENCE = 60
"""Seconds after which one instance's texts by continuous batching count as not measured."""


class PeerError(Exception):
    """A peer cannot run here; the message says why."""


@dataclass(frozen=True)
class Settings:
    """One DP-SGD step: the same for every peer and for the fleet."""

    rank: int = 16
    clip: float = 1.0
    sigma: float = 1.0
    learning_rate: float = 1e-3


class PlainLora(torch.nn.Module):
    """A frozen linear layer with one adapter, as any tutorial writes it."""

    def __init__(self, base: torch.nn.Linear, rank: int) -> None:
        super().__init__()
        self.base = base
        weight = base.weight
        self.a = torch.nn.Parameter(torch.randn(rank, base.in_features).to(weight) * 0.01)
        self.b = torch.nn.Parameter(torch.zeros(base.out_features, rank).to(weight))

    def forward(self, x: Tensor) -> Tensor:
        self.x = x.detach()
        inner = x @ self.a.T
        self.inner = inner.detach()
        y = self.base(x) + SCALE * (inner @ self.b.T)
        if y.requires_grad:
            y.register_hook(self._keep)
        return y

    def _keep(self, dy: Tensor) -> None:
        d_inner = SCALE * dy @ self.b
        self.a.each = torch.bmm(d_inner.mT, self.x)
        self.b.each = torch.bmm(dy.mT, SCALE * self.inner)


def plain_lora(model: Any, settings: Settings) -> Any:
    """Give every linear layer but the head an adapter, in place."""
    head = model.get_output_embeddings()
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            if isinstance(child, torch.nn.Linear) and child is not head:
                setattr(parent, name, PlainLora(child, settings.rank))
    return model


def peft_lora(model: Any, settings: Settings) -> Any:
    """Give every linear layer but the head an adapter of PEFT's."""
    try:
        import peft
    except ImportError:
        raise PeerError("the package peft is not installed") from None
    config = peft.LoraConfig(
        task_type="CAUSAL_LM",
        r=settings.rank,
        lora_alpha=SCALE * settings.rank,
        target_modules="all-linear",
    )
    return peft.get_peft_model(model, config)


def _optimiser(model: Any, settings: Settings) -> torch.optim.Optimizer:
    trained = [p for p in model.parameters() if p.requires_grad]
    return torch.optim.AdamW(
        trained,
        lr=settings.learning_rate,
        weight_decay=WEIGHT_DECAY,
        fused=True if trained[0].is_cuda else None,
    )


def plain_step(model: Any, tokens: Tensor, settings: Settings) -> Callable[[], None]:
    """Return a step of a model with plain adapters; gradients of each example come from hooks."""
    optimiser = _optimiser(model, settings)
    trained = [p for m in model.modules() if isinstance(m, PlainLora) for p in (m.a, m.b)]
    tokens = tokens.to(model.device)
    examples = len(tokens)

    def step() -> None:
        optimiser.zero_grad()
        logits = model(input_ids=tokens, use_cache=False).logits[:, :-1].float()
        losses = torch.nn.functional.cross_entropy(
            logits.flatten(0, 1), tokens[:, 1:].flatten(), reduction="none"
        )
        losses.view(examples, -1).mean(dim=1).sum().backward()
        norms = torch.stack([torch.linalg.vector_norm(p.each, dim=(1, 2)) for p in trained])
        weight = (settings.clip / torch.linalg.vector_norm(norms, dim=0)).clamp(max=1.0)
        for p in trained:
            total = (weight @ p.each.flatten(1)).view_as(p)
            noise = settings.sigma * settings.clip * torch.randn_like(total)
            p.grad = (total + noise) / examples
        optimiser.step()

    return step


def opacus_step(model: Any, tokens: Tensor, settings: Settings) -> Callable[[], None]:
    """Return a step of a PEFT model by Opacus: Poisson batch, hooks, flat clipping, noise, AdamW.

    The data set is the batch and the sampling rate 1, so that every step has the same work.
    """
    try:
        import opacus
    except ImportError:
        raise PeerError("the package opacus is not installed") from None
    device = model.device
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the secure random generator is off, for everybody
        private, optimiser, loader = opacus.PrivacyEngine().make_private(
            module=model.train(),
            optimizer=_optimiser(model, settings),
            data_loader=torch.utils.data.DataLoader(
                torch.utils.data.TensorDataset(tokens), batch_size=len(tokens)
            ),
            noise_multiplier=settings.sigma,
            max_grad_norm=settings.clip,
        )

    def step() -> None:
        for (batch,) in loader:
            tokens = batch.to(device)
            optimiser.zero_grad()
            private(input_ids=tokens, labels=tokens).loss.backward()
            optimiser.step()

    return step


Prompts = Sequence[Sequence[int]]


class Generate:
    """Sampling of all texts in one batch of `generate`."""

    def __init__(self, model: Any, prompts: Prompts, longest: int) -> None:
        self.model = model
        self.tokens = torch.tensor(prompts, device=model.device)
        self.decoding = _decoding(model, longest)

    def sample(self) -> int:
        """Return how many tokens were sampled."""
        self.model.merge_adapter()
        made = self.model.generate(
            input_ids=self.tokens,
            attention_mask=torch.ones_like(self.tokens),
            generation_config=self.decoding,
        )
        self.model.unmerge_adapter()
        return int(made[:, self.tokens.shape[1] :].numel())

    def close(self) -> None:
        """Nothing is kept between calls."""


class ContinuousBatching:
    """Sampling of all texts as requests to one manager, with its cache and recorded graphs."""

    def __init__(self, model: Any, prompts: Prompts, longest: int) -> None:
        self.model = model
        self.prompts = [list(prompt) for prompt in prompts]
        self.longest = longest
        config = getattr(transformers, "ContinuousBatchingConfig", None)
        base = model.get_base_model()
        if config is None or not hasattr(base, "init_continuous_batching"):
            version = transformers.__version__
            raise PeerError(f"transformers {version} has no ContinuousBatchingConfig")
        options = {"max_requests_per_batch": len(prompts)}
        if model.device.type == "cpu":  # most of the memory would be taken
            options |= {"num_blocks": len(prompts) + 8, "max_batch_tokens": 256}
        self.manager = base.init_continuous_batching(
            generation_config=_decoding(model, longest),
            continuous_batching_config=config(**options),
        )
        self.manager.warmup()
        self.manager.start()

    def sample(self) -> int:
        """Return how many tokens were sampled."""
        self.model.merge_adapter()
        self.manager.add_requests(self.prompts, max_new_tokens=self.longest)
        finished: list[int] = []
        deadline = time.monotonic() + PATIENCE
        while len(finished) < len(self.prompts):
            result = self.manager.get_result(timeout=1)
            if result is not None and result.error is not None:
                raise PeerError(f"a request failed: {str(result.error).partition(chr(10))[0]}")
            if result is not None and result.is_finished():
                finished.append(len(result.generated_tokens))
            if time.monotonic() > deadline or not (result or self.manager.is_running()):
                raise PeerError(
                    f"{len(finished)} of {len(self.prompts)} texts came in {PATIENCE} s"
                )
        self.model.unmerge_adapter()
        return sum(finished)

    def close(self) -> None:
        """End the thread and free the cache."""
        self.manager.stop(block=True)
        self.manager.destroy()


def _decoding(model: Any, longest: int) -> transformers.GenerationConfig:
    """Return decoding as the fleet's; no text ends before its full length."""
    model.generation_config.eos_token_id = None
    return transformers.GenerationConfig(
        do_sample=True,
        temperature=1.0,
        top_k=50,
        top_p=0.9,
        max_new_tokens=longest,
        pad_token_id=0,
    )


TRAINING: dict[str, tuple[Callable[..., Any], Callable[..., Callable[[], None]]]] = {
    "loop": (plain_lora, plain_step),
    "opacus": (peft_lora, opacus_step),
}
SAMPLING: dict[str, Callable[[Any, Prompts, int], Any]] = {
    "generate": Generate,
    "continuous": ContinuousBatching,
}
