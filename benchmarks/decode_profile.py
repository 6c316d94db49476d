"""Where the time of Aug-PE's decoding goes: a frozen backbone continues many prompts, on one GPU.

    python benchmarks/decode_profile.py            # SmolLM2's shape, under a minute on an H200
    python benchmarks/decode_profile.py --tiny     # a dry run on a CPU

Random weights of the real shape, prompts and answers as long as in a paraphrase of a short comment,
six answers to each prompt. No text ends early, so that every step has all rows: a real batch
shrinks as texts end. Needs torch, transformers and numpy only.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch

from _shapes import build
from fleet_profile import seconds, table, wait
from synthleak.releases.lm.backbone import Backbone
from synthleak.releases.lm.fleet.decoding import GROUP, Decoding, largest_logits, sample_tokens
from synthleak.releases.lm.fleet.shared_backbone import SharedBackbone, memory_of
from synthleak.releases.lm.prompting.token_sampling import TokenSampler, _Rows, plan_sampling
from synthleak.releases.lm.steering.hooks import steering_hooks

EACH, LONGEST = 6, 40
PROMPT = (90, 130)
"""Tokens of a prompt: the chat frame, the request and a comment."""


def report(title: str, took: float, whole: float) -> None:
    print(f"  {took * 1e3:9.2f} ms {took / whole:6.1%}  {title}")


def parts_of_steps(shared: SharedBackbone, rows: _Rows, how: Decoding) -> float:
    """Print the seconds of a step by part, over all steps of a batch; return the backbone's."""
    times: dict[str, float] = defaultdict(float)
    head = shared.backbone.head

    def timed(part: str, work: Callable[[], Any]) -> Any:
        made: list[Any] = []
        times[part] += seconds(lambda: made.append(work()), 1, 0)
        return made[-1]

    for step in range(how.longest - 1):
        logits = timed("head product", partial(torch.matmul, rows.hidden, head.T))
        uniforms = rows._uniforms[:, step]
        rows.last = timed("sampling", partial(sample_tokens, logits, uniforms, how, step))
        del logits
        rows.mask = torch.cat([rows.mask, torch.ones_like(rows.mask[:, :1])], dim=1)
        rows.positions = rows.positions + 1
        rows.hidden, _ = timed(
            "backbone",
            lambda: shared.step(rows.last[:, None], rows.mask, rows.positions, rows.cache),
        )
    whole = sum(times.values())
    count, steps = len(rows.last), how.longest - 1
    print(
        f"\n{steps} steps of {count:,} rows: {whole:.2f} s, {steps * count / whole:,.0f} tokens/s"
    )
    for part, took in sorted(times.items(), key=lambda item: -item[1]):
        report(f"{part}, a step", took / steps, whole / steps)
    return times["backbone"] / steps


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


def profile(shape: str, device: str, dtype: torch.dtype, most: int | None) -> None:
    model = build(shape, device, dtype)
    shared = SharedBackbone(Backbone(shape, model, None, 2, 512))
    how = Decoding(end=(2,), longest=LONGEST)
    sampler = TokenSampler(shared, rows=most)
    rng = np.random.default_rng(0)
    longest = PROMPT[1] + LONGEST
    limits = plan_sampling(shared.shape(1), memory_of(shared.device), longest, most)
    count = max(1, limits.rows // EACH)
    vocabulary = shared.backbone.head.shape[0]
    prompts = [
        tuple(rng.integers(3, vocabulary, n).tolist())
        for n in sorted(rng.integers(*PROMPT, size=count).tolist(), reverse=True)
    ]
    of = torch.arange(count, device=device).repeat_interleave(EACH)
    uniforms = rng.random((len(of), LONGEST), dtype=np.float32)
    print(f"{shape}: {count:,} prompts of {PROMPT} tokens, {EACH} answers to each; plan {limits}")
    with torch.no_grad(), steering_hooks(shared, None) as steer:
        made: list[Any] = []
        took = seconds(
            lambda: made.append(sampler._read(prompts, LONGEST, None, steer, limits.tokens)), 1, 0
        )
        tokens = sum(map(len, prompts))
        print(
            f"\nreading {tokens:,} tokens of prompts: {took:.2f} s, {tokens / took:,.0f} tokens/s"
        )
        took = seconds(
            lambda: made.append(_Rows(made[0], of, uniforms, how, None, shared.backbone.head)),
            1,
            0,
        )
        rows = made.pop()
        made.clear()
        print(f"keys and values of each prompt copied for {EACH} answers: {took:.2f} s")
        usual = parts_of_steps(shared, rows, how)
        parts_of_sampling(torch.matmul(rows.hidden, shared.backbone.head.T), how)

        def step() -> None:
            shared.step(rows.last[:, None], rows.mask, rows.positions, rows.cache)

        rows.mask = torch.cat([rows.mask, torch.ones_like(rows.mask[:, :1])], dim=1)
        rows.positions = rows.positions + 1
        table("one more step of the backbone", step, shared, -1, usual)
        half = torch.arange(0, len(rows.last), 2, device=device)
        took = seconds(lambda: rows.cache.batch_select_indices(half), 1, 0)
        print(f"\nhalf of the rows dropped: {took:.2f} s")
        wait()
    if torch.cuda.is_available():
        print(f"peak memory {torch.cuda.max_memory_allocated() / 2**30:.1f} GiB")


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
