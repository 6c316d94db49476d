"""Mechanisms that are broken on purpose: which of them does the test of the claim find?

Each promises what its honest version promises, and has one error of those that implementations of
differential privacy have. Tiny models with random weights are trained on the CPU, on texts of
random words; `ngram` and `augpe` use the demo corpus, with canaries. Every run is an audit with
declared looks, `cohort` and `add`. A claim is broken at a rung, the model or the release, where
p ≤ 0.05 at the look (p is multiplied by the number of looks). The honest versions are played too,
and DP-SGD on records that are never targets.

    OMP_NUM_THREADS=1 python benchmarks/broken_dp.py [--runs 20] [--workers 1] [--only NAME]
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import platform
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cache
from itertools import repeat
from multiprocessing import get_context
from pathlib import Path
from typing import Any, ClassVar
from unittest.mock import patch

import numpy as np
import torch
from numpy.typing import NDArray

from synthleak.analyses.ladder import model_scores
from synthleak.audit.setup import Setup, generator_of, records_at
from synthleak.audit.stages import set_up
from synthleak.audit.steps.measurements import scored_cell
from synthleak.audit.steps.model_rung import model_values
from synthleak.audit.steps.observations import (
    look_at,
    look_with_models,
    missing_evidence,
    missing_models,
)
from synthleak.audit.steps.releases import held_claim, make_releases, missing_releases
from synthleak.core.cell import LEVEL, Cell
from synthleak.core.seeds import stream
from synthleak.core.spec import LoadedSpec, parse_spec
from synthleak.core.store import MemoryStore
from synthleak.corpus.corpus import Labels, Record
from synthleak.corpus.readers.demo import write_demo
from synthleak.metrics.measure import measure
from synthleak.metrics.scored_cell import ScoredCell
from synthleak.releases.claim import gaussian_sigma
from synthleak.releases.generator import Generator
from synthleak.releases.generators.augpe import AugPe
from synthleak.releases.generators.dpsgd import DpSgd
from synthleak.releases.generators.ngram import (
    Model,
    Ngram,
    bounded_sum,
    continuations,
    grams_of,
    noised_sum,
    public_support,
)
from synthleak.releases.lm.fleet.training import Trainer
from synthleak.releases.release import Request, Synthetic
from synthleak.selftest.tiny_backbone import tiny_model

RESULTS = Path(__file__).parent / "results"
Floats = NDArray[np.float64]

# ---------------------------------------------------------------------------- DP-SGD


class BrokenDpSgd(DpSgd):
    """DP-SGD whose steps are taken by another trainer, with the claim of the honest one."""

    trainer: ClassVar[type[Trainer]] = Trainer
    share_of_noise: ClassVar[float] = 1.0

    def generate_and_score(
        self, requests: Sequence[Request], records: Sequence[Record], *, sample: bool = True
    ) -> Iterator[tuple[Sequence[Synthetic], Floats]]:
        """Train with the other trainer."""
        with patch("synthleak.releases.lm.fleet.shared_backbone.Trainer", self.trainer):
            yield from super().generate_and_score(requests, records, sample=sample)

    def training_config(self, request: Request) -> Any:
        """Return the honest settings, with less noise where that is the error."""
        config = super().training_config(request)
        return replace(config, sigma=config.sigma * self.share_of_noise)


class _NeverClips(Trainer):
    """Adds gradients up as they are; the noise is that for clipped ones."""

    def _weights(self, grads: torch.Tensor) -> torch.Tensor:
        return torch.ones(len(grads), dtype=self._adapters.master.dtype)


class _ClipsBatches(_NeverClips):
    """Clips the mean gradient of the batch, and not each example's."""

    def clipped_sum(self, prepared: Any, chosen: Sequence[NDArray[np.int64]]) -> torch.Tensor:
        """Return the clipped mean times the expected batch, which the step divides by."""
        total = super().clipped_sum(prepared, chosen)
        for row, places in zip(total, chosen, strict=True):
            row.div_(max(len(places), 1))
            row.mul_(min(1.0, (self._config.clip or 0.0) / max(float(row.norm()), 1e-30)))
        return total.mul_(self._config.batch)


class _DividesByBatch(Trainer):
    """Divides the noised sum by the number of examples that were drawn."""

    def noised_sum(
        self, prepared: Any, chosen: Sequence[NDArray[np.int64]], *more: Any, **named: Any
    ) -> torch.Tensor:
        """Return the noised sum, scaled so that the step divides by the actual batch."""
        total = super().noised_sum(prepared, chosen, *more, **named)
        for row, places in zip(total, chosen, strict=True):
            row.mul_(self._config.batch / max(len(places), 1))
        return total


class _Shuffles(Trainer):
    """Deals every epoch's shuffled examples out to batches of one size."""

    def train(self, sets: Any, seeds: Sequence[int], *more: Any, **named: Any) -> None:
        """Train, with batches that are dealt and not drawn."""
        each = round(1 / self._config.rate)
        queues: dict[int, list[NDArray[np.int64]]] = {}

        def dealt(
            examples: int, owner: object, rate: float, coin: np.random.Generator
        ) -> NDArray[np.int64]:
            queue = queues.setdefault(id(coin), [])
            if not queue:
                queue += np.array_split(coin.permutation(examples), each)
            return np.sort(queue.pop())

        with patch("synthleak.releases.lm.fleet.training.drawn", dealt):
            super().train(sets, seeds, *more, **named)


class NoClipping(BrokenDpSgd):
    """No clipping."""

    trainer = _NeverClips


class HalfNoise(BrokenDpSgd):
    """Half of the noise."""

    share_of_noise = 1 / 2


class QuarterNoise(BrokenDpSgd):
    """A quarter of the noise."""

    share_of_noise = 1 / 4


class BatchClipping(BrokenDpSgd):
    """Batches are clipped."""

    trainer = _ClipsBatches


class ActualBatch(BrokenDpSgd):
    """The actual batch is the normaliser."""

    trainer = _DividesByBatch


class Shuffled(BrokenDpSgd):
    """Examples are shuffled and dealt, and the account says that they are drawn."""

    trainer = _Shuffles


class SameNoise(BrokenDpSgd):
    """A seed that was left in the program: beginnings, noise and draws are those of every run."""

    def generate_and_score(
        self, requests: Sequence[Request], records: Sequence[Record], *, sample: bool = True
    ) -> Iterator[tuple[Sequence[Synthetic], Floats]]:
        """Train every model with one seed."""
        same = [replace(request, seed=7) for request in requests]
        yield from super().generate_and_score(same, records, sample=sample)


class NeverIn(BrokenDpSgd):
    """Honest, and no target is ever trained on: nothing can be known of any coin."""

    spared: frozenset[str] = frozenset()

    def generate_and_score(
        self, requests: Sequence[Request], records: Sequence[Record], *, sample: bool = True
    ) -> Iterator[tuple[Sequence[Synthetic], Floats]]:
        """Train without the targets."""
        without = [
            replace(one, records=tuple(r for r in one.records if r.id not in self.spared))
            for one in requests
        ]
        yield from super().generate_and_score(without, records, sample=sample)


# ---------------------------------------------------------------------------- the others


class ObservedCells(Ngram):
    """Noise on those n-grams alone that some private record has."""

    def generate(self, request: Request) -> Sequence[Synthetic]:
        """Noise what is there, and leave the other cells at 0."""
        rng, support = stream(request.seed, "ngram"), public_support(request.public)
        total = bounded_sum(self.contributions(request), support)
        noise = rng.normal(0.0, gaussian_sigma(request.epsilon, request.delta), len(total))
        cells = np.where(total > 0, np.maximum(total + noise, 0.0), 0.0)
        return _texts(self, request, support, cells, rng)


class PrivateVocabulary(Ngram):
    """Noise on every cell, and the cells are n-grams of private records too."""

    def generate(self, request: Request) -> Sequence[Synthetic]:
        """Noise the n-grams of R and of the private records."""
        rng = stream(request.seed, "ngram")
        grams = {
            *public_support(request.public),
            *(g for r in request.records for g in grams_of(r)),
        }
        support = {gram: cell for cell, gram in enumerate(sorted(grams))}
        sigma = gaussian_sigma(request.epsilon, request.delta)
        cells = noised_sum(self.contributions(request), support, sigma, rng)
        return _texts(self, request, support, cells, rng)


def _texts(
    generator: Ngram,
    request: Request,
    support: dict[tuple[str, ...], int],
    cells: Floats,
    rng: np.random.Generator,
) -> list[Synthetic]:
    model = Model(continuations(support), cells.tolist(), generator.weights)
    classes = request.draw_classes(rng)
    return [Synthetic(model.sample(c, generator.max_words, rng), c) for c in classes]


class ExactSizes(AugPe):
    """Votes with noise, and as many texts of every class as there are private records."""

    def classes(self, request: Request) -> list[Labels]:
        """Return the classes of the private records, as often as they occur, up to the size."""
        labels = sorted(record.labels for record in request.records)
        return sorted((labels * (request.size // len(labels) + 1))[: request.size])


# ---------------------------------------------------------------------------- audits

WORDS, LENGTH = 400, 8


@cache
def vocabulary() -> tuple[str, ...]:
    """Return the words of the texts that models are trained on."""
    rng, letters = stream("words"), ("bdfgklmnprstvz", "aeiou")
    known: dict[str, None] = {}
    while len(known) < WORDS:
        spelt = (letters[at % 2][rng.integers(len(letters[at % 2]))] for at in range(6))
        known["".join(spelt)] = None
    return tuple(known)


CHAT = (
    "{% for m in messages %}<user> {{ m['content'] }} <end> {% endfor %}"
    "{% if add_generation_prompt %}<bot> {% endif %}"
)


@cache
def backbone(folder: Path, *, chat: bool) -> str:
    """Write a model with random weights, which knows the words of one corpus; return its name.

    Seeds depend on that name, so it is the same wherever the folder lies.
    """
    place = folder / ("chat" if chat else "plain")
    if place.is_dir():
        return place.name
    demo = sorted({word for record in write_demo(200, 0) for word in record.text.split(" ")})
    words = ["\n", *(demo if chat else vocabulary())]
    special = ["<user>", "<bot>"] if chat else []
    tokenizer, model = tiny_model(words, special=special, hidden=16 if chat else 32)
    if chat:
        tokenizer.chat_template = CHAT
    model.save_pretrained(place)
    tokenizer.save_pretrained(place)
    return place.name


@dataclass(frozen=True)
class Game:
    """An honest audit that broken mechanisms take part in; `looks` are numbers of releases."""

    kind: str
    epsilon: float
    records: int
    targets: int
    looks: tuple[int, ...]
    size: int
    settings: dict[str, Any] = field(default_factory=dict)
    canaries: tuple[str, ...] = ()

    def spec(self, seed: int, folder: Path) -> dict[str, Any]:
        """Return the spec of the honest audit with records and coins of this seed."""
        corpus: dict[str, Any] = {"reader": "demo", "size": 500, "seed": seed}
        settings = self.settings | {"kind": self.kind, "epsilon": [self.epsilon]}
        if self.kind != "ngram":
            settings["backbone"] = backbone(folder, chat=self.kind == "augpe")
            settings["device"] = "cpu"
        if self.kind == "dpsgd":
            path, rng = folder / f"corpus-{seed}-{os.getpid()}.jsonl", stream(seed, "texts")
            texts = [" ".join(rng.choice(vocabulary(), LENGTH)) for _ in range(500)]
            path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
            corpus = {"reader": "jsonl", "path": str(path)}
        pool: dict[str, Any] = {"name": "pool", "rule": "random", "size": self.targets, "draws": 1}
        if self.canaries:
            pool = {"name": "pool", "rule": "canary", "size": self.targets}
            pool["kind"] = list(self.canaries)
        return {
            "seed": seed,
            "prior": [],
            "corpus": corpus,
            "encoders": {"pools": "hashing", "evidence": "hashing"},
            "pool": [pool],
            "game": {
                "design": "cohort",
                "adjacency": "add",
                "instances": self.looks[-1],
                "looks": list(self.looks),
                "records": self.records,
                "release_size": self.size,
            },
            "generator": [settings],
            "evidence": {
                "families": ["char_overlap", "bm25"],
                "also": ["coverage"],
                "model": self.kind == "dpsgd",
            },
        }


STEP = {"rank": 8, "max_tokens": 16, "clip": 0.1, "learning_rate": 0.001, "epochs": 1}
ONE_STEP = Game("dpsgd", 1.0, 60, 12, (25, 50, 100), 10, STEP | {"batch_size": 60})
MANY = Game("dpsgd", 1.0, 100, 20, (300,), 10, STEP | {"batch_size": 100})
STEPS = Game("dpsgd", 1.0, 60, 12, (25, 50, 100), 10, STEP | {"batch_size": 15})
COUNTS = Game("ngram", 1.0, 100, 20, (5, 10, 20), 400, canaries=("text", "word"))
VOTES = Game(
    "augpe",
    1.0,
    60,
    12,
    (10, 20, 40),
    60,
    {"encoder": {"kind": "hashing"}, "rounds": 2, "variations": 1, "max_tokens": 8},
    canaries=("text", "label"),
)


@dataclass(frozen=True)
class Mechanism:
    """What is audited: the generator of a game, or a broken one in its place."""

    name: str
    game: Game
    broken: type[Generator] | None = None

    def setup(self, seed: int, folder: Path) -> Setup:
        """Set up the honest audit, and put the broken generator into its place."""
        setup = set_up(LoadedSpec(parse_spec(self.game.spec(seed, folder))), MemoryStore())
        if self.broken is None:
            return setup
        ((section, honest),) = setup.plugins.generators
        settings: dict[str, Any] = {name: getattr(honest, name) for name in honest.model_fields_set}
        if self.broken is NeverIn:
            asked = records_at(setup, setup.pools["pool"].asked)
            settings["spared"] = frozenset(record.id for record in asked)
        self.broken.kind, self.broken.version = self.name, 1
        chosen = ((section, self.broken.model_validate(settings)),)
        return replace(setup, plugins=replace(setup.plugins, generators=chosen))


MECHANISMS = (
    Mechanism("dpsgd, one step: honest", ONE_STEP),
    Mechanism("dpsgd, one step: targets never in", ONE_STEP, NeverIn),
    Mechanism("dpsgd: no clipping", ONE_STEP, NoClipping),
    Mechanism("dpsgd: half of the noise", ONE_STEP, HalfNoise),
    Mechanism("dpsgd: a quarter of the noise", ONE_STEP, QuarterNoise),
    Mechanism("dpsgd: the same noise in every run", ONE_STEP, SameNoise),
    Mechanism("dpsgd: clipping per batch", ONE_STEP, BatchClipping),
    Mechanism("dpsgd, four steps: honest", STEPS),
    Mechanism("dpsgd: actual batch as normaliser", STEPS, ActualBatch),
    Mechanism("dpsgd: shuffled, not Poisson", STEPS, Shuffled),
    Mechanism("dpsgd, 300 releases: honest", MANY),
    Mechanism("dpsgd, 300 releases: half of the noise", MANY, HalfNoise),
    Mechanism("ngram: honest", COUNTS),
    Mechanism("ngram: noise on observed cells only", COUNTS, ObservedCells),
    Mechanism("ngram: private vocabulary", COUNTS, PrivateVocabulary),
    Mechanism("augpe: honest", VOTES),
    Mechanism("augpe: exact class sizes", VOTES, ExactSizes),
)


def played(number: int, seed: int, folder: Path) -> list[dict[str, Any]]:
    """Play one audit of one mechanism; return a row for each rung and look."""
    torch.set_num_threads(1)
    logging.getLogger("synthleak").setLevel(logging.ERROR)
    os.chdir(folder)
    mechanism, start = MECHANISMS[number], time.process_time()
    setup = mechanism.setup(seed, folder)
    (cell,) = setup.cells
    for release in missing_releases(setup):
        make_releases(setup, release)
    for observation in missing_evidence(setup):
        look_at(setup, observation)
    for unit in missing_models(setup):
        look_with_models(setup, unit)
    rows = []
    for look in mechanism.game.looks:
        reached = replace(setup, reached={cell: look})
        scored = scored_cell(reached, cell)
        rows.append(row_of(reached, cell, "release", look, scored))
        if setup.spec.evidence.model:
            values, columns = model_values(reached, cell), generator_of(reached, cell).score_columns
            of_model = [model_scores(values, scored.plan, columns)]
            rows.append(row_of(reached, cell, "model", look, replace(scored, scores=of_model)))
    took = round(time.process_time() - start, 1)
    named = {"mechanism": mechanism.name, "seed": seed}
    return [named | row | {"cpu_seconds_of_audit": took} for row in rows]


def row_of(setup: Setup, cell: Cell, rung: str, look: int, scored: ScoredCell) -> dict[str, Any]:
    """Measure what a rung shows, with few redraws: only the test of the claim is counted."""
    found = measure(scored, held_claim(setup, cell), redraws=99, crossfit_redraws=9, spreads=False)
    assert found.epsilon is not None
    return {
        "rung": rung,
        "releases": look,
        "coins": look * len(scored.plan.targets),
        "auc": round(max(row.pooled.value for row in found.rows), 4),
        "leak_p": found.p,
        "claim_p": found.epsilon.p,
        "epsilon_lower": found.epsilon.lower,
    }


def summary(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Count, for each mechanism, rung and look, in how many runs the claim is broken."""
    made: dict[tuple[str, str, int], list[dict[str, Any]]] = {}
    for row in rows:
        made.setdefault((row["mechanism"], row["rung"], row["releases"]), []).append(row)
    return [
        {
            "mechanism": name,
            "rung": rung,
            "releases": look,
            "coins": runs[0]["coins"],
            "runs": len(runs),
            "broken": sum(row["claim_p"] <= LEVEL for row in runs),
            "leak": sum(row["leak_p"] is not None and row["leak_p"] <= LEVEL for row in runs),
            "auc": round(float(np.median([row["auc"] for row in runs])), 3),
            "claim_p": [float(f"{row['claim_p']:.2g}") for row in runs],
        }
        for (name, rung, look), runs in made.items()
    ]


def as_text(written: dict[str, Any]) -> str:
    """Write a result with a line for each entry, and for each row of its summary."""
    lines = [f"{json.dumps(key)}: {json.dumps(value)}" for key, value in written.items()]
    rows = ",\n  ".join(json.dumps(row) for row in written["summary"])
    lines[list(written).index("summary")] = f'"summary": [\n  {rows}\n ]'
    return "{\n " + ",\n ".join(lines) + "\n}\n"


def commit() -> str:
    """Return the commit of the source."""
    done = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=False)
    return done.stdout.strip()


def main() -> None:
    """Play every mechanism on the same seeds, and write how often its claim is broken."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--only", default="", help="a part of a mechanism's name")
    parser.add_argument("--out", type=Path, default=RESULTS / "broken-dp.json")
    options = parser.parse_args()
    numbers = [n for n, one in enumerate(MECHANISMS) if options.only in one.name]
    tasks = [(n, seed) for seed in range(1, options.runs + 1) for n in numbers]
    tasks.sort(key=lambda task: MECHANISMS[task[0]].game is MANY)  # what takes longest comes last
    written: dict[str, Any] = {
        "what": "claims of mechanisms that are broken on purpose, and of honest ones",
        "command": f"python benchmarks/broken_dp.py --runs {options.runs}"
        + f" --only {options.only!r}" * bool(options.only),
        "machine": platform.platform(),
        "commit": commit(),
    }
    rows: list[dict[str, Any]] = []
    with (
        tempfile.TemporaryDirectory() as name,
        ProcessPoolExecutor(options.workers, mp_context=get_context("spawn")) as workers,
    ):
        for chat in (False, True):
            backbone(Path(name), chat=chat)
        played_ones = workers.map(played, *zip(*tasks, strict=True), repeat(Path(name)))
        for made in played_ones:
            rows += made
            shown = "  ".join(
                f"{row['rung']} {row['releases']}: AUC {row['auc']:.3f}, p {row['claim_p']:.2g}"
                for row in made
            )
            print(f"{made[0]['seed']} {made[0]['mechanism']}  {shown}", flush=True)
            written["date"] = datetime.now(UTC).isoformat(timespec="seconds")
            written["summary"] = summary(rows)
            options.out.write_text(as_text(written), encoding="utf-8")
    for row in written["summary"]:
        print(row)


if __name__ == "__main__":
    main()
