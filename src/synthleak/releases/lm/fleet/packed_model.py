"""A Llama that serves adapters on a GPU, forward and backward written out by hand.

The plain pass (`example_gradients.py`) takes any decoder on any device, and is the oracle. This one
computes the same faster, for four reasons:

- no padding: the rows of all products are the tokens of all texts, end to end;
- no copies: a tile of rows is multiplied by its instance's matrices in place;
- no gradient of a single example is stored: a first pass over every layer's inputs and gradients
  computes each text's norm, a second adds up the texts of an instance, each with its clipping
  factor;
- everything between two products with frozen weights is one kernel (`kernels.py`, and
  `attention_kernels.py`).

A text's gradient does not depend on the other texts, except for its rows in the products with
frozen weights.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from itertools import cycle
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from synthleak.releases.lm.fleet.adapters import Adapters, FleetLinear
from synthleak.releases.lm.fleet.llama_layers import Group, Layer, head_size, stacked, tile_of
from synthleak.releases.lm.fleet.loss import loss_gradients
from synthleak.releases.lm.fleet.packs import EIGHTHS, ROWS, Pack

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

Factors = Callable[[Tensor], Tensor]
"""Maps the norms of texts to the factors of their gradients."""


class PackedModel:
    """A backbone of Llama's kind with a fleet's adapters.

    All passes share the same buffers, so that memory is planned to the byte and recorded passes
    find their data at the same addresses. In the names of buffers x is a residual, h a normed one,
    s the norm's spread, i an input times A, g a gradient and d a gradient times B.
    """

    def __init__(self, model: Any, adapters: Adapters, longest: int) -> None:
        from synthleak.releases.lm.fleet import attention_kernels, kernels

        config = model.config
        self._kernels, self._attention = kernels, attention_kernels
        self.adapters = adapters
        self.head = model.get_output_embeddings().weight
        self.heads, self.keys = config.num_attention_heads, config.num_key_value_heads
        self.size = head_size(config)
        self._rank = adapters.rank
        self._embedding = model.get_input_embeddings().weight
        self._hidden, self._inner = config.hidden_size, config.intermediate_size
        self._tile = tile_of(config)
        self._norm = model.model.norm
        self.layers = [self._layer(layer) for layer in model.model.layers]
        block = 32 if longest <= LONG else 64
        self._block = {"BT": block, "num_warps": block // 16, "num_stages": 2}
        self._blocks = -(-longest // block)
        self._rotary = model.model.rotary_emb
        self.reach(longest)
        self._compiling = False
        on_gpu = self.head.device.type == "cuda"
        self._streams = [torch.cuda.Stream() for _ in range(STREAMS)] if on_gpu else []
        self.room = 0
        self._kept: list[dict[str, Tensor]] = []

    def _layer(self, layer: Any) -> Layer:
        def group(*layers: FleetLinear) -> Group:
            return Group(stacked(layers), tuple(self.adapters.slots[one.number] for one in layers))

        attention, mlp = layer.self_attn, layer.mlp
        return Layer(
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
        self._angles = [angle[0, :, :half].contiguous() for angle in self._rotary(self.head, at)]

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

    def _launch(self, kernel: Any, grid: tuple[int, ...], *args: Any, **constants: Any) -> None:
        """Launch a kernel; constants that all kernels share are filled in by name."""
        shared = {"HEADS": self.heads, "KEYS": self.keys, "HALF": self.size // 2}
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
        *kept, shared = [SimpleNamespace(**{k: v[:n] for k, v in b.items()}) for b in self._kept]
        self.forward(
            pack.tokens,
            pack.tiles,
            pack.position,
            kept,
            shared,
            lambda number, own: self._attend(pack, own),
        )
        self._backward(pack, kept, shared)
        if factors is None:
            weight = torch.ones(n, device=total.device)
        else:
            norms = self._squares(pack, kept).sum(dim=0).sqrt()
            weight = factors(norms).index_select(0, pack.text)
        self._sums(pack, kept, weight, total)

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
        torch.index_select(self._embedding, 0, tokens, out=kept[0].x1)
        before, inner, above = kept[0].x1, shared.i, None
        for number, (layer, own) in enumerate(zip(self.layers, kept, strict=True)):
            out = own.x1, own.h1, own.s1, own.i_qkv
            self._normalise(tiles, layer.first, before, shared.y, inner, above, layer.qkv, out)
            torch.mm(own.h1, layer.qkv.weight.T, out=own.qkv)
            self._turn(tiles, position, own, layer.qkv)
            attend(number, own)
            slot = layer.o.slots[0]
            self._project(tiles, own.o, own.i_o, slot.start, slot.inputs, below=True)
            torch.mm(own.o, layer.o.weight.T, out=shared.y)
            out = own.x2, own.h2, own.s2, own.i_both
            self._normalise(
                tiles, layer.second, own.x1, shared.y, own.i_o, layer.o, layer.both, out
            )
            torch.mm(own.h2, layer.both.weight.T, out=own.both)
            self._gate(tiles, own, layer)
            torch.mm(own.z, layer.down.weight.T, out=shared.y)
            before, inner, above = own.x2, own.i_down, layer.down
        out = shared.x, shared.h, shared.s, shared.i
        self._normalise(tiles, self._norm, before, shared.y, inner, above, None, out)

    def _backward(self, pack: Pack, kept: Sequence[Any], shared: Any) -> None:
        """Leave the gradient of every product, and that times B, in the buffers."""
        tiles = pack.tiles
        states = shared.h.index_select(0, pack.rows)
        # All pieces of the output layer have one shape, whichever a text's tokens come to be in.
        slopes = loss_gradients(states, self.head, pack.targets, piece=len(pack.tokens) // EIGHTHS)
        shared.g.zero_().index_copy_(0, pack.rows, slopes.mul_(pack.share[:, None]))
        last = kept[-1]
        inputs = shared.x, shared.s, shared.g, shared.i, None
        out = last.g2, last.d_down
        self._normalise_back(tiles, self._norm, inputs, None, self.layers[-1].down, out)
        for number in reversed(range(len(kept))):
            layer, own = self.layers[number], kept[number]
            torch.mm(own.g2, layer.down.weight, out=shared.g_z)
            self._gate_back(tiles, shared.g_z, own, layer)
            torch.mm(own.both, layer.both.weight, out=shared.g)
            inputs = own.x2, own.s2, shared.g, own.d_both, own.g2
            out = own.g1, own.d_o
            self._normalise_back(tiles, layer.second, inputs, layer.both, layer.o, out)
            torch.mm(own.g1, layer.o.weight, out=shared.g_o)
            self._attend_back(pack, own, shared, layer.o.slots[0].start)
            for part, slot in enumerate(layer.qkv.slots):
                self._project(
                    tiles,
                    own.g_qkv,
                    own.d_qkv,
                    slot.middle,
                    slot.outputs,
                    skip=layer.qkv.bounds[part],
                    column=part * self._rank,
                )
            if number == 0:
                return  # nothing below the first layer is trained
            before = kept[number - 1]
            torch.mm(own.g_qkv, layer.qkv.weight, out=shared.g)
            inputs = own.x1, own.s1, shared.g, own.d_qkv, own.g1
            out = before.g2, before.d_down
            above = self.layers[number - 1].down
            self._normalise_back(tiles, layer.first, inputs, layer.qkv, above, out)

    def _spread(self, kept: Sequence[Any]) -> Iterator[tuple[Layer, Any]]:
        """Yield layers and their buffers; what is launched for one may run beside that of others.

        A launch alone leaves the GPU half idle if few instances are in the pack, and at its end.
        """
        layers = zip(self.layers, kept, strict=True)
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

    # Argument lists follow the kernels' own.
    # fmt: off

    def _squares(self, pack: Pack, kept: Sequence[Any]) -> Tensor:
        """Return the squared norm of each text's gradient, part by part."""
        texts, rank, scale = len(pack.offsets) - 1, self._rank, self.adapters.scale
        per_layer = sum(1 + len(group.slots) for group, *_ in self.layers[0].pairs(kept[0]))
        found = torch.empty(SHARES * per_layer * len(kept), texts, device=pack.share.device)
        row = 0
        for layer, own in self._spread(kept):
            for group, x, inner, g, d in layer.pairs(own):
                stack, width = len(group.slots), x.shape[1]
                for low, wide, parts, factor, bounds, used in (
                    (d, x, 1, 1.0, (0, width, width, width), stack * rank),
                    (inner, g, stack, scale**2, group.bounds, rank),
                ):
                    self._launch(
                        self._kernels.squares, (texts, parts, SHARES),
                        low, wide, pack.offsets, found, row, texts, factor, *bounds,
                        low.shape[1], wide.shape[1],
                        USED=used, W=_power(used), SHARES=SHARES, BT=32,
                    )
                    row += parts
        return found

    def _sums(self, pack: Pack, kept: Sequence[Any], weight: Tensor, total: Tensor) -> None:
        """Add up the gradients of each instance, token by token."""
        rank, scale = self._rank, self.adapters.scale
        for layer, own in self._spread(kept):
            for group, x, inner, g, d in layer.pairs(own):
                for low, wide, factor, places, used, stack in (
                    (d, x, 1.0, group.below, len(group.slots) * rank, True),
                    (inner, g, scale, group.above, rank, False),
                ):
                    self._launch(
                        self._kernels.add_sums, (wide.shape[1] // self._tile, len(total)),
                        low, wide, weight, pack.spans, total, total.shape[1], factor,
                        *group.bounds[1:3], *places, low.shape[1], wide.shape[1],
                        USED=used, W=_power(used), STACK=stack, BT=64,
                    )

    def _normalise(
        self, tiles: Tensor, norm: Any, before: Tensor, y: Tensor, inner: Tensor,
        above: Group | None, below: Group | None, out: tuple[Tensor, Tensor, Tensor, Tensor],
    ) -> None:
        """Finish the product y of the layer above, add it, normalise, begin the layer below."""
        adapters, stack = self.adapters, len(below.slots) if below else 0
        self._launch(
            self._kernels.norm_forward, (len(tiles),),
            before, y, inner, adapters.live, tiles, norm.weight, *out, adapters.size,
            above.above[0] if above else 0, *(below.below if below else (0, 0, 0)),
            adapters.scale, norm.tiny, WIDTH=self._hidden, ADD=above is not None, STACK=stack,
            W=_power(max(stack, 1) * self._rank),
        )

    def _normalise_back(
        self, tiles: Tensor, norm: Any,
        inputs: tuple[Tensor, Tensor, Tensor, Tensor, Tensor | None],
        below: Group | None, above: Group, out: tuple[Tensor, Tensor],
    ) -> None:
        """Go from the gradient of the layer below to that of the layer above.

        `inputs` are the residual, its spread, the gradient of the normed one, that of the layer
        below times B, and the gradient that goes past.
        """
        x, spread, g, d, past = inputs
        adapters, stack = self.adapters, len(below.slots) if below else 0
        self._launch(
            self._kernels.norm_backward, (len(tiles),),
            g, d, adapters.live, tiles, x, spread, norm.weight, g if past is None else past,
            *out, adapters.size, above.above[0],
            *(below.below if below else (0, 0, 0)), adapters.scale,
            WIDTH=self._hidden, ADD=past is not None, STACK=stack,
            W=_power(max(stack, 1) * self._rank),
        )

    def _gate(self, tiles: Tensor, own: Any, layer: Layer) -> None:
        adapters = self.adapters
        self._launch(
            self._kernels.gate_forward, (len(tiles),),
            own.both, own.i_both, adapters.live, tiles, own.z, own.i_down, adapters.size,
            *layer.both.above[:2], layer.down.below[0], adapters.scale, WIDTH=self._inner,
        )

    def _gate_back(self, tiles: Tensor, g: Tensor, own: Any, layer: Layer) -> None:
        adapters = self.adapters
        self._launch(
            self._kernels.gate_backward, (len(tiles),),
            g, own.d_down, own.both, own.i_both, adapters.live, tiles, own.d_both, adapters.size,
            *layer.both.above[:2], layer.down.below[0], adapters.scale, WIDTH=self._inner,
        )

    def _turn(self, tiles: Tensor, position: Tensor, own: Any, group: Group) -> None:
        adapters = self.adapters
        self._launch(
            self._kernels.turn, (len(tiles), self.heads + 2 * self.keys),
            own.qkv, own.i_qkv, adapters.live, tiles, position, *self._angles, adapters.size,
            *group.above, adapters.scale,
        )

    def _project(
        self, tiles: Tensor, x: Tensor, out: Tensor, start: int, width: int,
        *, skip: int = 0, column: int = 0, below: bool = False,
    ) -> None:
        """Multiply `width` columns of x, from `skip` on, by each row's own A (`below`) or B."""
        adapters = self.adapters
        self._launch(
            self._kernels.project, (len(tiles),),
            x, adapters.live, tiles, out, adapters.size, start, 1.0 if below else adapters.scale,
            skip, column, x.shape[1], width, out.shape[1], A=below,
        )

    def _attend(self, pack: Pack, own: Any) -> None:
        grid = len(pack.offsets) - 1, self.heads, self._blocks
        inputs = own.qkv, pack.offsets, own.o, own.logsum, self.size**-0.5
        self._launch(self._attention.attend_forward, grid, *inputs, **self._block)

    def _attend_back(self, pack: Pack, own: Any, shared: Any, start: int) -> None:
        texts, adapters = len(pack.offsets) - 1, self.adapters
        self._launch(
            self._attention.attend_queries, (texts, self.heads, self._blocks),
            own.qkv, own.o, own.logsum, shared.g_o, own.d_o, adapters.live, pack.owner,
            pack.offsets, *self._angles, own.g_qkv, shared.along, adapters.size, start,
            self.size**-0.5, **self._block,
        )
        self._launch(
            self._attention.attend_keys, (texts, self.keys, self._blocks),
            own.qkv, own.logsum, shared.g_o, pack.offsets, *self._angles, own.g_qkv, shared.along,
            self.size**-0.5, **self._block,
        )

    def attend_next(
        self, own: Any, keys: Tensor, values: Tensor, slot: Tensor, position: int
    ) -> None:
        """Attend from one new position of every row to all before it, kept in `keys`, `values`."""
        self._launch(
            self._attention.attend_next, (len(slot), self.keys),
            own.qkv, keys, values, slot, own.o, position, keys.shape[2], self.size**-0.5,
            G=max(16, _power(self.heads // self.keys)), BT=32,
        )


def _power(number: int) -> int:
    return 1 << (number - 1).bit_length()
