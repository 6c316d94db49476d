"""How the kernels of packed texts are launched: one method for each, and the constants they share.

`packed_model.py` says in which order, and owns the buffers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from itertools import cycle
from typing import Any

import torch
from torch import Tensor

from synthleak.releases.lm.fleet.adapters import Adapters
from synthleak.releases.lm.fleet.batches import power_of_two
from synthleak.releases.lm.fleet.llama_layers import Group, Layer, head_size, tile_of
from synthleak.releases.lm.fleet.packs import ROWS, Pack

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
        self, config: Any, adapters: Adapters, layers: Sequence[Layer], longest: int
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

    def _spread(self, kept: Sequence[Any]) -> Iterator[tuple[Layer, Any]]:
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

    # Argument lists follow the kernels' own.
    # fmt: off

    def squares(self, pack: Pack, kept: Sequence[Any]) -> Tensor:
        """Return the squared norm of each text's gradient, part by part."""
        texts, rank, scale = len(pack.offsets) - 1, self._rank, self._adapters.scale
        per_layer = sum(1 + len(group.slots) for group, *_ in self._layers[0].pairs(kept[0]))
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
                        USED=used, W=power_of_two(used), SHARES=SHARES, BT=32,
                    )
                    row += parts
        return found

    def sums(self, pack: Pack, kept: Sequence[Any], weight: Tensor, total: Tensor) -> None:
        """Add up the gradients of each instance, token by token."""
        rank, scale = self._rank, self._adapters.scale
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

    def gate(self, tiles: Tensor, own: Any, layer: Layer) -> None:
        """Finish gate and up, multiply them, and begin down."""
        adapters = self._adapters
        self._launch(
            self._kernels.gate_forward, (len(tiles),),
            own.both, own.i_both, adapters.live, tiles, own.z, own.i_down, adapters.size,
            *layer.both.above[:2], layer.down.below[0], adapters.scale, WIDTH=self._inner,
        )

    def gate_back(self, tiles: Tensor, g: Tensor, own: Any, layer: Layer) -> None:
        """Go from the gradient g of down's input to those of gate and up, in the place of both."""
        adapters = self._adapters
        self._launch(
            self._kernels.gate_backward, (len(tiles),),
            g, own.d_down, own.both, own.i_both, adapters.live, tiles, own.d_both, adapters.size,
            *layer.both.above[:2], layer.down.below[0], adapters.scale, WIDTH=self._inner,
        )

    def turn(self, tiles: Tensor, position: Tensor, own: Any, group: Group) -> None:
        """Finish queries, keys and values, and turn queries and keys by their positions."""
        adapters = self._adapters
        self._launch(
            self._kernels.turn, (len(tiles), self._heads + 2 * self._keys),
            own.qkv, own.i_qkv, adapters.live, tiles, position, *self.angles, adapters.size,
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

    def attend(self, pack: Pack, own: Any) -> None:
        """Attend within each text."""
        grid = len(pack.offsets) - 1, self._heads, self._blocks
        inputs = own.qkv, pack.offsets, own.o, own.logsum, self._size**-0.5
        self._launch(self._attention.attend_forward, grid, *inputs, **self._block)

    def attend_back(self, pack: Pack, own: Any, shared: Any, start: int) -> None:
        """Go from the gradient of attention to that of queries, then of keys and values."""
        texts, adapters = len(pack.offsets) - 1, self._adapters
        self._launch(
            self._attention.attend_queries, (texts, self._heads, self._blocks),
            own.qkv, own.o, own.logsum, shared.g_o, own.d_o, adapters.live, pack.owner,
            pack.offsets, *self.angles, own.g_qkv, shared.along, adapters.size, start,
            self._size**-0.5, **self._block,
        )
        self._launch(
            self._attention.attend_keys, (texts, self._keys, self._blocks),
            own.qkv, own.logsum, shared.g_o, pack.offsets, *self.angles, own.g_qkv, shared.along,
            self._size**-0.5, **self._block,
        )

    def attend_next(
        self, own: Any, keys: Tensor, values: Tensor, slot: Tensor, position: int
    ) -> None:
        """Attend from one new position of every row to all before it, kept in `keys`, `values`."""
        self._launch(
            self._attention.attend_next, (len(slot), self._keys),
            own.qkv, keys, values, slot, own.o, position, keys.shape[2], self._size**-0.5,
            G=max(16, power_of_two(self._heads // self._keys)), BT=32,
        )
