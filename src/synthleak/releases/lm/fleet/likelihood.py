"""Fine-tune one adapter per set of texts, and score texts under each: all sets in one fleet.

This is training without privacy (docs/method.md §14): no clipping, no noise. Batches and
adapters are those of the DP-SGD fleet.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from synthleak.releases.lm.backbone import Backbone
from synthleak.releases.lm.fleet.adapters import Adapters
from synthleak.releases.lm.fleet.batches import Example
from synthleak.releases.lm.fleet.memory import Fleet
from synthleak.releases.lm.fleet.shared_backbone import SharedBackbone
from synthleak.releases.lm.fleet.training import CHUNK, TrainingConfig, progress_counter

SCALE = 2.0
"""What an adapter is multiplied by, as in `dpsgd`."""
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Tuning:
    """How adapters are fine-tuned; `fleet` caps how many are trained at once."""

    epochs: float = 3.0
    batch: int = 16
    rank: int = 16
    learning_rate: float = 2e-3
    longest: int = 128
    fleet: int | None = None

    def config(self, texts: int) -> TrainingConfig:
        batch = min(self.batch, texts)
        return TrainingConfig(
            steps=max(1, math.ceil(self.epochs * texts / batch)),
            rate=batch / texts,
            batch=float(batch),
            learning_rate=self.learning_rate,
            clip=None,
        )


def tuned_log_likelihoods(
    shared: SharedBackbone,
    sets: Sequence[Sequence[str]],
    seeds: Sequence[int],
    texts: Sequence[str],
    tuning: Tuning,
) -> list[list[Floats]]:
    """Return what fine-tuning on each set adds to the log-likelihood of each text's tokens.

    `[set][text]` is an array with a value for every token of the text. A set's values depend, up
    to rounding, on no other set; sets of one size are trained together.
    """
    longest = min(tuning.longest, shared.backbone.context)
    distinct = set(chain.from_iterable(sets))
    known = {text: example_of(text, shared.backbone, longest) for text in distinct}
    examples = [[known[text] for text in members] for members in sets]
    scored = [example_of(text, shared.backbone, longest) for text in texts]
    (bare,) = token_scores(shared, None, scored)
    gains: dict[int, list[Floats]] = {}
    for size in sorted({len(members) for members in sets}):
        of_size = [number for number, members in enumerate(sets) if len(members) == size]

        def gains_of(
            first: int, fleet: Fleet, count: int, of_size: list[int] = of_size
        ) -> list[list[Floats]]:
            chosen = of_size[first : first + count]
            its_seeds = [seeds[n] for n in chosen]
            adapters = shared.adapters(its_seeds, rank=tuning.rank, scale=SCALE)
            config = tuning.config(len(examples[chosen[0]]))
            trainer = shared.trainer(adapters, config, longest=longest, fleet=fleet)
            counter = progress_counter("fine-tuning", count, config.steps, "step")
            trainer.train([examples[n] for n in chosen], its_seeds, counter)
            return [
                [tuned - before for tuned, before in zip(scores, bare, strict=True)]
                for scores in token_scores(shared, adapters, scored)
            ]

        limits = {"batch": min(tuning.batch, size), "longest": longest, "most": tuning.fleet}
        tuned = shared.in_fleets(len(of_size), gains_of, rank=tuning.rank, **limits)
        gains |= zip(of_size, tuned, strict=True)
    return [gains[number] for number in range(len(sets))]


def example_of(text: str, backbone: Backbone, longest: int) -> Example:
    """Write a text as tokens: an opening, so that its first word is predicted too, and an end."""
    opening = backbone.opening or (backbone.end,)
    tokens = [*opening, *backbone.encode(text), backbone.end][:longest]
    return Example(tuple(tokens), len(opening))


def _content(example: Example, end: int) -> int:
    """Count the tokens that are scored: those of the text, not its end."""
    return len(example.tokens) - example.prompt - (example.tokens[-1] == end)


SCORED_TOKENS = 32_768
"""Tokens that are scored together."""


@torch.no_grad()
def token_scores(
    shared: SharedBackbone, adapters: Adapters | None, examples: Sequence[Example]
) -> list[list[Floats]]:
    """Return the log-probability of every token of every text: under each adapter, or under none.

    Texts are sorted by length, so that little padding is computed; padding stands on the right,
    where a decoder never looks.
    """
    instances = 1 if adapters is None else len(adapters.master)
    of_texts: list[list[Floats]] = [[np.zeros(0)] * len(examples) for _ in range(instances)]
    order = sorted(range(len(examples)), key=lambda n: -len(examples[n].tokens))
    start = 0
    while start < len(order):
        width = len(examples[order[start]].tokens)
        each = max(1, SCORED_TOKENS // (width * instances))
        part = order[start : start + each]
        start += len(part)
        tokens = torch.zeros(len(part), width, dtype=torch.long)
        for row, n in enumerate(part):
            tokens[row, : len(examples[n].tokens)] = torch.tensor(examples[n].tokens)
        tokens = tokens.to(shared.device).repeat(instances, 1)
        if adapters is None:
            hidden = shared.decode(tokens)
        else:
            with adapters.serving():
                hidden = shared.decode(tokens)
        scores = _next_token_scores(hidden[:, :-1], tokens[:, 1:], shared.backbone.head)
        table = scores.view(instances, len(part), width - 1).double().cpu().numpy()
        for row, n in enumerate(part):
            first = examples[n].prompt - 1
            last = first + _content(examples[n], shared.backbone.end)
            for instance in range(instances):
                of_texts[instance][n] = table[instance, row, first:last]
    return of_texts


def _next_token_scores(hidden: Tensor, following: Tensor, head: Tensor) -> Tensor:
    """Return log p of each following token, the logits of a few thousand tokens at a time."""
    states, wanted = hidden.flatten(0, 1), following.flatten()
    wide = torch.float64 if states.dtype == torch.float64 else torch.float32
    scores = torch.empty(len(states), dtype=wide, device=states.device)
    for start in range(0, len(states), CHUNK):
        part = slice(start, start + CHUNK)
        logits = torch.matmul(states[part], head.T).to(wide)
        right = logits.gather(1, wanted[part, None]).squeeze(1)
        scores[part] = right - torch.logsumexp(logits, dim=1)
    return scores.view(hidden.shape[0], hidden.shape[1])


PLACES = 6
"""Decimals that are kept: those after them are the rounding of a batch."""


class ScoredTexts:
    """Texts that are scored under every adapter of a fleet: log-likelihood less the backbone's.

    Equal texts are scored once, so that no rounding can tell them apart (docs/method.md §16).
    """

    def __init__(self, shared: SharedBackbone, examples: Sequence[Example]) -> None:
        place = {example: row for row, example in enumerate(dict.fromkeys(examples))}
        self._shared, self._examples = shared, list(place)
        self._rows = [place[example] for example in examples]
        self._bare = token_scores(shared, None, self._examples)[0]

    def __len__(self) -> int:
        return len(self._examples)

    def gains(self, adapters: Adapters) -> list[Floats]:
        """Return `[text, column]` for each adapter: the sum over tokens, and their mean.

        Args:
            adapters: those of a fleet that was trained.
        """
        return [
            np.array(
                [_sum_and_mean(after - bare) for after, bare in zip(tuned, self._bare, strict=True)]
            ).reshape(-1, 2)[self._rows]
            for tuned in token_scores(self._shared, adapters, self._examples)
        ]


def _sum_and_mean(gain: Floats) -> tuple[float, float]:
    """Return the sum and the mean of what a text's tokens gained; 0 for a text without tokens.

    >>> _sum_and_mean(np.array([1.0, 2.0])), _sum_and_mean(np.array([]))
    ((3.0, 1.5), (0.0, 0.0))
    """
    total = float(gain.sum())
    return round(total, PLACES), round(total / max(len(gain), 1), PLACES)
