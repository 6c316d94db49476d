"""The effect of one record on the others' gradients in DP-SGD, through padding and kernel shapes.

    python benchmarks/padding.py

Kernels may add up in an order that depends on the shape of a batch, so a record that changes the
shape may change the bits of the others' gradients. The claim of `dpsgd` bounds how much a record
changes the sum, so its effect on the *others* counts (docs/design/claim-dpsgd.md).

Poisson batches of a fleet are computed with SmolLM2 on invented messages, then with one record more
in the first instance: longer than all others, shorter, or typical. The clipped gradients of all
others are compared bit by bit, and the sums, less the record's own contribution, by norm.

| pass | |
|---|---|
| packed | texts end to end in packs of a fixed size: what training does on a GPU |
| plain | microbatches of texts of one width, by their own length: what it does elsewhere |
| by longest | microbatches as wide as their longest text: what it once did, on a CPU |

A packed gradient is never stored, so its inputs are compared instead: all inputs and gradients of
all layers, token by token. Controls: the same batch again, replayed from a recorded
graph, and in packs of the next size.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from types import SimpleNamespace

import numpy as np
import torch

from synthleak.corpus.corpus import Record
from synthleak.corpus.readers.demo import write_demo
from synthleak.releases.generators.dpsgd import example_of
from synthleak.releases.lm.fleet.batches import (
    EIGHTHS,
    Block,
    Cut,
    Example,
    Microbatch,
    Pack,
    Packer,
    PaddedExamples,
    Shapes,
    rounded,
    whole,
)
from synthleak.releases.lm.fleet.memory import plan_fleet
from synthleak.releases.lm.fleet.packed_fleet import PackedTrainer
from synthleak.releases.lm.fleet.shared_backbone import SharedBackbone, memory_of, shared_backbone
from synthleak.releases.lm.fleet.training import (
    MARGIN,
    ExampleGradients,
    Trainer,
    TrainingConfig,
    weighted_sum,
)

LONGEST = 64
RECORDS, BATCH = 500, 16
CLIP = 1.0
KINDS = ("longer", "shorter", "typical")
BY_LONGEST, PLAIN, PACKED = "by longest", "plain", "packed"
Key = tuple[int, bytes]


@dataclass(frozen=True)
class Setting:
    """A type, how many instances are trained together, and how many batches are drawn."""

    dtype: str
    instances: int
    trials: int


GPU = (Setting("bfloat16", 104, 2), Setting("bfloat16", 1, 4))
CPU = (Setting("float32", 1, 3), Setting("bfloat16", 1, 3))


def by_longest(shapes: Shapes) -> Cut:
    """Return a cut into microbatches as wide as their longest; few shapes, by halving the last."""

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


class Fleet:
    """A fleet of adapters on a backbone, and batches to compute."""

    def __init__(self, shared: SharedBackbone, instances: int) -> None:
        self.shared = shared
        self.adapters = shared.adapters(range(instances), rank=16, scale=2.0)
        # As after some training: at the start B is zero, and half of the gradients vanish.
        generator = torch.Generator(shared.device).manual_seed(1)
        for slot in self.adapters.slots:
            _, b = slot.split(self.adapters.master)
            b.normal_(0.0, 0.02, generator=generator)
        self.adapters.publish()
        self.fleet = plan_fleet(
            shared.shape(16),
            memory_of(shared.device),
            wanted=instances,
            batch=BATCH,
            longest=LONGEST,
        )
        head = shared.backbone.head
        config = TrainingConfig(1, BATCH / RECORDS, BATCH, 1e-3, CLIP, 1.0)
        self.eager = ExampleGradients(shared.decode, head, self.adapters, recorded=False)
        self.trainer = Trainer(
            shared.decode,
            head,
            self.adapters,
            config,
            longest=LONGEST,
            tokens_at_once=self.fleet.tokens,
            examples_at_once=self.fleet.examples,
        )
        self.sets = examples(shared, instances)
        self.prepared = PaddedExamples(self.sets, shared.device, LONGEST)
        packed = shared.trainer(self.adapters, config, longest=LONGEST, fleet=self.fleet)
        self.packed = PackedFleet(packed, self.sets) if isinstance(packed, PackedTrainer) else None

    def world(
        self, chosen: Sequence[np.ndarray], cut: Cut, gradients_of: ExampleGradients
    ) -> World:
        """Compute a batch as the trainer does, and keep every record's contribution."""
        made = World(torch.zeros_like(self.adapters.master))
        for part in self.prepared.microbatches(chosen, cut):
            grads = gradients_of(part)
            weight = self.trainer._weights(grads)
            tokens = part.tokens.cpu().numpy()
            for row, instance in enumerate(part.instances.tolist()):
                key = (instance, np.trim_zeros(tokens[row], "b").tobytes())
                made.records[key] = (grads[row].clone(), weight[row].clone())
            add_up(part, grads, weight, made.sums)
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

    def seconds(self, chosen: Sequence[np.ndarray], cut: Cut) -> float:
        """Return how long the clipped sums of one step take, recorded where that is usual."""
        gradients_of = ExampleGradients(
            self.shared.decode, self.shared.backbone.head, self.adapters
        )
        total = torch.zeros_like(self.adapters.master)
        taken = []
        for _ in range(6):
            settle(self.shared.device)
            began = time.perf_counter()
            for part in self.prepared.microbatches(chosen, cut):
                grads = gradients_of(part)
                add_up(part, grads, self.trainer._weights(grads), total)
            settle(self.shared.device)
            taken.append(time.perf_counter() - began)
        del gradients_of
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
    part: Microbatch, grads: torch.Tensor, weight: torch.Tensor, total: torch.Tensor
) -> None:
    """Add a microbatch's clipped gradients to the sums of their instances."""
    present, starts = np.unique(part.instances, return_index=True)
    ends = [*starts[1:].tolist(), len(part.instances)]
    for instance, start, end in zip(present.tolist(), starts.tolist(), ends, strict=True):
        total[instance] += weighted_sum(weight[start:end], grads[start:end])


def settle(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()


def examples(shared: SharedBackbone, instances: int) -> list[list[Example]]:
    """Write the sets; the first has the three records more at its end."""
    texts = list(write_demo(1200, 7))
    written = [example_of(text, shared.backbone, LONGEST - 8)[0] for text in texts]
    rng = np.random.default_rng(3)
    sets = [
        [written[p] for p in rng.choice(len(written), RECORDS, replace=False)]
        for _ in range(instances)
    ]
    long = " ".join(record.text for record in texts[:9])
    for text in (long, "No.", "Woke at 4:15 with a dry mouth, and the second pill did nothing."):
        record = Record("", text, texts[0].labels)
        sets[0].append(example_of(record, shared.backbone, LONGEST)[0])
    return sets


def draw(setup: Fleet, trials: int) -> Iterator[list[np.ndarray]]:
    rng = np.random.default_rng(11)
    for _ in range(trials):
        yield [np.flatnonzero(rng.random(RECORDS) < BATCH / RECORDS) for _ in setup.sets]


@dataclass(frozen=True)
class Before:
    """What a packed batch was computed from."""

    pack: Pack
    weight: torch.Tensor
    sums: torch.Tensor
    kept: list[torch.Tensor]

    @property
    def first(self) -> int:
        """Return the number of tokens of the first instance."""
        return int(self.pack.spans[1])

    @property
    def used(self) -> int:
        """Return the number of tokens of all."""
        return int(self.pack.spans[-1])

    def texts(self, tokens: int) -> int:
        """Return the number of texts in this many tokens."""
        return int(self.pack.text[tokens - 1]) + 1 if tokens else 0

    def rows(self, text: int) -> slice:
        """Return the tokens of a text."""
        return slice(*self.pack.offsets[text : text + 2].tolist())


class PackedFleet:
    """The packed pass: what every gradient is computed from, before and after."""

    MOST = 16
    """Moved records whose distance is computed."""

    def __init__(self, trainer: PackedTrainer, sets: Sequence[Sequence[Example]]) -> None:
        self.trainer = trainer
        self.prepared: Packer = trainer.prepare(sets)
        self.pack: Pack
        self.weight: torch.Tensor

    def sums(self, chosen: Sequence[np.ndarray]) -> torch.Tensor:
        """Compute a batch, which one pack must hold, and keep its pack and factors."""
        (self.pack,) = self.prepared.packs(chosen)
        dtype = self.trainer._adapters.live.dtype

        def factors(norms: torch.Tensor) -> torch.Tensor:
            self.weight = self.trainer.factors(norms, dtype)
            return self.weight

        self.trainer._total.zero_()
        self.trainer._packed.add(self.pack, factors, self.trainer._total)
        return self.trainer._total

    def buffers(self) -> Iterator[torch.Tensor]:
        """Yield all that gradients are computed from, a row for each token."""
        packed, n = self.trainer._packed, len(self.pack.tokens)
        for layer, own in zip(packed.layers, packed._kept, strict=False):
            for _, *four in layer.pairs(SimpleNamespace(**own)):
                for buffer in four:
                    yield buffer[:n]

    def contribution(
        self, rows: slice, kept: Sequence[torch.Tensor], weight: float
    ) -> torch.Tensor:
        """Return the clipped gradient of one text, from the rows of its tokens."""
        adapters, packed = self.trainer._adapters, self.trainer._packed
        made = torch.zeros(1, adapters.size, dtype=torch.float64, device=adapters.live.device)
        fours = iter(kept)
        for layer in packed.layers:
            for group, *_ in layer.pairs(SimpleNamespace(**packed._kept[0])):
                x, inner, g, d = (next(fours)[rows] for _ in range(4))
                # Factors are multiplied into the low ranks, and that is rounded to their type.
                d, inner = ((low.float() * weight).to(low.dtype).double() for low in (d, inner))
                for part, slot in enumerate(group.slots):
                    a, b = slot.split(made)
                    ranks = slice(part * slot.rank, (part + 1) * slot.rank)
                    outputs = slice(*group.bounds[part : part + 2])
                    a[0] = d[:, ranks].T @ x.double()
                    b[0] = adapters.scale * g[:, outputs].double().T @ inner[:, ranks]
        return made[0]

    def measure(self, chosen: Sequence[np.ndarray], found: dict[tuple[str, str], Moves]) -> float:
        """Add what moves; return the largest clipped norm of the first instance."""
        sums = self.sums(chosen).clone()
        before = Before(self.pack, self.weight.clone(), sums, [b.clone() for b in self.buffers()])
        self.sums(chosen)
        self.note(before, found, "none, again")
        for _ in range(3):  # the second time is recorded, the third replayed
            self.trainer.clipped_sum(self.prepared, chosen)
        self.note(before, found, "none, replayed")
        usual = self.prepared.size, self.prepared._labelled
        self.prepared.size = whole(usual[0] + 1)
        self.prepared._labelled = usual[1] * EIGHTHS // usual[0] * self.prepared.size // EIGHTHS
        self.sums(chosen)
        self.note(before, found, "none, larger")
        self.trainer._passes.forget()  # the larger pack took new buffers
        self.prepared.size, self.prepared._labelled = usual
        for number, kind in enumerate(KINDS):
            self.sums([np.append(chosen[0], RECORDS + number), *chosen[1:]])
            self.note(before, found, kind)
        return self.rounding(before)

    def note(self, before: Before, found: dict[tuple[str, str], Moves], kind: str) -> None:
        """Compare with what was computed last, which may have a text more in the first instance."""
        seen = found.setdefault((PACKED, kind), Moves())
        device = before.weight.device
        tokens, texts = torch.arange(before.used, device=device), before.texts(before.used)
        extra = int(self.pack.spans[1]) - before.first
        there = tokens + extra * (tokens >= before.first)
        differ = torch.zeros(before.used, dtype=torch.bool, device=device)
        now = list(self.buffers())
        for old, new in zip(before.kept, now, strict=True):
            differ |= (old[: before.used] != new.index_select(0, there)).any(dim=1)
        numbers = torch.arange(texts, device=device)
        own = before.texts(before.first)  # where the text more is, if there is one
        others = numbers + (numbers >= own) * (extra > 0)
        changed = before.weight[:texts] != self.weight[others]
        changed[before.pack.text[: before.used][differ]] = True
        seen.others += texts
        seen.moved += int(changed.sum())
        for number in changed.nonzero().flatten().tolist()[: self.MOST]:
            here = before.rows(number)
            away = extra if here.start >= before.first else 0
            then = slice(here.start + away, here.stop + away)
            old = self.contribution(here, before.kept, float(before.weight[number]))
            new = self.contribution(then, now, float(self.weight[int(others[number])]))
            seen.one = max(seen.one, float(torch.linalg.vector_norm(old - new)) / CLIP)
        gap = self.trainer._total.double() - before.sums.double()
        if extra:
            rows = slice(before.first, before.first + extra)
            gap[0] -= self.contribution(rows, now, float(self.weight[own]))
        norms = torch.linalg.vector_norm(gap, dim=1) / CLIP
        seen.own = max(seen.own, float(norms[0]))
        seen.elsewhere = max(seen.elsewhere, float(norms[1:].max()) if len(norms) > 1 else 0.0)

    def rounding(self, before: Before) -> float:
        """Return the largest clipped norm of the first instance; print what its sum is off by."""
        largest, exact = 0.0, torch.zeros_like(before.sums[0], dtype=torch.float64)
        for number in range(before.texts(before.first)):
            weight = float(before.weight[number])
            clipped = self.contribution(before.rows(number), before.kept, weight)
            largest = max(largest, float(torch.linalg.vector_norm(clipped)) / CLIP)
            exact += clipped
        gap = float(torch.linalg.vector_norm(before.sums[0].double() - exact)) / CLIP
        print(f"packed: sum less the sum in double precision {gap:.1e} C", flush=True)
        return largest

    def seconds(self, chosen: Sequence[np.ndarray]) -> float:
        """Return how long the clipped sums of one step take."""
        taken = []
        for _ in range(6):
            torch.cuda.synchronize()
            began = time.perf_counter()
            self.trainer.clipped_sum(self.prepared, chosen)
            torch.cuda.synchronize()
            taken.append(time.perf_counter() - began)
        return min(taken)


def cuts(setup: Fleet, gpu: bool) -> dict[str, Cut]:
    shapes = setup.trainer.shapes
    return {PLAIN: shapes.cut} if gpu else {BY_LONGEST: by_longest(shapes), PLAIN: shapes.cut}


def measure(setup: Fleet, setting: Setting, gpu: bool) -> list[str]:
    """Return the rows of one setting's table."""
    found: dict[tuple[str, str], Moves] = {}
    usual = PLAIN if setup.packed is None else PACKED
    largest = gap = 0.0
    for trial, chosen in enumerate(draw(setup, setting.trials)):
        if setup.packed is not None:
            largest = max(largest, setup.packed.measure(chosen, found))
            if trial and setting.instances > 1:  # the plain pass of a fleet is slow
                continue
        for name, cut in cuts(setup, gpu).items():
            without = setup.world(chosen, cut, setup.eager)
            again = setup.world(chosen, cut, setup.eager)
            found.setdefault((name, "none, again"), Moves()).add(moves(without, again))
            del again
            if name == usual:
                errors = setup.rounding(without)
                largest, gap = max(largest, errors[0]), max(gap, errors[1])
            for number, kind in enumerate(KINDS):
                more = [np.append(chosen[0], RECORDS + number), *chosen[1:]]
                added = np.array(setup.sets[0][RECORDS + number].tokens).tobytes()
                with_it = setup.world(more, cut, setup.eager)
                seen = found.setdefault((name, kind), Moves())
                seen.add(moves(without, with_it, (0, added)))
                del with_it
    worst = max(seen.own for (name, _), seen in found.items() if name == usual)
    lines = [HEAD, *(row_of(name, kind, seen) for (name, kind), seen in sorted(found.items()))]
    if usual == PLAIN:
        lines.append(f"sum less the sum in double precision {gap:.1e} C")
    return [
        *lines,
        f"{usual}: largest clipped norm {largest:.4f} C; the sum moves by at most"
        f" {largest + worst:.4f} C for one record (clipped to {1 - MARGIN:.4f} C):"
        f" {'within' if largest + worst <= 1 else 'MORE THAN'} C",
    ]


def timed(setup: Fleet) -> str:
    (chosen,) = draw(setup, 1)
    plain = setup.seconds(chosen, setup.trainer.shapes.cut)
    line = f"clipped sums of one step: plain {plain * 1e3:.0f} ms"
    if setup.packed is not None:
        line += f", packed {setup.packed.seconds(chosen) * 1e3:.0f} ms"
    return line


HEAD = (
    f"{'pass':10} {'one more':14} {'others':>7} {'moved':>6} {'one / C':>9}"
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
        shared = shared_backbone("smollm2", options.device, setting.dtype)
        setup = Fleet(shared, setting.instances)
        lines += [
            "",
            f"{where}, {setting.dtype}, {setting.instances} instances, {setting.trials} batches,"
            f" torch {torch.__version__}",
            *measure(setup, setting, gpu),
        ]
        if gpu:
            lines.append(timed(setup))
        del setup
        shared.drop_adapters()
        if gpu:
            torch.cuda.empty_cache()
        print(f"{setting}: {time.perf_counter() - began:.0f} s", flush=True)
    print("\n".join(lines))


if __name__ == "__main__":
    main()
