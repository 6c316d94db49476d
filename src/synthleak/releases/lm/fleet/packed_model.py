"""A Llama that serves adapters on a GPU, forward and backward written out by hand.

The plain pass (`example_gradients.py`) takes any decoder on any device, and is the oracle. This one
computes the same faster, for four reasons:

- no padding: the rows of all products are the tokens of all texts, end to end;
- no copies: a tile of rows is multiplied by its instance's matrices in place;
- no gradient of a single example is stored: a first pass over every layer's inputs and gradients
  computes each text's norm, a second adds up the texts of an instance, each with its clipping
  factor;
- everything between two products with frozen weights is one kernel (`kernels.py` and
  `attention_kernels.py`, launched by `kernel_launches.py`).

A text's gradient does not depend on the other texts, except for its rows in the products with
frozen weights.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from synthleak.releases.lm.fleet.adapters import Adapters, FleetLinear
from synthleak.releases.lm.fleet.kernel_launches import Launches
from synthleak.releases.lm.fleet.llama_layers import Group, Layer, head_size, stacked
from synthleak.releases.lm.fleet.loss import loss_gradients
from synthleak.releases.lm.fleet.packs import EIGHTHS, Pack

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
        *kept, shared = [SimpleNamespace(**{k: v[:n] for k, v in b.items()}) for b in self._kept]
        self.forward(
            pack.tokens,
            pack.tiles,
            pack.position,
            kept,
            shared,
            lambda number, own: self.launches.attend(pack, own),
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
        for number, (layer, own) in enumerate(zip(self.layers, kept, strict=True)):
            out = own.x1, own.h1, own.s1, own.i_qkv
            launch.normalise(tiles, layer.first, before, shared.y, inner, above, layer.qkv, out)
            torch.mm(own.h1, layer.qkv.weight.T, out=own.qkv)
            launch.turn(tiles, position, own, layer.qkv)
            attend(number, own)
            slot = layer.o.slots[0]
            launch.project(tiles, own.o, own.i_o, slot.start, slot.inputs, below=True)
            torch.mm(own.o, layer.o.weight.T, out=shared.y)
            out = own.x2, own.h2, own.s2, own.i_both
            launch.normalise(
                tiles, layer.second, own.x1, shared.y, own.i_o, layer.o, layer.both, out
            )
            torch.mm(own.h2, layer.both.weight.T, out=own.both)
            launch.gate(tiles, own, layer)
            torch.mm(own.z, layer.down.weight.T, out=shared.y)
            before, inner, above = own.x2, own.i_down, layer.down
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
            layer, own = self.layers[number], kept[number]
            torch.mm(own.g2, layer.down.weight, out=shared.g_z)
            launch.gate_back(tiles, shared.g_z, own, layer)
            torch.mm(own.both, layer.both.weight, out=shared.g)
            inputs = own.x2, own.s2, shared.g, own.d_both, own.g2
            out = own.g1, own.d_o
            launch.normalise_back(tiles, layer.second, inputs, layer.both, layer.o, out)
            torch.mm(own.g1, layer.o.weight, out=shared.g_o)
            launch.attend_back(pack, own, shared, layer.o.slots[0].start)
            for part, slot in enumerate(layer.qkv.slots):
                launch.project(
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
            launch.normalise_back(tiles, layer.first, inputs, layer.qkv, above, out)
