"""A frozen backbone that the instances of a fleet share, with trainers and samplers for it."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, lru_cache, partial
from typing import Any

import torch
from torch import Tensor

from synthleak.core.errors import GeneratorError
from synthleak.core.seeds import derive
from synthleak.releases.lm.backbone import Backbone, load_backbone
from synthleak.releases.lm.fleet.adapters import Adapters, FleetLinear, convert, fuse_norms
from synthleak.releases.lm.fleet.frozen_llama import FrozenLlama, head_size, plain_llama
from synthleak.releases.lm.fleet.kernel_checks import check_and_use_kernels, packed_works
from synthleak.releases.lm.fleet.memory import Fleet, Shape, plan_fleet
from synthleak.releases.lm.fleet.packed_fleet import PackedSampler, PackedTrainer
from synthleak.releases.lm.fleet.packed_model import PackedModel, packable
from synthleak.releases.lm.fleet.sampling import Decoding, Sampler
from synthleak.releases.lm.fleet.training import Trainer, TrainingConfig

log = logging.getLogger(__name__)


class SharedBackbone:
    """A frozen backbone whose linear layers serve many adapters."""

    def __init__(self, backbone: Backbone) -> None:
        self.backbone = backbone
        model = backbone.model
        self.layers: list[FleetLinear] = convert(model, keep=[model.get_output_embeddings()])
        fuse_norms(model)
        # cuDNN plans its attention again for every shape, and the shape changes with every step.
        torch.backends.cuda.enable_cudnn_sdp(False)
        self._base = model.base_model
        self._packs: dict[int, bool] = {}

    @property
    def device(self) -> torch.device:
        return self.layers[0].weight.device

    def adapters(self, seeds: Sequence[int], *, rank: int, scale: float) -> Adapters:
        """Return new adapters, one per seed, and attach them to the layers."""
        wide = self.layers[0].weight.dtype == torch.float64
        adapters = Adapters(
            self.layers,
            [derive(seed, "adapter") for seed in seeds],
            rank=rank,
            scale=scale,
            full=torch.float64 if wide else torch.float32,
        )
        for layer in self.layers:
            layer.adapters = adapters
        return adapters

    def drop_adapters(self) -> None:
        """Free the adapters' memory for other generators that share the backbone."""
        for layer in self.layers:
            layer.adapters = None

    def decode(self, tokens: Tensor) -> Tensor:
        """Return the last hidden states of right-padded tokens, for training.

        No mask is needed: a causal decoder never looks at the padding behind a text.
        """
        embedded = self.backbone.model.get_input_embeddings()(tokens).detach().requires_grad_()
        return self._base(inputs_embeds=embedded, use_cache=False).last_hidden_state

    def step(
        self, tokens: Tensor, mask: Tensor, positions: Tensor, cache: Any
    ) -> tuple[Tensor, Any]:
        """Return the last hidden state of every row and the key-value cache, for sampling."""
        out = self._base(
            input_ids=tokens,
            attention_mask=mask,
            position_ids=positions,
            past_key_values=cache,
            use_cache=True,
        )
        return out.last_hidden_state[:, -1], out.past_key_values

    def shape(self, rank: int) -> Shape:
        config = self.backbone.model.config
        hidden = int(config.hidden_size)
        keys = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
        weight = self.layers[0].weight
        return Shape(
            layers=int(config.num_hidden_layers),
            hidden=hidden,
            inner=int(getattr(config, "intermediate_size", None) or 4 * hidden),
            keys=int(keys) * head_size(config),
            vocabulary=int(self.backbone.head.shape[0]),
            parameters=sum(p.numel() for p in self.backbone.model.parameters()),
            adapter=sum(rank * (layer.inputs + layer.outputs) for layer in self.layers),
            bytes=weight.element_size(),
            packed=self.packs(rank),
        )

    def packs(self, rank: int) -> bool:
        """Say whether adapters of this rank can use the packed pass, which is tested once."""
        if rank not in self._packs:
            self._packs[rank] = packable(self.backbone.model, rank) and packed_works(self, rank)
        return self._packs[rank]

    @cached_property
    def frozen_llama(self) -> FrozenLlama | None:
        """The pass without adapters, if the backbone is a plain Llama and its kernels work here."""
        if not plain_llama(self.backbone.model):
            return None
        llama = FrozenLlama(self.backbone.model)
        check_and_use_kernels(llama)
        return llama if llama.kernels else None

    def in_fleets(
        self, count: int, make: Callable[[int, Fleet, int], list[Any]], *, rank: int, **limits: Any
    ) -> Iterator[Any]:
        """Yield what `make(first, fleet, size)` returns for each instance, as many at once as fit.

        `limits` are those of `plan_fleet`. If the device runs out of memory all the same, a fleet
        is made again with half as many.
        """
        done = 0
        while done < count:
            shape, memory = self.shape(rank), memory_of(self.device)
            fleet = plan_fleet(shape, memory, wanted=count - done, **limits)
            results = retry_halved(partial(make, done, fleet), fleet.instances, log.warning)
            self.drop_adapters()
            yield from results
            done += len(results)

    def trainer(
        self, adapters: Adapters, config: TrainingConfig, *, longest: int, fleet: Fleet
    ) -> Trainer:
        """Return what trains these adapters: packed where that is possible.

        Packs know the norms of texts; whole persons are clipped by the plain trainer.
        """
        if self.packs(adapters.rank) and not config.persons:
            packed = PackedModel(self.backbone.model, adapters, longest)
            return PackedTrainer(packed, config, longest=longest, tokens_at_once=fleet.tokens)
        return Trainer(
            self.decode,
            self.backbone.head,
            adapters,
            config,
            longest=longest,
            tokens_at_once=fleet.tokens,
            examples_at_once=fleet.examples,
        )

    def sampler(self, adapters: Adapters, decoding: Decoding, *, fleet: Fleet) -> Sampler:
        """Return a sampler for these adapters: packed where that is possible."""
        if self.packs(adapters.rank):
            packed = PackedModel(self.backbone.model, adapters, decoding.longest)
            return PackedSampler(packed, decoding, texts_at_once=fleet.texts)
        return Sampler(self, adapters, decoding, texts_at_once=fleet.texts)


def shared_backbone(
    name: str, device: str, dtype: str, revision: str | None = None
) -> SharedBackbone:
    """Return the shared backbone of this name, loaded once a process."""
    return _shared(name, *resolve_device(device, dtype), revision)


@lru_cache(maxsize=1)
def _shared(name: str, device: str, dtype: str, revision: str | None) -> SharedBackbone:
    return SharedBackbone(load_backbone(name, device, dtype, revision))


def resolve_device(device: str, dtype: str) -> tuple[str, str]:
    """Resolve `auto`: the GPU in bfloat16 where there is one, else the CPU in float32."""
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        torch.zeros(1, device=device)
    except (AssertionError, RuntimeError) as error:
        reason = str(error).strip().partition("\n")[0]
        raise GeneratorError(
            f"torch cannot use a device {device!r} here ({reason})",
            "device",
            "use 'auto', 'cpu', or a GPU that is there, such as 'cuda'",
        ) from None
    if dtype == "auto":
        dtype = "bfloat16" if device.startswith("cuda") else "float32"
    return device, dtype


def memory_of(device: torch.device) -> int:
    """Return how many bytes a fleet may plan with on a device."""
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        return int(free + torch.cuda.memory_reserved(device))
    return int(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") * 0.5)


def retry_halved(work: Callable[[int], Any], size: int, warn: Callable[[str], None]) -> Any:
    """Do `work(size)`; if the device runs out of memory, warn and try again with half the size."""
    while True:
        try:
            return work(size)
        except torch.OutOfMemoryError:
            if size == 1:
                raise
        torch.cuda.empty_cache()
        warn(f"out of device memory with {size} instances: continuing with {size // 2}")
        size //= 2
