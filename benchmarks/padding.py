"""What one record does to the others' gradients in DP-SGD, through padding and kernel shapes.

    python benchmarks/padding.py

A step computes its records in portions. Kernels may add up in an order that depends on the shape of
a portion, so a record that changes the shape may change the bits of the others' gradients. The
claim of `dpsgd` bounds how far a record moves the sum, so what it does to the *others* counts
(design/claim-dpsgd.md).

Poisson batches of a fleet are computed with SmolLM2 on invented messages, then with one record more
in the first instance: longer than all others, shorter, or typical. The clipped gradients of all
others are compared bit by bit, and the sums, less the record's own contribution, by norm.

| shapes | |
|---|---|
| by longest | a portion is padded to its longest record |
| as it is | what training does: a record's own length decides its width, its peers the rows |
| no split-K | the same on a GPU, with kernels that do not split the inner dimension |
| fixed rows | all rows are filled up too, so that nothing depends on other records |

Controls: the same batch again, and the same batch replayed from a recorded graph. On a GPU the
milliseconds of a step are printed for all of them.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import numpy as np
import torch

from synthleak.corpus.corpus import Record
from synthleak.corpus.demo import write_demo
from synthleak.releases.fleet.batches import Block, Cut, Example, Library, Portion, Shapes, rounded
from synthleak.releases.fleet.crew import Crew, crew_of, memory_of
from synthleak.releases.fleet.memory import plan_fleet
from synthleak.releases.fleet.passes import Passes
from synthleak.releases.fleet.training import MARGIN, Course, Trainer, weighted_sum
from synthleak.releases.generators.dpsgd import example_of

LONGEST = 64
RECORDS, BATCH = 500, 16
CLIP = 1.0
KINDS = ("longer", "shorter", "typical")
BY_LONGEST, AS_IT_IS = "by longest", "as it is"
NO_SPLIT, FIXED_ROWS = "no split-K", "fixed rows"
REDUCTION = "allow_bf16_reduced_precision_reduction"
Key = tuple[int, bytes]
Add = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


@dataclass(frozen=True)
class Setting:
    """A type, how many instances are trained together, and how many batches are drawn."""

    dtype: str
    instances: int
    trials: int


GPU = (Setting("bfloat16", 104, 2), Setting("bfloat16", 1, 4), Setting("float32", 8, 1))
CPU = (Setting("float32", 1, 3), Setting("bfloat16", 1, 3))


def by_longest(shapes: Shapes) -> Cut:
    """Return a cut into portions as wide as their longest; few shapes, by halving the last."""

    def cut(lengths: np.ndarray) -> list[Block]:
        blocks, start = [], 0
        while start < len(lengths):
            width = min(rounded(int(lengths[start])), LONGEST)
            rows = max(1, min(shapes.tokens // max(width, 16), shapes.examples))
            while rows // 2 >= len(lengths) - start:
                rows //= 2
            start = min(start + rows, len(lengths))
            blocks.append(Block(start, rows, width))
        return blocks

    return cut


def fixed_rows(shapes: Shapes, tokens: int) -> Cut:
    """Return a cut like training's own, with as many rows as fit into so many tokens, always."""

    def cut(lengths: np.ndarray) -> list[Block]:
        return [
            Block(block.end, max(1, min(tokens // block.width, shapes.examples)), block.width)
            for block in replace(shapes, tokens=tokens, floor=0).cut(lengths)
        ]

    return cut


@contextmanager
def reductions(name: str) -> Iterator[None]:
    """Choose the kernels of matrix products."""
    if name == NO_SPLIT:
        setattr(torch.backends.cuda.matmul, REDUCTION, (False, False))
    try:
        yield
    finally:
        if name == NO_SPLIT:
            setattr(torch.backends.cuda.matmul, REDUCTION, True)


@dataclass
class Moves:
    """How far the others were moved, in units of the clipping norm."""

    others: int = 0
    moved: int = 0
    one: float = 0.0
    own: float = 0.0
    elsewhere: float = 0.0

    def add(self, more: Moves) -> None:
        self.others += more.others
        self.moved += more.moved
        self.one = max(self.one, more.one)
        self.own = max(self.own, more.own)
        self.elsewhere = max(self.elsewhere, more.elsewhere)


@dataclass
class World:
    """What a batch contributes: each record's gradient and factor, and each instance's sum."""

    sums: torch.Tensor
    records: dict[Key, tuple[torch.Tensor, torch.Tensor]] = field(default_factory=dict)

    def contribution(self, key: Key) -> torch.Tensor:
        """Return a record's clipped gradient; its factor has the type of its gradient."""
        grads, weight = self.records[key]
        return grads.double() * weight.to(grads.dtype).double()


class Bench:
    """A fleet of adapters on a backbone, and batches to compute."""

    def __init__(self, crew: Crew, instances: int) -> None:
        self.crew = crew
        self.adapters = crew.adapters(range(instances), rank=16, scale=2.0)
        # As after some training: at the start B is zero, and half of the gradients vanish.
        generator = torch.Generator(crew.device).manual_seed(1)
        for slot in self.adapters.slots:
            _, b = slot.split(self.adapters.master)
            b.normal_(0.0, 0.02, generator=generator)
        self.adapters.publish()
        self.fleet = plan_fleet(
            crew.shape(16), memory_of(crew.device), wanted=instances, batch=BATCH, longest=LONGEST
        )
        head = crew.backbone.head
        self.eager = Passes(crew.decode, head, self.adapters, recorded=False)
        self.usual = Passes(crew.decode, head, self.adapters)
        self.trainer = Trainer(
            crew.decode,
            head,
            self.adapters,
            Course(1, BATCH / RECORDS, BATCH, 1e-3, CLIP, 1.0),
            longest=LONGEST,
            tokens_at_once=self.fleet.tokens,
            examples_at_once=self.fleet.examples,
        )
        self.sets = examples(crew, instances)
        self.library = Library(self.sets, crew.device, LONGEST)

    def world(self, chosen: Sequence[np.ndarray], cut: Cut, passes: Passes) -> World:
        """Compute a batch as the trainer does, and keep every record's contribution."""
        made = World(torch.zeros_like(self.adapters.master))
        for part in self.library.portions(chosen, cut):
            grads = passes(part)
            weight = self.trainer._weights(grads)
            tokens = part.tokens.cpu().numpy()
            for row, instance in enumerate(part.instances.tolist()):
                key = (instance, np.trim_zeros(tokens[row], "b").tobytes())
                made.records[key] = (grads[row].clone(), weight[row].clone())
            add_up(part, grads, weight, made.sums, weighted_sum)
        return made

    def rounding(self, world: World) -> tuple[float, float]:
        """Return the largest clipped norm, and how far the first sum is from that in double."""
        largest, exact = 0.0, torch.zeros_like(world.sums[0], dtype=torch.float64)
        for key in world.records:
            clipped = world.contribution(key)
            largest = max(largest, float(torch.linalg.vector_norm(clipped)))
            if key[0] == 0:
                exact += clipped
        gap = torch.linalg.vector_norm(world.sums[0].double() - exact)
        return largest / CLIP, float(gap) / CLIP

    def seconds(self, chosen: Sequence[np.ndarray], cut: Cut, add: Add = weighted_sum) -> float:
        """Return how long the clipped sums of one step take, recorded where that is usual."""
        passes = Passes(self.crew.decode, self.crew.backbone.head, self.adapters)
        total = torch.zeros_like(self.adapters.master)
        taken = []
        for _ in range(6):
            settle(self.crew.device)
            began = time.perf_counter()
            for part in self.library.portions(chosen, cut):
                grads = passes(part)
                add_up(part, grads, self.trainer._weights(grads), total, add)
            settle(self.crew.device)
            taken.append(time.perf_counter() - began)
        del passes
        torch.cuda.empty_cache()
        return min(taken)


def moves(without: World, with_it: World, added: Key | None = None) -> Moves:
    """Compare two worlds; `added` is who is only in the second."""
    made = Moves()
    for key, (grads, weight) in without.records.items():
        other, factor = with_it.records[key]
        made.others += 1
        if not torch.equal(grads, other) or not torch.equal(weight, factor):
            made.moved += 1
            gap = without.contribution(key) - with_it.contribution(key)
            made.one = max(made.one, float(torch.linalg.vector_norm(gap)) / CLIP)
    moved = with_it.sums.double() - without.sums.double()
    if added is not None:
        moved[added[0]] -= with_it.contribution(added)
    norms = torch.linalg.vector_norm(moved, dim=1) / CLIP
    made.own = float(norms[0])
    made.elsewhere = float(norms[1:].max()) if len(norms) > 1 else 0.0
    return made


def add_up(
    part: Portion, grads: torch.Tensor, weight: torch.Tensor, total: torch.Tensor, add: Add
) -> None:
    """Add a portion's clipped gradients to the sums of their instances."""
    present, starts = np.unique(part.instances, return_index=True)
    ends = [*starts[1:].tolist(), len(part.instances)]
    for instance, start, end in zip(present.tolist(), starts.tolist(), ends, strict=True):
        total[instance] += add(weight[start:end], grads[start:end])


def rounded_sum(weight: torch.Tensor, grads: torch.Tensor) -> torch.Tensor:
    """Return a sum that is rounded to the type of the gradients: what float32 is timed against."""
    return torch.matmul(weight.to(grads.dtype), grads)


def settle(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()


def examples(crew: Crew, instances: int) -> list[list[Example]]:
    """Write the sets; the first has the three records more at its end."""
    texts = list(write_demo(1200, 7))
    written = [example_of(text, crew.backbone, LONGEST - 8)[0] for text in texts]
    rng = np.random.default_rng(3)
    sets = [
        [written[p] for p in rng.choice(len(written), RECORDS, replace=False)]
        for _ in range(instances)
    ]
    long = " ".join(record.text for record in texts[:9])
    for text in (long, "No.", "Woke at 4:15 with a dry mouth, and the second pill did nothing."):
        record = Record("", text, texts[0].labels)
        sets[0].append(example_of(record, crew.backbone, LONGEST)[0])
    return sets


def draw(bench: Bench, trials: int) -> Iterator[list[np.ndarray]]:
    rng = np.random.default_rng(11)
    for _ in range(trials):
        yield [np.flatnonzero(rng.random(RECORDS) < BATCH / RECORDS) for _ in bench.sets]


def cuts(bench: Bench, gpu: bool, dtype: str) -> dict[str, Cut]:
    shapes = bench.trainer.shapes
    named: dict[str, Cut] = {BY_LONGEST: by_longest(shapes), AS_IT_IS: shapes.cut}
    if gpu:
        matmul = torch.backends.cuda.matmul
        if dtype == "bfloat16" and hasattr(matmul, f"{REDUCTION}_split_k"):
            named[NO_SPLIT] = shapes.cut
        named[FIXED_ROWS] = fixed_rows(shapes, 2048)
    return named


def measure(bench: Bench, setting: Setting, gpu: bool) -> list[str]:
    """Return the rows of one setting's table."""
    found: dict[tuple[str, str], Moves] = {}
    largest = gap = 0.0
    for trial, chosen in enumerate(draw(bench, setting.trials)):
        for name, cut in cuts(bench, gpu, setting.dtype).items():
            if name == FIXED_ROWS and trial:  # the slowest, and the least in doubt
                continue
            with reductions(name):
                without = bench.world(chosen, cut, bench.eager)
                again = bench.world(chosen, cut, bench.eager)
                found.setdefault((name, "none, again"), Moves()).add(moves(without, again))
                del again
                if name == AS_IT_IS:
                    errors = bench.rounding(without)
                    largest, gap = max(largest, errors[0]), max(gap, errors[1])
                    if gpu:
                        for _ in range(3):  # the second time is recorded, the third replayed
                            replayed = bench.world(chosen, cut, bench.usual)
                        seen = found.setdefault((name, "none, replayed"), Moves())
                        seen.add(moves(without, replayed))
                        del replayed
                for number, kind in enumerate(KINDS):
                    more = [np.append(chosen[0], RECORDS + number), *chosen[1:]]
                    added = np.array(bench.sets[0][RECORDS + number].tokens).tobytes()
                    with_it = bench.world(more, cut, bench.eager)
                    seen = found.setdefault((name, kind), Moves())
                    seen.add(moves(without, with_it, (0, added)))
                    del with_it
    worst = max(seen.own for (name, _), seen in found.items() if name == AS_IT_IS)
    return [
        HEAD,
        *(row_of(name, kind, seen) for (name, kind), seen in found.items()),
        f"largest clipped norm {largest:.4f} C; sum less the sum in double precision {gap:.1e} C",
        f"as it is, the sum moves by at most {largest + worst:.4f} C for one record (clipped to"
        f" {1 - MARGIN:.4f} C): {'within' if largest + worst <= 1 else 'MORE THAN'} C",
    ]


def timed(bench: Bench, dtype: str) -> str:
    (chosen,) = draw(bench, 1)
    found = []
    for name, cut in cuts(bench, True, dtype).items():
        with reductions(name):
            found.append(f"{name} {bench.seconds(chosen, cut) * 1e3:.0f} ms")
    shapes = bench.trainer.shapes
    larger = bench.seconds(chosen, fixed_rows(shapes, 4096))
    narrow = bench.seconds(chosen, shapes.cut, rounded_sum)
    found.append(f"fixed rows of 4,096 tokens {larger * 1e3:.0f} ms")
    found.append(f"as it is with sums rounded to {dtype} {narrow * 1e3:.0f} ms")
    return "clipped sums of one step: " + ", ".join(found)


HEAD = (
    f"{'shapes':10} {'one more':14} {'others':>7} {'moved':>6} {'one / C':>9}"
    f" {'own sum / C':>12} {'other sums / C':>15}"
)


def row_of(name: str, kind: str, seen: Moves) -> str:
    return (
        f"{name:10} {kind:14} {seen.others:7d} {seen.moved:6d} {seen.one:9.2g}"
        f" {seen.own:12.2g} {seen.elsewhere:15.2g}"
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="auto")
    parser.add_argument("--trials", type=int, help="batches to draw, for all settings")
    options = parser.parse_args()
    gpu = options.device.startswith("cuda") or (
        options.device == "auto" and torch.cuda.is_available()
    )
    where = torch.cuda.get_device_name() if gpu else "CPU"
    lines: list[str] = []
    for usual in GPU if gpu else CPU:
        setting = replace(usual, trials=options.trials or usual.trials)
        began = time.perf_counter()
        crew = crew_of("smollm2", options.device, setting.dtype)
        bench = Bench(crew, setting.instances)
        lines += [
            "",
            f"{where}, {setting.dtype}, {setting.instances} instances, {setting.trials} batches,"
            f" torch {torch.__version__}",
            *measure(bench, setting, gpu),
        ]
        if gpu:
            lines.append(timed(bench, setting.dtype))
        del bench
        crew.dismiss()
        if gpu:
            torch.cuda.empty_cache()
        print(f"{setting}: {time.perf_counter() - began:.0f} s", flush=True)
    print("\n".join(lines))


if __name__ == "__main__":
    main()
