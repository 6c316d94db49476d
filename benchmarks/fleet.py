"""A fleet against one instance at a time by other packages: same GPU, same work, times and ratios.

Peers of a DP-SGD step (LoRA of rank 16 on every linear layer, per-example clipping, noise, AdamW):
`loop`, a plain Transformers loop with hooks, and `opacus`, Opacus with LoRA by PEFT. Peers of
sampling: Transformers' `generate`, and `continuous`, its continuous batching. All of them take one
instance, and their time counts once per instance (`_fleet_peers.py`). Both sides run in one
process on random weights of the real shapes: timings only, no findings. What is not installed is
named as not measured. A peer's time moves with the host's processor, so the table gives ranges
over the runs that `results/` keeps.

With a corpus it also audits a cell of paper size by each ε of benchmarks/goemotions.toml, on the
real SmolLM2: the seconds that 104 releases take, loading of the backbone included.

    python benchmarks/fleet.py            # needs a GPU; writes results/fleet-DATE-TIME.json
    python benchmarks/fleet.py --only opacus continuous --shapes smollm2
    python benchmarks/fleet.py --corpus goemotions.jsonl.gz
    python benchmarks/fleet.py --table    # of the kept results; needs no GPU
    python benchmarks/fleet.py --tiny     # a dry run on a CPU
"""

from __future__ import annotations

import argparse
import gc
import importlib.metadata
import json
import logging
import os
import platform
import re
import subprocess
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import torch

from _fleet_peers import SAMPLING, TRAINING, PeerError, Settings, peft_lora
from _machine import processor
from _shapes import build
from _stages import StageTimes
from synthleak import run
from synthleak.core.spec import load_spec
from synthleak.releases.lm.backbone import Backbone, load_backbone
from synthleak.releases.lm.fleet import shared_backbone as backbones
from synthleak.releases.lm.fleet.batches import Example
from synthleak.releases.lm.fleet.memory import plan_fleet
from synthleak.releases.lm.fleet.sampling import Decoding
from synthleak.releases.lm.fleet.shared_backbone import SharedBackbone, memory_of
from synthleak.releases.lm.fleet.training import TrainingConfig

RESULTS = Path(__file__).parent / "results"
STUDY = Path(__file__).parent / "goemotions.toml"
INSTANCES, EXAMPLES, TOKENS, LONGEST, RANK = 104, 16, 24, 64, 16
PROMPT = (5, 6, 7, 8, 9, 10)
CONFIG = TrainingConfig(steps=1, rate=1.0, batch=EXAMPLES, learning_rate=1e-3, clip=1.0, sigma=1.0)
SETTINGS = Settings(rank=RANK, clip=1.0, sigma=1.0, learning_rate=1e-3)
PACKAGES = ("torch", "transformers", "peft", "opacus", "flash-attn", "triton")


def timed(work: Callable[[], None], repeats: int, device: str, warm_ups: int = 2) -> float:
    """Return the median seconds of `work`, after warm-ups."""
    times = []
    for turn in range(repeats + warm_ups):
        _wait(device)
        start = time.perf_counter()
        work()
        _wait(device)
        if turn >= warm_ups:
            times.append(time.perf_counter() - start)
    return float(np.median(times))


def _wait(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


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
    """Return the seconds of all instances together, every text to its full length."""
    adapters = shared.adapters(range(instances), rank=RANK, scale=2.0)
    decoding = Decoding(end=(), longest=longest)
    sampler = shared.sampler(adapters, decoding, fleet=fleet)
    prompts = [[PROMPT] * each for _ in range(instances)]
    return timed(lambda: sampler.sample(prompts, range(instances)) and None, 2, shared.device.type)


def training_peer(name: str, shape: str, device: str, dtype: torch.dtype) -> float:
    """Return the seconds of one step of one instance."""
    attach, step_of = TRAINING[name]
    model = build(shape, device, dtype)
    tokens = torch.tensor([e.tokens for e in fleet_examples(model.config.vocab_size, 1)[0]])
    return timed(step_of(attach(model, SETTINGS), tokens, SETTINGS), 5, device)


def sampling_peer(
    name: str, shape: str, device: str, dtype: torch.dtype, each: int, longest: int
) -> float:
    """Return the seconds that one instance's texts take, and see that all have their length."""
    model = peft_lora(build(shape, device, dtype), SETTINGS)
    sampler = SAMPLING[name](model, [PROMPT] * each, longest)

    def sample() -> None:
        if (made := sampler.sample()) != each * longest:
            raise PeerError(f"it sampled {made} of {each * longest} tokens")

    try:
        return timed(sample, 2, device, warm_ups=1)
    finally:
        sampler.close()


def peer(seconds: Callable[[], float], ours: float, instances: int) -> dict[str, Any]:
    """Return a peer's time for one instance and for all, and its ratio to ours."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of hooks on frozen layers
            took = seconds()
    except PeerError as error:
        return {"not_measured": str(error)}
    except Exception as error:
        logging.getLogger(__name__).exception("a peer failed")
        reason = str(error).strip().partition("\n")[0]
        return {"not_measured": f"failed: {type(error).__name__}: {reason}"}
    finally:
        gc.collect()
        torch.cuda.empty_cache()
    return {
        "instance_ms": took * 1e3,
        "seconds": took * instances,
        "ratio": took * instances / ours,
    }


def measure(
    shape: str, device: str, dtype: torch.dtype, instances: int, only: Sequence[str]
) -> dict[str, Any]:
    """Return our times and those of the peers in `only`."""
    each, longest = (156, 48) if device == "cuda" else (2, 4)
    cudnn = torch.backends.cuda.cudnn_sdp_enabled()
    shared = SharedBackbone(Backbone(shape, build(shape, device, dtype), None, 2, 512))
    fleet = plan_fleet(
        shared.shape(RANK),
        memory_of(shared.device),
        wanted=instances,
        batch=EXAMPLES,
        longest=LONGEST,
    )
    count = fleet.instances
    found: dict[str, Any] = {
        "plan": vars(fleet),
        "packed": shared.packs(RANK),
        "batch": [EXAMPLES, TOKENS],
        "texts": [each, longest],
        "peers": {},
    }
    step = texts = 0.0
    if training := [name for name in only if name in TRAINING]:
        _reset_peak(device)
        step = timed(fleet_step(shared, count, fleet), 5, device)
        found["step_ms"] = step * 1e3
        found["tflops"] = flops(shared.backbone.model, count) / step / 1e12
        found["peak_gib"] = _peak_gib(device)
    if drawing := [name for name in only if name in SAMPLING]:
        _reset_peak(device)
        texts = sampling(shared, count, fleet, each, longest)
        found["sampling_s"] = texts
        found["tokens_per_s"] = count * each * longest / texts
        found["sampling_peak_gib"] = _peak_gib(device)
    del shared
    gc.collect()
    torch.cuda.empty_cache()
    torch.backends.cuda.enable_cudnn_sdp(cudnn)  # which the fleet turns off
    for name in training:
        found["peers"][name] = peer(
            lambda name=name: training_peer(name, shape, device, dtype), step, count
        )
    for name in drawing:
        found["peers"][name] = peer(
            lambda name=name: sampling_peer(name, shape, device, dtype, each, longest), texts, count
        )
    return found


def _reset_peak(device: str) -> None:
    if device == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()


def _peak_gib(device: str) -> float | None:
    return torch.cuda.max_memory_allocated() / 2**30 if device == "cuda" else None


def machine() -> dict[str, Any]:
    """Return what the times depend on: GPU, the host's processor, versions."""
    return {
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        "processor": processor(),
        "cores": len(os.sched_getaffinity(0)),
        "python": platform.python_version(),
        "versions": {name: _version(name) for name in PACKAGES},
    }


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def table(results: Iterable[dict[str, Any]]) -> str:
    """Return times and ratios as ranges over runs, with the processors of their hosts."""
    runs = [run for run in results if "machine" in run]
    lines = [
        "| shape | work | peer | our time, all instances | peer's, one instance "
        "| peer's, all instances | ratio | runs |",
        "|---|---|---|---|---|---|---|---|",
    ]
    places = list(
        dict.fromkeys(
            (s, p) for run in runs for s in run["shapes"] for p in run["shapes"][s]["peers"]
        )
    )
    for shape, name in places:
        rows = [run["shapes"][shape] for run in runs if shape in run["shapes"]]
        rows = [row for row in rows if name in row["peers"]]
        done = [row for row in rows if "ratio" in row["peers"][name]]
        work = "step" if name in TRAINING else "sampling"
        if not done:
            why = "; ".join(sorted({row["peers"][name]["not_measured"] for row in rows}))
            lines.append(f"| {shape} | {work} | {name} | | | | not measured: {why} | |")
            continue
        ours = [r["step_ms"] if work == "step" else r["sampling_s"] * 1e3 for r in done]
        theirs = [row["peers"][name] for row in done]
        cells = (
            f"{_span(ours)} ms",
            f"{_span([t['instance_ms'] for t in theirs])} ms",
            f"{_span([t['seconds'] for t in theirs])} s",
            f"{_span([t['ratio'] for t in theirs])}×",
            str(len(done)),
        )
        lines.append(f"| {shape} | {work} | {name} | " + " | ".join(cells) + " |")
    hosts = {f"{run['machine']['gpu']}, host {run['machine']['processor']}" for run in runs}
    return "\n".join([*lines, *sorted(hosts)])


def _span(values: Sequence[float]) -> str:
    """Write a range in three digits, or one number where both ends read the same."""
    low, high = (_digits(end(values)) for end in (min, max))
    return low if low == high else f"{low} to {high}"


def _digits(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


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
            watch = StageTimes()
            run(spec, Path(folder) / "run", progress=watch)
            for name in ("cells", "proxies"):
                made = Path(folder) / "run" / "results" / f"{name}.csv"
                (out / f"{name}-{epsilon:g}.csv").write_bytes(made.read_bytes())
        found[f"{epsilon:g}"] = {title: round(took, 1) for title, took in watch.seconds.items()}
    return found


def kept(folder: Path) -> list[dict[str, Any]]:
    """Return the results of earlier runs, the oldest first."""
    return [json.loads(path.read_text("utf-8")) for path in sorted(folder.glob("fleet-2*.json"))]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--table", action="store_true", help="print the kept results, run nothing")
    parser.add_argument("--only", nargs="+", choices=[*TRAINING, *SAMPLING], help="these peers")
    parser.add_argument("--shapes", nargs="+", choices=["smollm2", "1b"], help="these backbones")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--corpus", type=Path, help="GoEmotions as JSON lines")
    parser.add_argument("--commit", default="", help="what is measured, where there is no git")
    options = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(name)s: %(message)s")
    if options.table:
        print(table(kept(RESULTS)))
        return
    if not options.tiny and not torch.cuda.is_available():
        print("fleet: passed over, it needs a GPU (a dry run on a CPU: --tiny)")
        return
    device = "cpu" if options.tiny else "cuda"
    dtype = torch.float32 if options.tiny else torch.bfloat16
    shapes = ["tiny"] if options.tiny else options.shapes or ["smollm2", "1b"]
    only = options.only or [*TRAINING, *SAMPLING]
    peak = matrix_peak(device, dtype, 256 if options.tiny else 8192)
    cells = paper_cells(options.corpus, options.out) if options.corpus else {}
    if cells:
        print(json.dumps(cells))
    now = datetime.now(UTC)
    head = ["git", "rev-parse", "HEAD"]
    result = {
        "machine": machine(),
        "matrix_peak_tflops": peak / 1e12,
        "weights": "random, real shapes: timings only",
        "date": now.date().isoformat(),
        "commit": options.commit
        or subprocess.run(head, capture_output=True, text=True, check=False).stdout.strip(),
        "cell_seconds_smollm2": max((c["releases"] for c in cells.values()), default=None),
        "cells": cells,
        "shapes": {},
    }
    path = options.out / f"fleet-{now:%Y-%m-%d-%H%M}.json"
    for shape in shapes:
        began = time.perf_counter()
        found = measure(shape, device, dtype, 6 if options.tiny else INSTANCES, only)
        if "tflops" in found:
            found["peak_share"] = found["tflops"] * 1e12 / peak
        found["benchmark_s"] = time.perf_counter() - began
        result["shapes"][shape] = found
        print(f"{shape}:", json.dumps(found), flush=True)
        if not options.tiny:  # what is measured is kept, whatever comes next
            path.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(result["machine"], indent=1))
    print(f"This run:\n{table([result])}")
    if not options.tiny:
        earlier = [run for run in kept(RESULTS) if run != result]
        print(f"All kept runs and this one:\n{table([*earlier, result])}")


if __name__ == "__main__":
    main()
