"""The proxy family `lm` on one cell: 108 observations, 500 short texts each, 60 targets.

Times look_together on SmolLM2, loading included and excluded, and holds it against a slow loop: one
observation at a time, the adapter as plain matrices, autograd and torch's own AdamW. The goal is
under two minutes on one H200. Texts are GoEmotions comments, or those of the demo corpus.

    python benchmarks/lm_proxy.py --corpus goemotions.jsonl.gz   # a GPU; writes results/
    python benchmarks/lm_proxy.py --backbone FOLDER --observations 4 --texts 20 --targets 5 --slow 2
"""

from __future__ import annotations

import argparse
import json
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import torch

from synthleak.core.seeds import derive, stream
from synthleak.corpus.corpus import assemble
from synthleak.corpus.readers.demo import Demo
from synthleak.corpus.readers.jsonl import Jsonl
from synthleak.encoders.builtin.hashing import Hashing
from synthleak.evidence.models.lm import LanguageModelProxy, _values
from synthleak.evidence.observation import Observation, Targets
from synthleak.releases.lm.fleet.likelihood import SCALE, Tuning, example_of

RESULTS = Path(__file__).parent / "results"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--corpus", type=Path, help="JSON Lines with a field text")
    parser.add_argument("--backbone", default="smollm2")
    parser.add_argument("--observations", type=int, default=108)
    parser.add_argument("--texts", type=int, default=500)
    parser.add_argument("--targets", type=int, default=60)
    parser.add_argument("--max-tokens", type=int, default=64)
    parser.add_argument("--slow", type=int, default=2, help="observations of the slow loop")
    parser.add_argument("--dtype", default="auto")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    reader = Jsonl(path=args.corpus) if args.corpus else Demo(size=5000)
    texts = [record.text for record in assemble(reader, name="texts").records]
    rng = stream(1, "lm proxy benchmark")
    chosen = [texts[n] for n in rng.permutation(len(texts))]
    targets = Targets(chosen[: args.targets], Hashing().encode)
    rest = chosen[args.targets :]
    seen = [
        Observation([rest[n] for n in rng.permutation(len(rest))[: args.texts]], Hashing().encode)
        for _ in range(args.observations)
    ]
    proxy = LanguageModelProxy(backbone=args.backbone, max_tokens=args.max_tokens, dtype=args.dtype)
    start = time.perf_counter()
    proxy.check()
    loaded = time.perf_counter() - start
    start = time.perf_counter()
    values = proxy.look_together(targets, seen)
    fleet = time.perf_counter() - start
    start = time.perf_counter()
    slow = [slowly(proxy, targets, one) for one in seen[: args.slow]]
    loop = (time.perf_counter() - start) / max(1, args.slow)
    apart = [float(np.abs(a - b).max()) for a, b in zip(values, slow, strict=False)]
    ranks = [
        float(np.corrcoef(a[:, 0].argsort().argsort(), b[:, 0].argsort().argsort())[0, 1])
        for a, b in zip(values, slow, strict=False)
    ]
    device = torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu"
    made: dict[str, Any] = {
        "device": device,
        "backbone": args.backbone,
        "observations": args.observations,
        "texts": args.texts,
        "targets": args.targets,
        "loading_seconds": round(loaded, 1),
        "fleet_seconds": round(fleet, 1),
        "slow_seconds_per_observation": round(loop, 1),
        "speed_up": round(loop * args.observations / fleet, 1),
        "largest_difference_to_the_loop": max(apart, default=None),
        "rank_correlation_with_the_loop": min(ranks, default=None),
    }
    print(f"{made['speed_up']}x a loop over observations")
    print(json.dumps(made, indent=1))
    if torch.cuda.is_available() or args.out:
        out = args.out or RESULTS / f"lm_proxy-{datetime.now(UTC).date().isoformat()}.json"
        out.write_text(json.dumps(made, indent=1) + "\n", encoding="utf-8")


def slowly(proxy: LanguageModelProxy, targets: Targets, seen: Observation) -> np.ndarray:
    """Look at one observation by a plain loop: hooks, autograd, torch's AdamW, text by text."""
    shared = proxy.shared()
    backbone, seed = shared.backbone, derive("lm", seen.key)
    adapters = shared.adapters([seed], rank=proxy.rank, scale=SCALE)
    pairs = []
    for slot in adapters.slots:
        a, b = slot.split(adapters.master.clone())
        pairs.append([part[0].float().clone().requires_grad_() for part in (a, b)])
    shared.drop_adapters()

    def scores(text: str) -> np.ndarray:
        example = example_of(text, backbone, proxy.max_tokens)
        with torch.no_grad():
            tokens = torch.tensor([example.tokens], device=shared.device)
            table = torch.log_softmax(backbone.model(input_ids=tokens).logits[0].float(), 1)
        inner = len(example.tokens) - (example.tokens[-1] == backbone.end)
        places = range(example.prompt, inner)
        return np.array([float(table[n - 1, example.tokens[n]]) for n in places])

    bare = [scores(text) for text in targets.texts]
    hooks = [
        layer.register_forward_hook(_adding(pair))
        for layer, pair in zip(shared.layers, pairs, strict=True)
    ]
    examples = [example_of(text, backbone, proxy.max_tokens) for text in seen.texts]
    config = Tuning(proxy.epochs, proxy.batch_size, proxy.rank, proxy.learning_rate).config(
        len(examples)
    )
    optimiser = torch.optim.AdamW(
        [part for pair in pairs for part in pair], config.learning_rate, weight_decay=0.01
    )
    coin = stream(seed, "batches")
    for _ in range(config.steps):
        loss = torch.zeros((), device=shared.device)
        for n in np.flatnonzero(coin.random(len(examples)) < config.rate):
            tokens = torch.tensor([examples[n].tokens], device=shared.device)
            logits = backbone.model(input_ids=tokens).logits[0].float()
            first = max(examples[n].prompt, 1)
            loss = loss + torch.nn.functional.cross_entropy(
                logits[first - 1 : -1], tokens[0, first:]
            )
        optimiser.zero_grad()
        if loss.requires_grad:
            (loss / config.batch).backward()
        for pair in pairs:  # an empty batch is a step with a gradient of zero
            for part in pair:
                part.grad = torch.zeros_like(part) if part.grad is None else part.grad
        optimiser.step()
    tuned = [scores(text) for text in targets.texts]
    for hook in hooks:
        hook.remove()
    return np.array([_values(a - b) for a, b in zip(tuned, bare, strict=True)])


def _adding(pair: list[torch.Tensor]) -> Any:
    def add(_: Any, given: Any, out: torch.Tensor) -> torch.Tensor:
        inner = given[0].float() @ pair[0].T
        return out + (SCALE * inner @ pair[1].T).to(out.dtype)

    return add


if __name__ == "__main__":
    main()
