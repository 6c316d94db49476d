"""Where the time of a fleet goes: a DP-SGD step and sampling by kind of work, on one GPU.

    python benchmarks/fleet_profile.py [--shapes smollm2 1b]    # under 3 minutes on an H200
    python benchmarks/fleet_profile.py --tiny                   # a dry run on a CPU

Random weights of the real shapes, Poisson batches of lengths as in GoEmotions. Kernels are counted
by torch's profiler in a step without recorded graphs, where each is known by the operation that
launched it; the step's own time is taken as training takes it, with recorded graphs.
Needs torch, transformers and numpy only.
"""

from __future__ import annotations

import argparse
import time
import traceback
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch

from _shapes import build
from synthleak.releases.lm.backbone import Backbone
from synthleak.releases.lm.fleet.batches import Example, PaddedExamples
from synthleak.releases.lm.fleet.memory import plan_fleet
from synthleak.releases.lm.fleet.sampling import Decoding, Sampler
from synthleak.releases.lm.fleet.shared_backbone import SharedBackbone, memory_of
from synthleak.releases.lm.fleet.training import Trainer, TrainingConfig

INSTANCES, RECORDS, BATCH, RANK, LONGEST = 104, 500, 16, 16, 64
# Tokens of a GoEmotions record with its labels, by twentieths; of a law of EUR-Lex, by quarters.
LENGTHS = (4, 9, 10, 12, 13, 14, 16, 17, 18, 20, 21, 22, 24, 25, 27, 28, 30, 32, 34, 37, 64)
LAWS, LONGEST_LAW = (170, 315, 330, 370, 448), 448
CONFIG = TrainingConfig(
    steps=1, rate=BATCH / RECORDS, batch=BATCH, learning_rate=1e-3, clip=1.0, sigma=1.0
)


def wait() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def seconds(work: Callable[[], Any], repeats: int = 5, warm: int = 2) -> float:
    """Return the median seconds of `work`."""
    taken = []
    for turn in range(warm + repeats):
        wait()
        start = time.perf_counter()
        work()
        wait()
        if turn >= warm:
            taken.append(time.perf_counter() - start)
    return float(np.median(taken))


def rate(work: Callable[[], Any], repeats: int = 20) -> float:
    """Return the seconds of one of many launches."""
    work()
    return seconds(lambda: [work() for _ in range(repeats)], 3, 1) / repeats


def ceilings(device: str, n: int) -> tuple[float, float]:
    """Measure the matrix rate and the copying rate of the device."""
    a, b = (torch.randn(n, n, device=device).bfloat16() for _ in range(2))
    peak = 2.0 * n**3 / rate(lambda: torch.matmul(a, b))
    source = torch.randn(n * n * 8, device=device)
    target = torch.empty_like(source)
    return peak, 2 * source.nbytes / rate(lambda: target.copy_(source))


def poisson(
    vocabulary: int,
    instances: int,
    tokens: Sequence[int] = LENGTHS,
    rate: float = CONFIG.rate,
) -> tuple[list[list[Example]], list[np.ndarray]]:
    """Return sets of examples, and one batch of each."""
    rng = np.random.default_rng(0)
    sets = []
    for _ in range(instances):
        lengths = np.interp(rng.random(RECORDS), np.linspace(0, 1, len(tokens)), tokens)
        prompts = rng.integers(2, 6, RECORDS)
        sets.append(
            [
                Example(
                    tuple(rng.integers(3, vocabulary, int(n)).tolist()), min(int(p), int(n) - 1)
                )
                for n, p in zip(lengths, prompts, strict=True)
            ]
        )
    return sets, [np.flatnonzero(rng.random(RECORDS) < rate) for _ in sets]


def even(vocabulary: int, instances: int) -> tuple[list[list[Example]], list[np.ndarray]]:
    """Return 16 examples of 24 tokens for each, all of them chosen."""
    rng = np.random.default_rng(0)
    sets = [
        [Example(tuple(rng.integers(3, vocabulary, 24).tolist()), 1) for _ in range(BATCH)]
        for _ in range(instances)
    ]
    return sets, [np.arange(BATCH)] * instances


def work_of(shared: SharedBackbone, tokens: int) -> float:
    """Count the matrix work of a step: forward and backward through frozen weights and LoRA."""
    linear = sum(layer.weight.numel() for layer in shared.layers)
    low = sum(RANK * (layer.inputs + layer.outputs) for layer in shared.layers)
    return 2.0 * tokens * (2 * linear + 2 * shared.backbone.head.numel() + 3 * low)


COPIES = ("aten::index_select", "aten::copy_", "aten::cat", "aten::index", "aten::gather")


def kind_of(name: str, shapes: Sequence[Any], shared: SharedBackbone, size: int) -> str:
    """Return which work an operation belongs to, by its name and the shapes it takes.

    The first row that fits decides.
    """
    dims = [tuple(s) for s in shapes if isinstance(s, (list, tuple)) and s]
    flat = {d for shape in dims for d in shape}
    head, whole, rank = shared.backbone.head.shape[0] in flat, size in flat, RANK in flat
    product = name in ("aten::mm", "aten::addmm", "aten::matmul", "aten::linear")
    batched = name in ("aten::bmm", "aten::baddbmm_", "aten::baddbmm")
    rows = (
        (product and head, "loss and head: products"),
        (product and whole, "weighted sums"),
        (product, "frozen products"),
        (batched and not rank, "attention"),
        # ClassTexts into the buffer of gradients.
        (name == "aten::bmm" and len(dims) == 3, "per-example gradients"),
        (batched, "adapter products"),
        (whole and (name.endswith("norm") or "vector_norm" in name), "per-example norms"),
        (
            whole and name in ("aten::mv", "aten::addmv", "aten::addmv_", "aten::dot"),
            "weighted sums",
        ),
        (whole and "normal" in name, "noise"),
        (whole and "index_select" in name, "adapter copies"),
        (whole, "optimiser, sums of noise and microbatches"),
        ("attention" in name, "attention"),
        (head, "loss and head: rest"),
        ("norm" in name, "layer norms"),
        (name in COPIES, f"copies ({name.removeprefix('aten::')})"),
        (name.startswith("aten::"), "elementwise"),
    )
    return next((kind for fits, kind in rows if fits), f"kernels of {name}")


def table(
    title: str, work: Callable[[], None], shared: SharedBackbone, size: int, wall: float
) -> None:
    """Print kernel times of `work` by kind, beside the wall time of the same work as it is used."""
    activities = [torch.profiler.ProfilerActivity.CPU]
    if torch.cuda.is_available():
        activities.append(torch.profiler.ProfilerActivity.CUDA)
    with torch.profiler.profile(activities=activities, record_shapes=True) as profile:
        work()
        wait()
    times: dict[str, float] = defaultdict(float)
    counts: dict[str, int] = defaultdict(int)
    rows: dict[tuple[str, str], list[float]] = defaultdict(list)
    on_gpu = torch.cuda.is_available()
    for event in profile.events():
        took = event.self_device_time_total if on_gpu else event.self_cpu_time_total
        if event.device_type != torch.autograd.DeviceType.CPU or took <= 0:
            continue
        kind = kind_of(event.name, event.input_shapes or (), shared, size)
        times[kind] += took / 1e3
        counts[kind] += 1
        rows[(kind, f"{event.name} {event.input_shapes}"[:110])].append(took / 1e3)
    whole = sum(times.values())
    print(f"\n{title}: {wall * 1e3:.1f} ms as used; kernels of one unrecorded run {whole:.1f} ms")
    for kind, took in sorted(times.items(), key=lambda item: -item[1]):
        print(f"  {took:8.2f} ms {took / whole:6.1%} {counts[kind]:6d}  {kind}")
    print(f"  {wall * 1e3 - whole:8.2f} ms             wall time beyond kernels (host, gaps)")
    print("  largest operations:")
    for (kind, name), took in sorted(rows.items(), key=lambda item: -sum(item[1]))[:16]:
        print(f"  {sum(took):8.2f} ms {len(took):6d}  {kind}: {name}")


def training(shared: SharedBackbone, instances: int, peak: float) -> None:
    fleet = plan_fleet(
        shared.shape(RANK), memory_of(shared.device), wanted=instances, batch=BATCH, longest=LONGEST
    )
    adapters = shared.adapters(range(instances), rank=RANK, scale=2.0)
    noise = [torch.Generator(shared.device).manual_seed(i) for i in range(instances)]
    for title, draw in (("16 x 24 tokens", even), ("Poisson batches", poisson)):
        sets, chosen = draw(shared.backbone.head.shape[0], instances)
        prepared = PaddedExamples(sets, shared.device, LONGEST)
        trainer = Trainer(
            shared.decode,
            shared.backbone.head,
            adapters,
            CONFIG,
            longest=LONGEST,
            tokens_at_once=fleet.tokens,
            examples_at_once=fleet.examples,
        )

        def step(
            trainer: Trainer = trainer, prepared: Any = prepared, chosen: Any = chosen
        ) -> None:
            total = trainer.clipped_sum(prepared, chosen)
            trainer.noise(total, noise)
            trainer.update(total, 10)

        wall = seconds(step)
        tokens = sum(len(s[p].tokens) for s, own in zip(sets, chosen, strict=True) for p in own)
        share = work_of(shared, tokens) / wall / peak
        print(f"\n{title}: {tokens} tokens, step {wall * 1e3:.1f} ms, {share:.1%} of peak")
        trainer._gradients.passes.recorded = False
        step()
        table(title, step, shared, adapters.size, wall)
        print(f"  peak memory {peak_memory():.1f} GiB; plan {fleet}")
    shared.drop_adapters()


def sampling(shared: SharedBackbone, instances: int, each: int, longest: int) -> None:
    fleet = plan_fleet(
        shared.shape(RANK), memory_of(shared.device), wanted=instances, batch=BATCH, longest=longest
    )
    adapters = shared.adapters(range(instances), rank=RANK, scale=2.0)
    decoding = Decoding(end=(), longest=longest)
    sampler = Sampler(shared, adapters, decoding, texts_at_once=fleet.texts)
    prompts = [[(5, 6, 7, 8)] * each for _ in range(instances)]

    def work() -> None:
        sampler.sample(prompts, range(instances))

    wall = seconds(work, 1, 1)
    title = f"sampling {instances} x {each} texts of {longest} tokens"
    table(title, work, shared, adapters.size, wall)
    print(f"  {instances * each * longest / wall:,.0f} tokens/s; peak {peak_memory():.1f} GiB")
    shared.drop_adapters()


def products(shared: SharedBackbone, tokens: int, peak: float) -> None:
    """Print the rates of products that the backbone needs, alone and stacked."""
    config = shared.backbone.model.config
    hidden, inner = config.hidden_size, config.intermediate_size
    size = hidden // config.num_attention_heads
    keys = config.num_key_value_heads * size
    device = shared.device
    print(f"\nproducts of {tokens} rows: TFLOP/s, share of peak")
    for what, inputs, outputs in (
        ("q, o", hidden, hidden),
        ("k, v", hidden, keys),
        ("qkv together", hidden, hidden + 2 * keys),
        ("gate, up", hidden, inner),
        ("gate and up together", hidden, 2 * inner),
        ("down", inner, hidden),
    ):
        x = torch.randn(tokens, inputs, device=device).bfloat16()
        y = torch.randn(tokens, outputs, device=device).bfloat16()
        w = torch.randn(outputs, inputs, device=device).bfloat16()
        work = 2.0 * tokens * inputs * outputs
        found = [
            work / rate(call) / peak
            for call in (
                lambda x=x, w=w: x @ w.T,
                lambda y=y, x=x, w=w: y.addmm_(x, w.T),
                lambda y=y, w=w: y @ w,
            )
        ]
        print(
            f"  {what:22s} {inputs:5d} -> {outputs:5d}: forward {found[0]:.0%},"
            f" onto a sum {found[1]:.0%}, backward {found[2]:.0%}"
        )
    head = shared.backbone.head
    for rows in (2048, 4096, 8192, 16384):
        x = torch.randn(rows, hidden, device=device).bfloat16()
        logits = x @ head.T
        work = 2.0 * rows * head.numel()
        forward = work / rate(lambda x=x: x @ head.T, 10) / peak
        backward = work / rate(lambda y=logits: y @ head, 10) / peak
        soft = logits.nbytes * 2 / rate(lambda y=logits: torch.softmax(y, dim=1), 10) / 1e12
        print(
            f"  head, {rows} rows: forward {forward:.0%}, backward {backward:.0%},"
            f" softmax {soft:.2f} TB/s"
        )


def optimiser(shared: SharedBackbone, instances: int) -> None:
    """Print the time of an AdamW step of all adapters: operation by operation, and fused."""
    size = sum(RANK * (layer.inputs + layer.outputs) for layer in shared.layers)
    tensors = [torch.randn(instances, size, device=shared.device) for _ in range(4)]
    master, first, second, gradient = tensors
    second.abs_()
    live = master.bfloat16()
    steps = [torch.tensor(10.0, device=shared.device)]

    def fused() -> None:
        torch._fused_adamw_(
            [master],
            [gradient],
            [first],
            [second],
            [],
            steps,
            lr=1e-3,
            beta1=0.9,
            beta2=0.999,
            weight_decay=0.01,
            eps=1e-8,
            amsgrad=False,
            maximize=False,
        )
        live.copy_(master)

    def plain() -> None:
        g = gradient.div_(16.0)
        first.lerp_(g, 0.1)
        second.mul_(0.999).addcmul_(g, g, value=0.001)
        master.mul_(1 - 1e-5)
        master.addcdiv_(first, second.sqrt().div_(0.1).add_(1e-8), value=-1e-3)
        live.copy_(master)

    generators = [torch.Generator(shared.device).manual_seed(i) for i in range(instances)]

    def noise() -> None:
        for row, generator in zip(gradient, generators, strict=True):
            row.add_(torch.empty_like(row).normal_(0.0, 1.0, generator=generator))

    print(
        f"\noptimiser: plain {rate(plain, 3) * 1e3:.2f} ms, fused {rate(fused, 3) * 1e3:.2f} ms,"
        f" noise {rate(noise, 3) * 1e3:.2f} ms"
    )


def peak_memory() -> float:
    return torch.cuda.max_memory_allocated() / 2**30 if torch.cuda.is_available() else 0.0


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--shapes", nargs="+", default=["smollm2", "1b"])
    options = parser.parse_args()
    began = time.perf_counter()
    device = "cpu" if options.tiny else "cuda"
    dtype = torch.float32 if options.tiny else torch.bfloat16
    instances, tokens = (3, 64) if options.tiny else (INSTANCES, 36_864)
    peak, copying = ceilings(device, 128 if options.tiny else 8192)
    where = "cpu" if options.tiny else torch.cuda.get_device_name()
    print(f"{where}, torch {torch.__version__}: {peak / 1e12:.0f} TFLOP/s in bf16,", end=" ")
    print(f"copies {copying / 1e12:.2f} TB/s")
    for shape in ["tiny"] if options.tiny else options.shapes:
        shared = SharedBackbone(Backbone(shape, build(shape, device, dtype), None, 2, 512))
        print(f"\n=== {shape}")
        for part in (
            partial(products, shared, tokens, peak),
            partial(training, shared, instances, peak),
            partial(sampling, shared, instances, 2 if options.tiny else 100, 40),
            partial(optimiser, shared, instances),
        ):
            if device == "cuda":
                torch.cuda.empty_cache()
                torch.cuda.reset_peak_memory_stats()
            try:
                part()
            except Exception:
                traceback.print_exc(limit=4)
            print(f"  [{time.perf_counter() - began:.0f} s]", flush=True)
        del shared


if __name__ == "__main__":
    main()
