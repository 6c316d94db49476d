"""Where the time of Aug-PE's decoding goes: a frozen backbone continues many prompts, on one GPU.

    python benchmarks/decode_profile.py            # SmolLM2's shape, under a minute on an H200
    python benchmarks/decode_profile.py --tiny     # a dry run on a CPU

Random weights of the real shape, prompts and answers as long as in a paraphrase of a short comment,
six answers to each prompt. Steps are timed by part with all rows; then whole batches are sampled in
each way of decoding, where a token in 25 ends an answer. Needs torch, transformers and numpy only;
kernels are timed where Triton is installed.
"""

from __future__ import annotations

import argparse
import os
import time
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch

from _shapes import build
from fleet_profile import seconds, wait
from synthleak.releases.lm.backbone import Backbone
from synthleak.releases.lm.fleet import frozen_llama
from synthleak.releases.lm.fleet.frozen_llama import AnswerCache, FrozenLlama
from synthleak.releases.lm.fleet.sampling import GROUP, Decoding, largest_logits, sample_tokens
from synthleak.releases.lm.fleet.shared_backbone import SharedBackbone
from synthleak.releases.lm.token_sampling import DECODING, TokenSampler

EACH, LONGEST = 6, 40
PROMPT = (90, 130)
"""Tokens of a prompt: the chat frame, the request and a comment."""
FRAME = 28
"""Tokens that all prompts begin with."""
CELL = 100 * 500 * (7 + 9 * 6)
"""Answers of a whole cell."""


def report(title: str, took: float, whole: float) -> None:
    print(f"  {took * 1e3:9.2f} ms {took / whole:6.1%}  {title}")


def parts_of_steps(llama: FrozenLlama, sampler: TokenSampler, prompts: Any, of: Any) -> None:
    """Print the seconds of a batch by part, all rows in every step."""
    times: dict[str, float] = defaultdict(float)
    head = sampler._shared.backbone.head
    limits = sampler.limits(PROMPT[1], LONGEST)
    how = Decoding(end=(2,), longest=LONGEST)

    def timed(part: str, work: Callable[[], Any]) -> Any:
        made: list[Any] = []
        times[part] += seconds(lambda: made.append(work()), 1, 0)
        return made[-1]

    read = timed("reading", lambda: llama.read(prompts, tokens_at_once=limits.tokens))
    tokens = sum(map(len, prompts))
    took = times.pop("reading")
    print(f"\nreading {tokens:,} tokens of prompts: {took:.2f} s, {tokens / took:,.0f} tokens/s")
    hidden = read.states[torch.from_numpy(of).to(head.device)]
    cache = llama.cache(read, of, LONGEST)
    del read
    uniforms = torch.rand(len(of), device=head.device)
    last = torch.zeros(len(of), dtype=torch.long, device=head.device)
    for step in range(LONGEST - 1):
        for start in range(0, len(of), limits.logits):
            part = slice(start, start + limits.logits)
            logits = timed("head product", partial(torch.matmul, hidden[part], head.T))
            draw = partial(sample_tokens, logits, uniforms[part], how, step)
            last[part] = timed("sampling", draw)
            del logits, draw
        hidden = timed("backbone", partial(llama.step, last, cache))
    whole, steps, count = sum(times.values()), LONGEST - 1, len(of)
    print(
        f"{steps} steps of {count:,} rows: {whole:.2f} s, {whole / steps * 1e3:.1f} ms a step,"
        f" {steps * count / whole:,.0f} tokens/s"
    )
    for part, took in sorted(times.items(), key=lambda item: -item[1]):
        report(f"{part}, a step", took / steps, whole / steps)
    parts_of_layers(llama, cache, count)
    parts_of_sampling(torch.matmul(hidden[: limits.logits], head.T), how)
    half = torch.arange(0, count, 2, device=head.device)
    print(f"\nhalf of the rows dropped: {seconds(lambda: cache.keep(half), 1, 0) * 1e3:.1f} ms")


def parts_of_layers(llama: FrozenLlama, cache: AnswerCache, rows: int) -> None:
    """Print the milliseconds of each operation of a layer, after all steps."""
    layer, heads = llama._layers[0], llama.heads
    x = torch.randn(rows, layer.qkv.shape[1], device=layer.qkv.device).to(layer.qkv.dtype)
    qkv, both = x @ layer.qkv.T, x @ layer.both.T
    mixed = torch.randn(rows, layer.o.shape[1], device=x.device).to(x.dtype)
    gated = llama._gated(both)
    works: dict[str, Callable[[], Any]] = {
        "norm": lambda: layer.first(x),
        "queries, keys, values": lambda: torch.mm(x, layer.qkv.T, out=qkv),
        "attention": lambda: cache.attend(0, qkv),
        "output onto the residual": lambda: x.addmm_(mixed, layer.o.T),
        "gate and up": lambda: torch.mm(x, layer.both.T, out=both),
        "silu(gate) * up": lambda: llama._gated(both),
        "down onto the residual": lambda: x.addmm_(gated, layer.down.T),
    }
    took = {name: seconds(work, 3, 1) for name, work in works.items()}
    whole = sum(took.values()) + took["norm"]
    print(f"\na layer of {rows:,} rows after {cache.step} tokens: {whole * 1e3:.2f} ms")
    for name, own in took.items():
        report(name, own, whole)
    if not llama.kernels:
        return
    read = cache._lengths[cache._of_group.long()].sum().item() + rows * cache.step
    size = 2 * read * heads.keys * heads.size * x.element_size()
    print(f"attention reads {size / 2**30:.2f} GiB; by options of the kernel:")
    usual = dict(frozen_llama.ANSWER_OPTIONS)
    for positions, warps, stages in (
        (32, 2, 1), (32, 2, 2), (32, 2, 3), (32, 4, 2), (64, 4, 2), (64, 4, 3)
    ):  # fmt: skip
        options = {"BT": positions, "num_warps": warps, "num_stages": stages}
        frozen_llama.ANSWER_OPTIONS.update(options)
        try:
            own = seconds(lambda: cache.attend(0, qkv), 3, 1)
        except Exception as error:  # too many registers, or too much shared memory
            print(f"  {options}: {type(error).__name__}")
            continue
        print(f"  {own * 1e3:9.2f} ms {size / own / 1e12:6.2f} TB/s  {options}")
    frozen_llama.ANSWER_OPTIONS.update(usual)


def parts_of_sampling(logits: torch.Tensor, how: Decoding) -> None:
    """Print the seconds of drawing one token of every row, by part."""
    uniforms = torch.rand(len(logits), device=logits.device)
    whole = seconds(lambda: sample_tokens(logits, uniforms, how, 5), 3, 1)
    groups = logits.shape[1] // GROUP
    k = min(how.top_k, logits.shape[1])
    print(f"\ndrawing a token of {len(logits):,} rows: {whole * 1e3:.2f} ms")
    report("largest logits", seconds(lambda: largest_logits(logits, k), 3, 1), whole)
    if groups < 2 * k:
        return
    grouped = logits[:, : groups * GROUP].unflatten(1, (GROUP, groups))
    largest = grouped.amax(dim=1)
    chosen = largest.topk(k, dim=1).indices[:, None]
    inside = grouped.gather(2, chosen.expand(-1, GROUP, -1)).flatten(1)
    for title, work in (
        ("  maxima of groups (one pass over the logits)", lambda: grouped.amax(dim=1)),
        (f"  the {k} best of {groups} groups", lambda: largest.topk(k, dim=1)),
        ("  their members", lambda: grouped.gather(2, chosen.expand(-1, GROUP, -1))),
        (f"  the {k} best of {inside.shape[1]} members", lambda: inside.topk(k, dim=1)),
    ):
        report(title, seconds(work, 3, 1), whole)


def whole_batches(shared: SharedBackbone, prompts: Any, of: Any, most: int | None) -> None:
    """Print how long whole batches take, as a release samples them, in each way of decoding."""
    rng = np.random.default_rng(1)
    vocabulary = shared.backbone.head.shape[0]
    how = Decoding(end=tuple(range(2, vocabulary, 25)), longest=LONGEST)
    uniforms = rng.random((len(of), LONGEST), dtype=np.float32)
    before: list[Any] = []
    print()
    for decoding, share in (("auto", 1), ("auto", 1), ("torch", 4)):
        few = len(of) // share // EACH * EACH
        os.environ[DECODING] = decoding
        sampler = TokenSampler(shared, rows=most)
        own = prompts[: few // EACH], of[:few], uniforms[:few], how
        wait()
        start = time.perf_counter()
        texts = sampler.sample(*own)
        took = time.perf_counter() - start
        drawn = sum(map(len, texts))
        if decoding == "torch":
            pairs = list(zip(texts, before, strict=True))
            one, four = (np.mean([a[:n] == b[:n] for a, b in pairs]) for n in (1, 4))
            print(f"the first token of {one:.1%} of answers, and four of {four:.1%}, are auto's")
        before = texts[: len(of) // 4 // EACH * EACH] if decoding == "auto" else before
        print(
            f"{decoding:7s} {few:,} answers of {drawn / few:.1f} tokens, {few // EACH:,} prompts:"
            f" {took:.2f} s, {drawn / took:,.0f} tokens/s;"
            f" a cell of {CELL:,}: {took * CELL / few:.0f} s"
        )


def profile(shape: str, device: str, dtype: torch.dtype, most: int | None) -> None:
    began = time.perf_counter()
    shared = SharedBackbone(Backbone(shape, build(shape, device, dtype), None, 2, 512))
    sampler = TokenSampler(shared, rows=most)
    llama = sampler.llama = sampler.llama or FrozenLlama(shared.backbone.model)
    limits = sampler.limits(PROMPT[1], LONGEST)
    count = max(1, limits.fitting(np.repeat(np.arange(limits.rows), EACH)) // EACH)
    rng = np.random.default_rng(0)
    vocabulary = shared.backbone.head.shape[0]
    frame = rng.integers(3, vocabulary, FRAME).tolist()
    prompts = [
        (*frame, *rng.integers(3, vocabulary, n - FRAME).tolist())
        for n in sorted(rng.integers(*PROMPT, size=count).tolist(), reverse=True)
    ]
    of = np.arange(count).repeat(EACH)
    print(f"{shape}: {count:,} prompts of {PROMPT} tokens, {EACH} answers to each; plan {limits}")
    print(f"kernels: {bool(llama.kernels)} [{time.perf_counter() - began:.0f} s]")
    for part in (
        lambda: parts_of_steps(llama, sampler, prompts, of),
        lambda: whole_batches(shared, prompts, of, most),
    ):
        with torch.no_grad():
            part()
        wait()
        if torch.cuda.is_available():
            print(f"peak memory {torch.cuda.max_memory_allocated() / 2**30:.1f} GiB")
            torch.cuda.empty_cache()
        print(f"[{time.perf_counter() - began:.0f} s]", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tiny", action="store_true")
    if parser.parse_args().tiny:
        profile("tiny", "cpu", torch.float32, 24)
    else:
        print(torch.cuda.get_device_name(), torch.__version__)
        profile("smollm2", "cuda", torch.bfloat16, None)


if __name__ == "__main__":
    main()
