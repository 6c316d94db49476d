"""A Llama that serves adapters on a GPU, forward and backward written out by hand.

The plain pass (`training.py`) takes any decoder on any device, and is the oracle. This one
computes the same faster, for four reasons:

- no padding: the rows of all products are the tokens of all texts, end to end;
- no copies: a tile of rows is multiplied by its instance's matrices in place;
- no gradient of a single example is stored: a first pass over every layer's inputs and gradients
  computes each text's norm, a second adds up the texts of an instance, each with its clipping
  factor;
- everything between two products with frozen weights is one kernel (`kernels.py` and
  `attention_kernels.py`, launched by `Launches`).

A text's gradient does not depend on the other texts, except for its rows in the products with
frozen weights.
"""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from itertools import cycle
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from synthleak.releases.lm.fleet.adapters import Adapters, FleetLinear, Slot, stacked
from synthleak.releases.lm.fleet.batches import EIGHTHS, ROWS, Pack, power_of_two
from synthleak.releases.lm.fleet.frozen_llama import head_size, plain_llama
from synthleak.releases.lm.fleet.training import TrainingConfig, loss_gradients


@dataclass(frozen=True)
class Group:
    """Linear layers that share an input: their weights as one, and their adapters' slots."""

    weight: Tensor
    slots: tuple[Slot, ...]

    @property
    def bounds(self) -> list[int]:
        """The bounds of each layer's outputs: four numbers, the last repeated."""
        ends = [0]
        for slot in self.slots:
            ends.append(ends[-1] + slot.outputs)
        return [*ends, *ends[-1:] * 2][:4]

    @property
    def below(self) -> list[int]:
        """The start of each A: three numbers, as `above` of each B."""
        return [*(slot.start for slot in self.slots), 0, 0][:3]

    @property
    def above(self) -> list[int]:
        return [*(slot.middle for slot in self.slots), 0, 0][:3]


@dataclass(frozen=True)
class PackedLayer:
    """One layer of the decoder."""

    qkv: Group
    o: Group
    both: Group
    down: Group
    first: Any
    second: Any

    def pairs(self, buf: Any) -> Iterator[tuple[Group, Tensor, Tensor, Tensor, Tensor]]:
        """Yield (group, its input, input times A, its gradient, gradient times B)."""
        yield self.qkv, buf.h1, buf.i_qkv, buf.g_qkv, buf.d_qkv
        yield self.o, buf.o, buf.i_o, buf.g1, buf.d_o
        yield self.both, buf.h2, buf.i_both, buf.both, buf.d_both
        yield self.down, buf.z, buf.i_down, buf.g2, buf.d_down


Factors = Callable[[Tensor], Tensor]
"""Maps the norms of texts to the factors of their gradients."""


class PackedModel:
    """A backbone of Llama's kind with a fleet's adapters.

    All passes share the same buffers, so that memory is planned to the byte and recorded passes
    find their data at the same addresses. In the names of buffers x is a residual, h a normed one,
    s the norm's spread, i an input times A, g a gradient and d a gradient times B.
    """

    def __init__(self, model: Any, adapters: Adapters, longest: int) -> None:
        config = model.config
        self.adapters = adapters
        self.head = model.get_output_embeddings().weight
        self.heads, self.keys = config.num_attention_heads, config.num_key_value_heads
        self.size = head_size(config)
        self._rank = adapters.rank
        self._embedding = model.get_input_embeddings().weight
        self._hidden, self._inner = config.hidden_size, config.intermediate_size
        self._norm = model.model.norm
        self.layers = [self._layer(layer) for layer in model.model.layers]
        self.launches = Launches(config, adapters, self.layers, longest)
        self._rotary = model.model.rotary_emb
        self.reach(longest)
        self.room = 0
        self._kept: list[dict[str, Tensor]] = []

    def _layer(self, layer: Any) -> PackedLayer:
        def group(*layers: FleetLinear) -> Group:
            return Group(stacked(layers), tuple(self.adapters.slots[one.number] for one in layers))

        attention, mlp = layer.self_attn, layer.mlp
        return PackedLayer(
            qkv=group(attention.q_proj, attention.k_proj, attention.v_proj),
            o=group(attention.o_proj),
            both=group(mlp.gate_proj, mlp.up_proj),
            down=group(mlp.down_proj),
            first=layer.input_layernorm,
            second=layer.post_attention_layernorm,
        )

    def reach(self, positions: int) -> None:
        """Compute cosine and sine of `positions` positions, as the model computes them."""
        at = torch.arange(positions, device=self.head.device)[None]
        half = self.size // 2
        angles = [angle[0, :, :half].contiguous() for angle in self._rotary(self.head, at)]
        self.launches.angles = angles

    def kept(self) -> dict[str, int]:
        """Return the width of everything that a layer keeps of a token."""
        hidden, rank = self._hidden, self._rank
        mixed, turned = self.heads * self.size, (self.heads + 2 * self.keys) * self.size
        kept = dict.fromkeys(("x1", "h1", "x2", "h2", "g1", "g2"), hidden)
        kept |= {"qkv": turned, "g_qkv": turned, "o": mixed, "z": self._inner}
        kept |= {"both": 2 * self._inner, "s1": 1, "s2": 1, "logsum": self.heads}
        kept |= dict.fromkeys(("i_qkv", "d_qkv"), 3 * rank)
        kept |= dict.fromkeys(("i_both", "d_both"), 2 * rank)
        return kept | dict.fromkeys(("i_o", "d_o", "i_down", "d_down"), rank)

    def shared(self) -> dict[str, int]:
        """Return the width of everything that layers use one after the other."""
        shared = dict.fromkeys(("x", "h", "y", "g"), self._hidden)
        shared |= {"g_z": self._inner, "g_o": self.heads * self.size, "i": self._rank}
        return shared | {"s": 1, "along": self.heads}

    def buffers(self, widths: dict[str, int], tokens: int) -> dict[str, Tensor]:
        """Return buffers of `tokens` tokens; those of norms and softmax in single precision.

        They are zero at first: rows that no text has are multiplied too, and must be finite.
        """
        full = ("s", "s1", "s2", "logsum", "along")
        live = self.adapters.live
        return {
            name: live.new_zeros(tokens, width, dtype=torch.float32 if name in full else None)
            for name, width in widths.items()
        }

    def make_room(self, tokens: int) -> None:
        """Allocate buffers for passes of `tokens` tokens; graphs recorded before are void."""
        self._kept = []
        self._kept = [self.buffers(self.kept(), tokens) for _ in self.layers]
        self._kept.append(self.buffers(self.shared(), tokens))
        self.room = tokens

    @torch.no_grad()
    def add(self, pack: Pack, factors: Factors | None, total: Tensor) -> None:
        """Add each instance's sum of gradients, times the factors, to its row of `total`."""
        n = len(pack.tokens)
        if n > self.room:
            self.make_room(n)
        *kept, shared = [first_rows(buffers, n) for buffers in self._kept]
        self.forward(
            pack.tokens,
            pack.tiles,
            pack.position,
            kept,
            shared,
            lambda number, buf: self.launches.attend(pack, buf),
        )
        self._backward(pack, kept, shared)
        if factors is None:
            weight = torch.ones(n, device=total.device)
        else:
            norms = self.launches.squares(pack, kept).sum(dim=0).sqrt()
            weight = factors(norms).index_select(0, pack.text)
        self.launches.sums(pack, kept, weight, total)

    def forward(
        self,
        tokens: Tensor,
        tiles: Tensor,
        position: Tensor,
        kept: Sequence[Any],
        shared: Any,
        attend: Callable[[int, Any], None],
    ) -> None:
        """Compute the last states, into `shared.h`; `attend(layer, its buffers)` fills `o`."""
        launch = self.launches
        torch.index_select(self._embedding, 0, tokens, out=kept[0].x1)
        before, inner, above = kept[0].x1, shared.i, None
        for number, (layer, buf) in enumerate(zip(self.layers, kept, strict=True)):
            out = buf.x1, buf.h1, buf.s1, buf.i_qkv
            launch.normalise(tiles, layer.first, before, shared.y, inner, above, layer.qkv, out)
            torch.mm(buf.h1, layer.qkv.weight.T, out=buf.qkv)
            launch.turn(tiles, position, buf, layer.qkv)
            attend(number, buf)
            slot = layer.o.slots[0]
            launch.project(tiles, buf.o, buf.i_o, slot.start, slot.inputs, below=True)
            torch.mm(buf.o, layer.o.weight.T, out=shared.y)
            out = buf.x2, buf.h2, buf.s2, buf.i_both
            launch.normalise(
                tiles, layer.second, buf.x1, shared.y, buf.i_o, layer.o, layer.both, out
            )
            torch.mm(buf.h2, layer.both.weight.T, out=buf.both)
            launch.gate(tiles, buf, layer)
            torch.mm(buf.z, layer.down.weight.T, out=shared.y)
            before, inner, above = buf.x2, buf.i_down, layer.down
        out = shared.x, shared.h, shared.s, shared.i
        launch.normalise(tiles, self._norm, before, shared.y, inner, above, None, out)

    def _backward(self, pack: Pack, kept: Sequence[Any], shared: Any) -> None:
        """Leave the gradient of every product, and that times B, in the buffers."""
        launch, tiles = self.launches, pack.tiles
        states = shared.h.index_select(0, pack.rows)
        # All pieces of the output layer have one shape, whichever a text's tokens come to be in.
        slopes = loss_gradients(states, self.head, pack.targets, piece=len(pack.tokens) // EIGHTHS)
        shared.g.zero_().index_copy_(0, pack.rows, slopes.mul_(pack.share[:, None]))
        last = kept[-1]
        inputs = shared.x, shared.s, shared.g, shared.i, None
        out = last.g2, last.d_down
        launch.normalise_back(tiles, self._norm, inputs, None, self.layers[-1].down, out)
        for number in reversed(range(len(kept))):
            layer, buf = self.layers[number], kept[number]
            torch.mm(buf.g2, layer.down.weight, out=shared.g_z)
            launch.gate_back(tiles, shared.g_z, buf, layer)
            torch.mm(buf.both, layer.both.weight, out=shared.g)
            inputs = buf.x2, buf.s2, shared.g, buf.d_both, buf.g2
            out = buf.g1, buf.d_o
            launch.normalise_back(tiles, layer.second, inputs, layer.both, layer.o, out)
            torch.mm(buf.g1, layer.o.weight, out=shared.g_o)
            launch.attend_back(pack, buf, shared, layer.o.slots[0].start)
            for part, slot in enumerate(layer.qkv.slots):
                launch.project(
                    tiles,
                    buf.g_qkv,
                    buf.d_qkv,
                    slot.middle,
                    slot.outputs,
                    skip=layer.qkv.bounds[part],
                    column=part * self._rank,
                )
            if number == 0:
                return  # nothing below the first layer is trained
            before = kept[number - 1]
            torch.mm(buf.g_qkv, layer.qkv.weight, out=shared.g)
            inputs = buf.x1, buf.s1, shared.g, buf.d_qkv, buf.g1
            out = before.g2, before.d_down
            above = self.layers[number - 1].down
            launch.normalise_back(tiles, layer.first, inputs, layer.qkv, above, out)


def first_rows(buffers: dict[str, Tensor], n: int) -> SimpleNamespace:
    return SimpleNamespace(**{name: buffer[:n] for name, buffer in buffers.items()})


def packable(model: Any, rank: int) -> bool:
    """Say whether this is a Llama with suitable dimensions on a GPU, and Triton is installed."""
    if not plain_llama(model) or not importlib.util.find_spec("triton"):
        return False
    config = model.config
    sides = head_size(config) in (32, 64, 128) and rank in (16, 32, 64) and tile_of(config) > 0
    return sides and model.device.type == "cuda"


def tile_of(config: Any) -> int:
    """Return the columns of a tile, 64 or 32: what divides all sides; 0 if neither does."""
    size = head_size(config)
    sides = (
        config.hidden_size,
        config.intermediate_size,
        config.num_attention_heads * size,
        config.num_key_value_heads * size,
    )
    return next((tile for tile in (64, 32) if not any(side % tile for side in sides)), 0)


OPTIONS: dict[str, dict[str, int]] = {
    "attend_next": {"num_warps": 2, "num_stages": 1},
    "squares": {"num_warps": 2},
}
"""Compiler options of kernels by name, where Triton's defaults are not the fastest."""

LONG = 128
"""Attention within texts that can be longer than this takes blocks of 64 tokens, else of 32."""

SHARES = 4
"""Programs that divide the columns of a text's gradient when its norm is computed."""

STREAMS = 4
"""Streams that launches are spread over, where they do not depend on one another."""


class Launches:
    """Launches kernels on tiles of rows, with the adapters of a fleet on layers of Llama's kind.

    `longest` is the longest text that attention has blocks for. `angles` are cosine and sine of
    every position.
    """

    angles: Sequence[Tensor]

    def __init__(
        self, config: Any, adapters: Adapters, layers: Sequence[PackedLayer], longest: int
    ) -> None:
        from synthleak.releases.lm.fleet import attention_kernels, kernels

        self._kernels, self._attention = kernels, attention_kernels
        self._adapters, self._layers, self._rank = adapters, layers, adapters.rank
        self._heads, self._keys = config.num_attention_heads, config.num_key_value_heads
        self._size = head_size(config)
        self._hidden, self._inner = config.hidden_size, config.intermediate_size
        self._tile = tile_of(config)
        block = 32 if longest <= LONG else 64
        self._block = {"BT": block, "num_warps": block // 16, "num_stages": 2}
        self._blocks = -(-longest // block)
        self._compiling = False
        on_gpu = adapters.live.device.type == "cuda"
        self._streams = [torch.cuda.Stream() for _ in range(STREAMS)] if on_gpu else []

    def _launch(self, kernel: Any, grid: tuple[int, ...], *args: Any, **constants: Any) -> None:
        """Launch a kernel; constants that all kernels share are filled in by name."""
        shared = {"HEADS": self._heads, "KEYS": self._keys, "HALF": self._size // 2}
        shared |= {"R": self._rank, "BM": ROWS, "BN": self._tile}
        constants |= {key: shared[key] for key in shared if key in kernel.arg_names}
        constants |= OPTIONS.get(kernel.__name__, {})
        if self._compiling:
            kernel.warmup(*args, grid=grid, **constants)
        else:
            kernel[grid](*args, **constants)

    @contextmanager
    def compiling(self) -> Iterator[None]:
        """Compile the kernels that are launched meanwhile side by side, and launch none."""
        import triton

        together = getattr(triton, "AsyncCompileMode", nullcontext)
        self._compiling = True
        try:
            with ThreadPoolExecutor() as threads, together(threads):
                yield
        finally:
            self._compiling = False

    def _spread(self, kept: Sequence[Any]) -> Iterator[tuple[PackedLayer, Any]]:
        """Yield layers and their buffers; what is launched for one may run beside that of others.

        A launch alone leaves the GPU half idle if few instances are in the pack, and at its end.
        """
        layers = zip(self._layers, kept, strict=True)
        if not self._streams:
            yield from layers
            return
        here = torch.cuda.current_stream()
        for stream in self._streams:
            stream.wait_stream(here)
        for stream, item in zip(cycle(self._streams), layers, strict=False):
            with torch.cuda.stream(stream):
                yield item
        for stream in self._streams:
            here.wait_stream(stream)

    # Argument lists follow the kernels' buf.
    # fmt: off

    def squares(self, pack: Pack, kept: Sequence[Any]) -> Tensor:
        """Return the squared norm of each text's gradient, part by part."""
        texts, rank, scale = len(pack.offsets) - 1, self._rank, self._adapters.scale
        per_layer = sum(1 + len(group.slots) for group, *_ in self._layers[0].pairs(kept[0]))
        norms = torch.empty(SHARES * per_layer * len(kept), texts, device=pack.share.device)
        row = 0
        for layer, buf in self._spread(kept):
            for group, x, inner, g, d in layer.pairs(buf):
                stack, width = len(group.slots), x.shape[1]
                for low, wide, parts, factor, bounds, used in (
                    (d, x, 1, 1.0, (0, width, width, width), stack * rank),
                    (inner, g, stack, scale**2, group.bounds, rank),
                ):
                    self._launch(
                        self._kernels.squares, (texts, parts, SHARES),
                        low, wide, pack.offsets, norms, row, texts, factor, *bounds,
                        low.shape[1], wide.shape[1],
                        USED=used, W=power_of_two(used), SHARES=SHARES, BT=32,
                    )
                    row += parts
        return norms

    def sums(self, pack: Pack, kept: Sequence[Any], weight: Tensor, total: Tensor) -> None:
        """Add up the gradients of each instance, token by token."""
        rank, scale = self._rank, self._adapters.scale
        for layer, buf in self._spread(kept):
            for group, x, inner, g, d in layer.pairs(buf):
                for low, wide, factor, places, used, stack in (
                    (d, x, 1.0, group.below, len(group.slots) * rank, True),
                    (inner, g, scale, group.above, rank, False),
                ):
                    self._launch(
                        self._kernels.add_sums, (wide.shape[1] // self._tile, len(total)),
                        low, wide, weight, pack.spans, total, total.shape[1], factor,
                        *group.bounds[1:3], *places, low.shape[1], wide.shape[1],
                        USED=used, W=power_of_two(used), STACK=stack, BT=64,
                    )

    def normalise(
        self, tiles: Tensor, norm: Any, before: Tensor, y: Tensor, inner: Tensor,
        above: Group | None, below: Group | None, out: tuple[Tensor, Tensor, Tensor, Tensor],
    ) -> None:
        """Finish the product y of the layer above, add it, normalise, begin the layer below."""
        adapters, stack = self._adapters, len(below.slots) if below else 0
        self._launch(
            self._kernels.norm_forward, (len(tiles),),
            before, y, inner, adapters.live, tiles, norm.weight, *out, adapters.size,
            above.above[0] if above else 0, *(below.below if below else (0, 0, 0)),
            adapters.scale, norm.tiny, WIDTH=self._hidden, ADD=above is not None, STACK=stack,
            W=power_of_two(max(stack, 1) * self._rank),
        )

    def normalise_back(
        self, tiles: Tensor, norm: Any,
        inputs: tuple[Tensor, Tensor, Tensor, Tensor, Tensor | None],
        below: Group | None, above: Group, out: tuple[Tensor, Tensor],
    ) -> None:
        """Go from the gradient of the layer below to that of the layer above.

        `inputs` are the residual, its spread, the gradient of the normed one, that of the layer
        below times B, and the gradient that goes past.
        """
        x, spread, g, d, past = inputs
        adapters, stack = self._adapters, len(below.slots) if below else 0
        self._launch(
            self._kernels.norm_backward, (len(tiles),),
            g, d, adapters.live, tiles, x, spread, norm.weight, g if past is None else past,
            *out, adapters.size, above.above[0],
            *(below.below if below else (0, 0, 0)), adapters.scale,
            WIDTH=self._hidden, ADD=past is not None, STACK=stack,
            W=power_of_two(max(stack, 1) * self._rank),
        )

    def gate(self, tiles: Tensor, buf: Any, layer: PackedLayer) -> None:
        """Finish gate and up, multiply them, and begin down."""
        adapters = self._adapters
        self._launch(
            self._kernels.gate_forward, (len(tiles),),
            buf.both, buf.i_both, adapters.live, tiles, buf.z, buf.i_down, adapters.size,
            *layer.both.above[:2], layer.down.below[0], adapters.scale, WIDTH=self._inner,
        )

    def gate_back(self, tiles: Tensor, g: Tensor, buf: Any, layer: PackedLayer) -> None:
        """Go from the gradient g of down's input to those of gate and up, in the place of both."""
        adapters = self._adapters
        self._launch(
            self._kernels.gate_backward, (len(tiles),),
            g, buf.d_down, buf.both, buf.i_both, adapters.live, tiles, buf.d_both, adapters.size,
            *layer.both.above[:2], layer.down.below[0], adapters.scale, WIDTH=self._inner,
        )

    def adamw(
        self, total: Tensor, first: Tensor, second: Tensor, config: TrainingConfig, step: int
    ) -> None:
        """Take one AdamW step with all instances at once, as the plain trainer does."""
        adapters, block = self._adapters, 1024
        fast, slow = config.betas
        self._kernels.adamw[(-(-total.numel() // block),)](
            total, adapters.master, first, second, adapters.live, total.numel(), 1 / config.batch,
            1 - config.learning_rate * config.weight_decay, 1 - fast, slow, 1 - slow,
            math.sqrt(1 - slow**step), config.learning_rate / (1 - fast**step), config.tiny,
            BN=block,
        )

    def turn(self, tiles: Tensor, position: Tensor, buf: Any, group: Group) -> None:
        """Finish queries, keys and values, and turn queries and keys by their positions."""
        adapters = self._adapters
        self._launch(
            self._kernels.turn, (len(tiles), self._heads + 2 * self._keys),
            buf.qkv, buf.i_qkv, adapters.live, tiles, position, *self.angles, adapters.size,
            *group.above, adapters.scale,
        )

    def project(
        self, tiles: Tensor, x: Tensor, out: Tensor, start: int, width: int,
        *, skip: int = 0, column: int = 0, below: bool = False,
    ) -> None:
        """Multiply `width` columns of x, from `skip` on, by each row's own A (`below`) or B."""
        adapters = self._adapters
        self._launch(
            self._kernels.project, (len(tiles),),
            x, adapters.live, tiles, out, adapters.size, start, 1.0 if below else adapters.scale,
            skip, column, x.shape[1], width, out.shape[1], A=below,
        )

    def attend(self, pack: Pack, buf: Any) -> None:
        """Attend within each text."""
        grid = len(pack.offsets) - 1, self._heads, self._blocks
        inputs = buf.qkv, pack.offsets, buf.o, buf.logsum, self._size**-0.5
        self._launch(self._attention.attend_forward, grid, *inputs, **self._block)

    def attend_back(self, pack: Pack, buf: Any, shared: Any, start: int) -> None:
        """Go from the gradient of attention to that of queries, then of keys and values."""
        texts, adapters = len(pack.offsets) - 1, self._adapters
        self._launch(
            self._attention.attend_queries, (texts, self._heads, self._blocks),
            buf.qkv, buf.o, buf.logsum, shared.g_o, buf.d_o, adapters.live, pack.owner,
            pack.offsets, *self.angles, buf.g_qkv, shared.along, adapters.size, start,
            self._size**-0.5, **self._block,
        )
        self._launch(
            self._attention.attend_keys, (texts, self._keys, self._blocks),
            buf.qkv, buf.logsum, shared.g_o, pack.offsets, *self.angles, buf.g_qkv, shared.along,
            self._size**-0.5, **self._block,
        )

    def attend_next(
        self, buf: Any, keys: Tensor, values: Tensor, slot: Tensor, position: int
    ) -> None:
        """Attend from one new position of every row to all before it, kept in `keys`, `values`."""
        self._launch(
            self._attention.attend_next, (len(slot), self._keys),
            buf.qkv, keys, values, slot, buf.o, position, keys.shape[2], self._size**-0.5,
            G=max(16, power_of_two(self._heads // self._keys)), BT=32,
        )
