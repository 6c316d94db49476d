"""The packed pass on a GPU: whether it is right, its speed, and a profile of its time.

python benchmarks/fleet_packed.py [--sweep]
"""

from __future__ import annotations

import argparse
import time
import traceback
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import torch
import transformers

from _shapes import SHAPES, build
from fleet_profile import (
    BATCH,
    CONFIG,
    INSTANCES,
    LAWS,
    LONGEST,
    LONGEST_LAW,
    RANK,
    RECORDS,
    ceilings,
    even,
    peak_memory,
    poisson,
    seconds,
    work_of,
)
from synthleak.releases.lm.backbone import Backbone
from synthleak.releases.lm.fleet import batches
from synthleak.releases.lm.fleet import packed_model as packing
from synthleak.releases.lm.fleet.adapters import Adapters
from synthleak.releases.lm.fleet.packed_fleet import PackedSampler, PackedTrainer
from synthleak.releases.lm.fleet.packed_model import PackedModel
from synthleak.releases.lm.fleet.sampling import Decoding, Sampler
from synthleak.releases.lm.fleet.shared_backbone import SharedBackbone
from synthleak.releases.lm.fleet.training import Trainer, TrainingConfig

DEVICE = torch.device("cuda")
BEGAN = time.perf_counter()
SMALL = {
    "vocab_size": 1000,
    "hidden_size": 256,
    "intermediate_size": 512,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
}


def stamp(what: str = "") -> None:
    torch.cuda.synchronize()
    print(f"  [{time.perf_counter() - BEGAN:.0f} s] {what}", flush=True)


def shared_backbone(model: Any) -> SharedBackbone:
    return SharedBackbone(Backbone("random", model, None, 2, 512))


def small(dtype: torch.dtype) -> Any:
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        **SMALL,
        max_position_embeddings=512,
        tie_word_embeddings=True,
        eos_token_id=2,
        initializer_range=0.08,
    )
    model = transformers.LlamaForCausalLM(config)
    for name, parameter in model.named_parameters():
        if "norm" in name:
            torch.nn.init.uniform_(parameter, 0.5, 2.0)
    return model.to(DEVICE, dtype).eval().requires_grad_(False)


def trained(shared: SharedBackbone, instances: int) -> Adapters:
    """Adapters as after some training: at the start B is zero."""
    made = shared.adapters(range(instances), rank=RANK, scale=2.0)
    generator = torch.Generator(shared.device).manual_seed(1)
    for slot in made.slots:
        slot.split(made.master)[1].normal_(0.0, 0.02, generator=generator)
    made.master.copy_(made.master.bfloat16())  # the same in every precision
    made.publish()
    return made


def plain_trainer(shared: SharedBackbone, adapters: Adapters, config: TrainingConfig) -> Trainer:
    return Trainer(
        shared.decode,
        shared.backbone.head,
        adapters,
        config,
        longest=LONGEST,
        tokens_at_once=65_536,
        examples_at_once=2_000,
    )


def packed_trainer(
    shared: SharedBackbone,
    adapters: Adapters,
    config: TrainingConfig,
    at_once: int,
    longest: int = LONGEST,
) -> PackedTrainer:
    packed = PackedModel(shared.backbone.model, adapters, longest)
    return PackedTrainer(packed, config, longest=longest, tokens_at_once=at_once)


def gap(made: torch.Tensor, expected: torch.Tensor) -> float:
    norms = torch.linalg.vector_norm(made.double() - expected.double(), dim=1)
    return float((norms / torch.linalg.vector_norm(expected.double(), dim=1)).max())


def sums_agree() -> None:
    """Compare clipped sums: packed and plain, in single and half precision."""
    for title, make, instances in (
        ("small", small, 5),
        ("smollm2", lambda dtype: build("smollm2", "cuda", dtype), 4),
    ):
        for clip in (1e-3, None):
            config = TrainingConfig(1, BATCH / 500, BATCH, 1e-3, clip, 0.0)
            found: dict[tuple[str, str], torch.Tensor] = {}
            for dtype in (torch.float32, torch.bfloat16):
                shared = shared_backbone(make(torch.bfloat16).to(dtype))
                sets, chosen = poisson(shared.backbone.head.shape[0], instances)
                adapters = trained(shared, instances)
                plain = plain_trainer(shared, adapters, config)
                kind = str(dtype).split(".")[1]
                found["plain", kind] = plain.clipped_sum(plain.prepare(sets), chosen).clone()
                if title == "smollm2" and dtype is torch.float32:
                    continue  # the reference is enough
                fast = packed_trainer(shared, adapters, config, 65_536)
                prepared = fast.prepare(sets)
                found["packed", kind] = fast.clipped_sum(prepared, chosen).clone()
                fast.clipped_sum(prepared, chosen)
                again = fast.clipped_sum(prepared, chosen)
                same = torch.equal(again, found["packed", kind])
            right = found["plain", "float32"]
            gaps = {" ".join(k): f"{gap(v, right):.1e}" for k, v in found.items()}
            print(f"  {title}, clip {clip}: {gaps}; replays equal the eager pass: {same}")
    stamp("sums")


def steps_agree() -> None:
    """Compare texts and adapters after some steps in single precision."""
    shared = shared_backbone(small(torch.float32))
    config = TrainingConfig(4, BATCH / 500, BATCH, 1e-3, 0.5, 0.3)
    sets, _ = poisson(1000, 3)
    made = []
    for packed in (False, True):
        adapters = trained(shared, 3)
        trainer = (
            packed_trainer(shared, adapters, config, 65_536)
            if packed
            else plain_trainer(shared, adapters, config)
        )
        before = adapters.master.clone()
        trainer.train(sets, [1, 2, 3])
        made.append((adapters.master - before, adapters))
    print(f"  after 4 steps: {gap(made[1][0], made[0][0]):.1e}")
    adapters = made[1][1]
    for layer in shared.layers:
        layer.adapters = adapters
    prompts = [[tuple(range(5, 6 + r % 5)) for r in range(30)] for _ in range(3)]
    how = Decoding(end=tuple(range(2, 60)), longest=40, least=1)
    expected = Sampler(shared, adapters, how, texts_at_once=999).sample(prompts, [4, 5, 6])
    drawn = PackedSampler(
        PackedModel(shared.backbone.model, adapters, LONGEST), how, texts_at_once=50
    ).sample(prompts, [4, 5, 6])
    flat = ([text for own in some for text in own] for some in (expected, drawn))
    pairs = list(zip(*flat, strict=True))
    lengths = sorted({len(a) for a, _ in pairs})
    print(f"  equal texts: {sum(a == b for a, b in pairs)} of {len(pairs)}, lengths {lengths}")
    stamp("steps and texts")


def kernels(title: str, work: Callable[[], None], most: int = 26) -> dict[str, float]:
    """Print and return the milliseconds of each kernel."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        work()
        torch.cuda.synchronize()
    times: dict[str, float] = defaultdict(float)
    counts: dict[str, int] = defaultdict(int)
    for event in profile.events():
        if event.device_type == torch.autograd.DeviceType.CUDA:
            times[event.name] += event.device_time_total / 1e3
            counts[event.name] += 1
    if title:
        print(f"\n{title}: kernels {sum(times.values()):.1f} ms")
        for name, took in sorted(times.items(), key=lambda item: -item[1])[:most]:
            print(f"  {took:8.2f} ms {counts[name]:6d}  {name[:110]}")
    return times


def laws(vocabulary: int, instances: int) -> Any:
    """Return sets of long texts, and one batch of each."""
    return poisson(vocabulary, instances, LAWS, OF_LAWS.rate)


OF_LAWS = replace(CONFIG, rate=8 / RECORDS, batch=8)
WORK: dict[str, tuple[Any, TrainingConfig, int, int]] = {
    "16 x 24 tokens": (even, replace(CONFIG, rate=1.0), INSTANCES, LONGEST),
    "Poisson batches": (poisson, CONFIG, INSTANCES, LONGEST),
    "Poisson batches of laws": (laws, OF_LAWS, 50, LONGEST_LAW),
}
"""How texts are drawn, the training, the instances and the longest text."""


def take_step(trainer: Trainer, prepared: Any, chosen: Any, generators: Any) -> None:
    trainer.update(trainer.noised_sum(prepared, chosen, generators), 10)


def training(shared: SharedBackbone, peak: float, at_once: int, titles: Sequence[str]) -> None:
    for title in titles:
        draw, config, instances, longest = WORK[title]
        adapters = trained(shared, instances)
        generators = [torch.Generator(DEVICE).manual_seed(i) for i in range(instances)]
        trainer = packed_trainer(shared, adapters, config, at_once, longest)
        sets, chosen = draw(shared.backbone.head.shape[0], instances)
        prepared = trainer.prepare(sets)

        step = partial(take_step, trainer, prepared, chosen, generators)
        step()
        stamp("first step, with compilation")
        step()
        stamp("second step, recorded")
        wall = seconds(step)
        begin = time.perf_counter()
        for _ in range(5):
            step()
        host = (time.perf_counter() - begin) / 5
        torch.cuda.synchronize()
        back_to_back = (time.perf_counter() - begin) / 5
        tokens = sum(len(s[p].tokens) for s, own in zip(sets, chosen, strict=True) for p in own)
        share = work_of(shared, tokens) / back_to_back / peak
        print(
            f"\n{title}: {tokens} tokens, step {wall * 1e3:.1f} ms alone, {back_to_back * 1e3:.1f}"
            f" back to back (host {host * 1e3:.1f}), {share:.1%} of peak, {peak_memory():.1f} GiB"
        )
        kernels(title, step)
        del trainer, step, prepared, adapters
        torch.cuda.empty_cache()
    stamp()


def plain_training(shared: SharedBackbone) -> None:
    """Time a Poisson step of the plain pass."""
    adapters = trained(shared, INSTANCES)
    trainer = plain_trainer(shared, adapters, CONFIG)
    generators = [torch.Generator(DEVICE).manual_seed(i) for i in range(INSTANCES)]
    sets, chosen = poisson(shared.backbone.head.shape[0], INSTANCES)
    prepared = trainer.prepare(sets)
    wall = seconds(partial(take_step, trainer, prepared, chosen, generators), 3, 2)
    print(f"\nplain, Poisson batches: step {wall * 1e3:.1f} ms, {peak_memory():.1f} GiB")
    stamp()


def sampling(shared: SharedBackbone, each: int, longest: int) -> None:
    adapters = trained(shared, INSTANCES)
    prompts = [[(5, 6, 7, 8)] * each for _ in range(INSTANCES)]
    sampler = PackedSampler(
        PackedModel(shared.backbone.model, adapters, LONGEST),
        Decoding(end=(), longest=longest),
        texts_at_once=32_768,
    )
    plain = Sampler(shared, adapters, Decoding(end=(), longest=longest), texts_at_once=32_768)
    wall = seconds(lambda: plain.sample(prompts, range(INSTANCES)), 1, 0)
    print(f"\nplain sampling: {wall * 1e3:.0f} ms")
    sampler.sample(prompts, range(INSTANCES))
    stamp("first sampling")
    wall = seconds(lambda: sampler.sample(prompts, range(INSTANCES)), 1, 0)
    print(f"\nsampling {INSTANCES} x {each} x {longest}: {wall * 1e3:.0f} ms,", end=" ")
    print(f"{INSTANCES * each * longest / wall:,.0f} tokens/s, {peak_memory():.1f} GiB")
    kernels("sampling", lambda: sampler.sample(prompts, range(INSTANCES)) and None, 14)
    stamp()


def sweep(shared: SharedBackbone) -> None:
    """Print the time of every kernel under other ways of compiling it."""
    adapters = trained(shared, INSTANCES)
    sets, chosen = poisson(shared.backbone.head.shape[0], INSTANCES)
    names = sorted({n for module in packing_kernels() for n in vars(module) if n[0] != "_"})
    found: dict[str, dict[str, float]] = {}
    before, usual = {k: dict(v) for k, v in packing.OPTIONS.items()}, batches.ROWS
    for title, rows, options in (
        ("as it is", 64, None),
        ("2 warps", 64, {"num_warps": 2, "num_stages": 3}),
        ("2 stages", 64, {"num_warps": 4, "num_stages": 2}),
        ("64 rows, 8 warps", 64, {"num_warps": 8, "num_stages": 3}),
        ("32 rows, 2 warps", 32, {"num_warps": 2, "num_stages": 3}),
        ("128 rows, 8 warps", 128, {"num_warps": 8, "num_stages": 3}),
    ):
        packing.OPTIONS.clear()
        packing.OPTIONS.update(before if options is None else dict.fromkeys(names, options))
        packing.ROWS = batches.ROWS = rows
        try:
            trainer = packed_trainer(shared, adapters, CONFIG, 65_536)
            prepared = trainer.prepare(sets)
            trainer.clipped_sum(prepared, chosen)
            pack = next(iter(prepared.packs(chosen)))
            times = kernels("", partial(trainer._add_pack, pack))
            found[title] = {n: times.get(n, 0.0) for n in names}
        except Exception:
            traceback.print_exc(limit=3)
        stamp(title)
    packing.ROWS = batches.ROWS = usual
    packing.OPTIONS.clear()
    packing.OPTIONS.update(before)
    print("\nmilliseconds by kernel: " + " | ".join(found))
    for name in names:
        row = [times[name] for times in found.values()]
        if any(row):
            print(f"  {name:16s} " + " | ".join(f"{took:6.2f}" for took in row))


def packing_kernels() -> tuple[Any, Any]:
    from synthleak.releases.lm.fleet import attention_kernels
    from synthleak.releases.lm.fleet import kernels as others

    return attention_kernels, others


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--sweep", action="store_true")
    options = parser.parse_args()
    peak, copying = ceilings("cuda", 8192)
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}: {peak / 1e12:.0f} TFLOP/s,")
    print(f"copies {copying / 1e12:.2f} TB/s")
    backbones: dict[str, SharedBackbone] = {}

    def shared(shape: str) -> SharedBackbone:
        if shape not in backbones:
            backbones.clear()
            torch.cuda.empty_cache()
            backbones[shape] = shared_backbone(build(shape, "cuda", torch.bfloat16))
        return backbones[shape]

    for work in (
        sums_agree,
        steps_agree,
        lambda: training(shared("smollm2"), peak, 65_536, list(WORK)),
        lambda: sampling(shared("smollm2"), 100, 40),
        lambda: plain_training(shared("smollm2")),
        lambda: training(shared("1b"), peak, 61_440, list(WORK)[:2]),
        lambda: sweep(shared("smollm2")) if options.sweep else None,
    ):
        try:
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()
            work()
        except Exception:
            traceback.print_exc(limit=8)
            stamp("failed")


if __name__ == "__main__":
    assert SHAPES
    main()
