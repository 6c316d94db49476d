"""A frozen backbone that the instances of a fleet share, with trainers and samplers for it.

Whether kernels are right on this machine is tested before they are used: packed kernels compute a
small step and a short text, those of a frozen Llama some answers, and both are compared with plain
torch.
"""

from __future__ import annotations

import importlib.util
import logging
import os
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, lru_cache, partial
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from synthleak.core.errors import GeneratorError
from synthleak.core.seeds import derive
from synthleak.releases.lm.backbone import Backbone, load_backbone
from synthleak.releases.lm.fleet.adapters import Adapters, FleetLinear, convert, fuse_norms
from synthleak.releases.lm.fleet.batches import Example, tile_rows
from synthleak.releases.lm.fleet.frozen_llama import FrozenLlama, head_size, plain_llama
from synthleak.releases.lm.fleet.memory import Fleet, Shape, plan_fleet
from synthleak.releases.lm.fleet.packed_fleet import KeyValueCache, PackedSampler, PackedTrainer
from synthleak.releases.lm.fleet.packed_model import LONG, PackedModel, packable
from synthleak.releases.lm.fleet.sampling import Decoding, Sampler
from synthleak.releases.lm.fleet.training import Trainer, TrainingConfig

log = logging.getLogger(__name__)
Result = TypeVar("Result")


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
            results = retry_halved(partial(make, done, fleet), fleet.instances, "instances")
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


def retry_halved(work: Callable[[int], Result], size: int, what: str) -> Result:
    """Do `work(size)`; if the device runs out of memory, warn and try again with half as many."""
    while True:
        try:
            return work(size)
        except torch.OutOfMemoryError:
            if size == 1:
                raise
        torch.cuda.empty_cache()  # what failed is freed only now
        size //= 2
        log.warning("out of device memory: continuing with %d %s at once", size, what)


TOLERANCE = 0.1
"""Relative error: half precision alone gives a few hundredths, a wrong kernel about 1.

With SmolLM2 in bfloat16 on an H200, 0.027 was measured of answers. A NaN is a mistake too: no NaN
is below it, and the largest of several errors is a NaN if one is.
"""
SHORT = 40
"""Tokens of a text that attention takes in small blocks."""
INSTANCES = 2
STEPS = 3


def packed_works(shared: SharedBackbone, rank: int) -> bool:
    """Say whether the packed pass agrees with the plain one, and log a line if it does not."""
    served = [layer.adapters for layer in shared.layers]
    try:
        adapters = _perturbed_adapters(shared, rank)
        gaps = {
            "training": _gap(*_sums(shared, adapters, SHORT)),
            "training on long texts": _gap(*_sums(shared, adapters, LONG + SHORT)),
            "reading": _gap(*_states(shared, adapters)),
        }
        wrong = [f"{gap:.0%} in {what}" for what, gap in gaps.items() if not gap < TOLERANCE]
        problem = f"it is off by {', '.join(wrong)}" if wrong else ""
    except Exception as error:  # a kernel that does not compile or start can raise anything
        problem = _in_one_line(error)
    finally:
        for layer, before in zip(shared.layers, served, strict=True):
            layer.adapters = before
    if problem:
        log.warning("the packed pass does not work here (%s): using the plain one", problem)
    return not problem


def _perturbed_adapters(shared: SharedBackbone, rank: int) -> Adapters:
    """Return adapters away from their start, where B is zero and half of the gradients vanish."""
    adapters = shared.adapters(range(INSTANCES), rank=rank, scale=2.0)
    generator = torch.Generator(shared.device).manual_seed(1)
    for slot in adapters.slots:
        slot.split(adapters.master)[1].normal_(0.0, 0.02, generator=generator)
    adapters.publish()
    return adapters


def _sums(shared: SharedBackbone, adapters: Adapters, longest: int) -> tuple[Tensor, Tensor]:
    """Return the clipped sums of some texts, packed and plain."""
    rng = np.random.default_rng(1)
    vocabulary = len(shared.backbone.head)
    sets = [
        [Example(tuple(rng.integers(0, vocabulary, n).tolist()), 2) for n in lengths]
        for lengths in ((5, longest), (23, longest - 7))
    ]
    chosen = [np.arange(len(examples)) for examples in sets]
    config = TrainingConfig(steps=1, rate=1.0, batch=1.0, learning_rate=1.0, clip=1.0)
    limits = {"longest": longest, "tokens_at_once": 1024}
    packed = PackedTrainer(PackedModel(shared.backbone.model, adapters, longest), config, **limits)
    head = shared.backbone.head
    plain = Trainer(shared.decode, head, adapters, config, examples_at_once=4, **limits)
    computed = packed.clipped_sum(packed.prepare(sets), chosen)
    return computed, plain.clipped_sum(plain.prepare(sets), chosen)


@torch.no_grad()
def _states(shared: SharedBackbone, adapters: Adapters) -> tuple[Tensor, Tensor]:
    """Return the last states of a short text of each instance, read step by step and at once."""
    texts = INSTANCES
    tokens = torch.arange(texts * STEPS, device=shared.device).view(texts, STEPS)
    tiles = tile_rows(np.ones(texts, dtype=np.int64), texts).astype(np.int32)
    cache = KeyValueCache(PackedModel(shared.backbone.model, adapters, SHORT), texts, STEPS)
    slot = torch.arange(texts, dtype=torch.int32, device=shared.device)
    where = torch.from_numpy(tiles).to(shared.device)
    for step in range(STEPS):
        states = cache.read(tokens[:, step], where, slot, step)
    with adapters.serving(slot.long()):
        return states, shared.decode(tokens)[:, -1]


def _in_one_line(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".strip().partition("\n")[0]


def _gap(computed: Tensor, expected: Tensor) -> float:
    norms = torch.linalg.vector_norm((computed - expected).double(), dim=1)
    return float((norms / torch.linalg.vector_norm(expected.double(), dim=1)).max())


def check_and_use_kernels(llama: FrozenLlama) -> None:
    """Let a frozen Llama use the kernels, if this device can run them and they agree with torch."""
    fit = llama.heads.size in (32, 64, 128) and llama.embedding.dtype != torch.float64
    on_gpu = llama.embedding.device.type == "cuda"
    if not fit or not on_gpu or not importlib.util.find_spec("triton"):
        return
    problem = kernel_problem(llama)
    if problem:
        log.warning("the kernel of attention does not work here (%s): using torch", problem)
        return
    from synthleak.releases.lm.fleet import attention_kernels

    llama.kernels = attention_kernels


@torch.no_grad()
def kernel_problem(llama: FrozenLlama) -> str:
    """Compare the kernels with torch; say what is wrong with them, or nothing."""
    try:
        gap = _attention_gap(llama)
        return "" if gap < TOLERANCE else f"it is off by {gap:.0%}"
    except Exception as error:  # a kernel that does not compile or start can raise anything
        return _in_one_line(error)
    finally:
        llama.kernels = None


def _attention_gap(llama: FrozenLlama) -> float:
    """Return the largest relative error of the last states, in tiles of several sizes."""
    from synthleak.releases.lm.fleet import attention_kernels

    gaps = []
    for most in (1, 6, 30):
        llama.kernels = None
        expected = _answered(llama, most).double()
        llama.kernels = attention_kernels
        gap = torch.linalg.vector_norm(_answered(llama, most).double() - expected)
        gaps.append(float(gap / torch.linalg.vector_norm(expected)))
    return float(np.max(gaps))


def _answered(llama: FrozenLlama, most: int) -> Tensor:
    """Return the states of answers to prompts of several lengths, some dropped on the way."""
    count = len(llama.embedding)
    lengths = (70, 33, 32, 7, 1)
    prompts = [tuple((7 * n + i) % count for i in range(n)) for n in lengths]
    answers = np.maximum(1, most - np.arange(len(lengths)))
    prompt_of = np.repeat(np.arange(len(lengths)), answers)
    cache = llama.cache(llama.read(prompts, tokens_at_once=200), prompt_of, 4)
    tokens = torch.arange(len(prompt_of), device=llama.embedding.device) % count
    states = []
    for step in range(4):
        states.append(llama.step(tokens, cache))
        if step == 1:
            left = torch.arange(1, len(tokens), 2, device=tokens.device)
            cache.keep(left)
            tokens = tokens[left]
    return torch.cat(states)
