"""A fleet against one instance at a time, on one GPU, same work, ratio first.

The peer is a plain Transformers loop: one instance, LoRA of rank 16 on every linear layer,
gradients of each example from forward and backward hooks, clipping, noise, AdamW. Both sides run
in one process on random weights of the real shapes: timings only, no findings.

With a corpus it also audits a cell of paper size by each ε of studies/goemotions-dpgen, on the
real SmolLM2: the seconds that 104 releases take, loading of the backbone included.

    python benchmarks/fleet.py            # needs a GPU; writes results/fleet-DATE.json
    python benchmarks/fleet.py --corpus goemotions.jsonl.gz
    python benchmarks/fleet.py --tiny     # a dry run on a CPU
"""

from __future__ import annotations

import argparse
import json
import logging
import re
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import torch

from _shapes import build
from synthleak import run
from synthleak.core.engine.progress import Lines
from synthleak.core.spec import load_spec
from synthleak.releases.lm.backbone import Backbone, load_backbone
from synthleak.releases.lm.fleet import shared_backbone as backbones
from synthleak.releases.lm.fleet.batches import Example
from synthleak.releases.lm.fleet.decoding import Decoding
from synthleak.releases.lm.fleet.memory import plan_fleet
from synthleak.releases.lm.fleet.shared_backbone import SharedBackbone, memory_of
from synthleak.releases.lm.fleet.training import TrainingConfig

RESULTS = Path(__file__).parent / "results"
STUDY = Path(__file__).parents[1] / "studies" / "goemotions-dpgen" / "audit.toml"
INSTANCES, EXAMPLES, TOKENS, LONGEST, RANK = 104, 16, 24, 64, 16
CONFIG = TrainingConfig(steps=1, rate=1.0, batch=EXAMPLES, learning_rate=1e-3, clip=1.0, sigma=1.0)


def timed(work: Callable[[], None], repeats: int, device: str) -> float:
    """Return the median seconds of `work`, after two warm-ups."""
    times = []
    for turn in range(repeats + 2):
        _wait(device)
        start = time.perf_counter()
        work()
        _wait(device)
        if turn >= 2:
            times.append(time.perf_counter() - start)
    return float(np.median(times))


def _wait(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


class PlainLora(torch.nn.Module):
    """A frozen linear layer with one adapter, as any tutorial writes it."""

    def __init__(self, base: torch.nn.Linear) -> None:
        super().__init__()
        self.base = base
        weight = base.weight
        self.a = torch.nn.Parameter(torch.randn(RANK, base.in_features).to(weight) * 0.01)
        self.b = torch.nn.Parameter(torch.zeros(base.out_features, RANK).to(weight))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.x = x.detach()
        inner = x @ self.a.T
        self.inner = inner.detach()
        y = self.base(x) + 2.0 * (inner @ self.b.T)
        if y.requires_grad:
            y.register_hook(self._keep)
        return y

    def _keep(self, dy: torch.Tensor) -> None:
        d_inner = 2.0 * dy @ self.b
        self.a.each = torch.bmm(d_inner.mT, self.x)
        self.b.each = torch.bmm(dy.mT, 2.0 * self.inner)


def plain_step(model: Any, device: str) -> Callable[[], None]:
    """Return one DP-SGD step of one instance, the plain way."""
    head = model.get_output_embeddings()
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            if isinstance(child, torch.nn.Linear) and child is not head:
                setattr(parent, name, PlainLora(child))
    trained = [p for m in model.modules() if isinstance(m, PlainLora) for p in (m.a, m.b)]
    optimiser = torch.optim.AdamW(
        trained, lr=1e-3, weight_decay=0.01, fused=True if device == "cuda" else None
    )
    vocabulary = model.config.vocab_size
    tokens = torch.randint(3, vocabulary, (EXAMPLES, TOKENS), device=device)

    def step() -> None:
        logits = model(input_ids=tokens, use_cache=False).logits[:, :-1].float()
        losses = torch.nn.functional.cross_entropy(
            logits.flatten(0, 1), tokens[:, 1:].flatten(), reduction="none"
        )
        losses.view(EXAMPLES, -1).mean(dim=1).sum().backward()
        norms = torch.stack([torch.linalg.vector_norm(p.each, dim=(1, 2)) for p in trained])
        weight = (1.0 / torch.linalg.vector_norm(norms, dim=0)).clamp(max=1.0)
        for p in trained:
            total = (weight @ p.each.flatten(1)).view_as(p)
            p.grad = (total + torch.randn_like(total)) / EXAMPLES
        optimiser.step()
        optimiser.zero_grad()

    return step


def fleet_examples(vocabulary: int, instances: int) -> list[list[Example]]:
    rng = np.random.default_rng(0)
    return [
        [Example(tuple(rng.integers(3, vocabulary, TOKENS).tolist()), 1) for _ in range(EXAMPLES)]
        for _ in range(instances)
    ]


def fleet_step(shared: SharedBackbone, instances: int, fleet: Any) -> Callable[[], None]:
    """Return one DP-SGD step of a whole fleet, as training takes it."""
    adapters = shared.adapters(range(instances), rank=RANK, scale=2.0)
    trainer = shared.trainer(adapters, CONFIG, longest=LONGEST, fleet=fleet)
    sets = fleet_examples(shared.backbone.head.shape[0], instances)
    prepared = trainer.prepare(sets)
    everyone = [np.arange(EXAMPLES)] * instances
    noise = [torch.Generator(shared.device).manual_seed(i) for i in range(instances)]

    def step() -> None:
        trainer.update(trainer.noised_sum(prepared, everyone, noise), 10)

    return step


def flops(model: Any, instances: int) -> float:
    """Count the matrix work of a step: forward and backward through frozen weights and LoRA."""
    head = model.get_output_embeddings()
    tokens = instances * EXAMPLES * TOKENS
    linear = sum(
        m.weight.numel() for m in model.modules() if m is not head and hasattr(m, "inputs")
    )
    low = sum(RANK * (m.inputs + m.outputs) for m in model.modules() if hasattr(m, "inputs"))
    return 2.0 * tokens * (2 * linear + 2 * head.weight.numel() + 3 * low)


def matrix_peak(device: str, dtype: torch.dtype, n: int) -> float:
    a, b = (torch.randn(n, n, device=device).to(dtype) for _ in range(2))
    return 2.0 * n**3 / timed(lambda: torch.matmul(a, b), 10, device)


def sampling(shared: SharedBackbone, instances: int, fleet: Any, each: int, longest: int) -> float:
    """Return tokens a second, all instances together, every text to its full length."""
    adapters = shared.adapters(range(instances), rank=RANK, scale=2.0)
    decoding = Decoding(end=(), longest=longest)
    sampler = shared.sampler(adapters, decoding, fleet=fleet)
    prompts = [[(5, 6, 7, 8, 9, 10)] * each for _ in range(instances)]
    seconds = timed(
        lambda: sampler.sample(prompts, range(instances)) and None, 1, shared.device.type
    )
    return instances * each * longest / seconds


def measure(shape: str, device: str, dtype: torch.dtype, instances: int) -> dict[str, Any]:
    shared = SharedBackbone(Backbone(shape, build(shape, device, dtype), None, 2, 512))
    fleet = plan_fleet(
        shared.shape(RANK),
        memory_of(shared.device),
        wanted=instances,
        batch=EXAMPLES,
        longest=LONGEST,
    )
    found: dict[str, Any] = {"plan": vars(fleet)}
    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()
    together = timed(fleet_step(shared, fleet.instances, fleet), 5, device)
    if device == "cuda":
        found["peak_gib"] = torch.cuda.max_memory_allocated() / 2**30
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    found["step_ms"] = together * 1e3
    found["instance_step_ms"] = together / fleet.instances * 1e3
    found["tflops"] = flops(shared.backbone.model, fleet.instances) / together / 1e12
    each = 156 if device == "cuda" else 2
    found["tokens_per_s"] = sampling(shared, fleet.instances, fleet, each, 48 if each > 2 else 4)
    if device == "cuda":
        found["sampling_peak_gib"] = torch.cuda.max_memory_allocated() / 2**30
    del shared
    if device == "cuda":
        torch.cuda.empty_cache()
    alone = timed(plain_step(build(shape, device, dtype), device), 5, device)
    found["alone_ms"] = alone * 1e3
    found["speedup"] = alone / (together / fleet.instances)
    return found


class Watch(Lines):
    """Progress that remembers how long each stage took."""

    def __init__(self) -> None:
        super().__init__()
        self.seconds: dict[str, float] = {}

    def stage(self, title: str, total: int) -> Any:
        @contextmanager
        def watched() -> Iterator[Any]:
            start = time.perf_counter()
            with super(Watch, self).stage(title, total) as stage:
                yield stage
            took = time.perf_counter() - start
            self.seconds[title] = self.seconds.get(title, 0.0) + took

        return watched()


def paper_cells(corpus: Path, out: Path) -> dict[str, dict[str, float]]:
    """Audit the cells of the study, each as if alone; leave their tables; return their seconds."""
    loaded = load_spec(STUDY)
    found = {}
    for epsilon in loaded.spec.generator[0].epsilon:
        backbones._shared.cache_clear()
        load_backbone.cache_clear()
        text = STUDY.read_text(encoding="utf-8")
        text = re.sub(r'path = ".*"', f'path = "{corpus.resolve()}"', text)
        text = re.sub(r"epsilon = .*", f"epsilon = [{epsilon:g}]", text)
        with tempfile.TemporaryDirectory() as folder:
            spec = Path(folder) / "audit.toml"
            spec.write_text(text, encoding="utf-8")
            watch = Watch()
            run(spec, Path(folder) / "run", progress=watch)
            for name in ("cells", "proxies"):
                made = Path(folder) / "run" / "results" / f"{name}.csv"
                (out / f"{name}-{epsilon:g}.csv").write_bytes(made.read_bytes())
        found[f"{epsilon:g}"] = {title: round(took, 1) for title, took in watch.seconds.items()}
    return found


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--corpus", type=Path, help="GoEmotions as JSON lines")
    parser.add_argument("--commit", default="", help="what is measured, where there is no git")
    options = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(name)s: %(message)s")
    if not options.tiny and not torch.cuda.is_available():
        print("fleet: passed over, it needs a GPU (a dry run on a CPU: --tiny)")
        return
    device = "cpu" if options.tiny else "cuda"
    dtype = torch.float32 if options.tiny else torch.bfloat16
    shapes = ["tiny"] if options.tiny else ["smollm2", "1b"]
    peak = matrix_peak(device, dtype, 256 if options.tiny else 8192)
    cells = paper_cells(options.corpus, options.out) if options.corpus else {}
    if cells:
        print(json.dumps(cells))
    found = {
        shape: measure(shape, device, dtype, 6 if options.tiny else INSTANCES) for shape in shapes
    }
    for shape, figures in found.items():
        print(f"{shape}: {figures['speedup']:.1f}x", json.dumps(figures))
    if options.tiny:
        return
    head = ["git", "rev-parse", "HEAD"]
    commit = (
        options.commit
        or subprocess.run(head, capture_output=True, text=True, check=False).stdout.strip()
    )
    result = {
        "speedup_1b": found["1b"]["speedup"],
        "speedup_smollm2": found["smollm2"]["speedup"],
        "peak_share_1b": found["1b"]["tflops"] * 1e12 / peak,
        "tokens_per_s_smollm2": found["smollm2"]["tokens_per_s"],
        "tokens_per_s_1b": found["1b"]["tokens_per_s"],
        "cell_seconds_smollm2": max((c["releases"] for c in cells.values()), default=None),
        "cells": cells,
        "matrix_peak_tflops": peak / 1e12,
        "weights": "random, real shapes: timings only",
        "gpu": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "date": datetime.now(UTC).date().isoformat(),
        "commit": commit,
        "shapes": found,
    }
    print(json.dumps({key: value for key, value in result.items() if key != "shapes"}, indent=1))
    path = options.out / f"fleet-{result['date']}.json"
    path.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
