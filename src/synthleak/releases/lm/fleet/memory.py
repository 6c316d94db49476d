"""How many instances, tokens and texts fit into memory, computed before anything is allocated.

All sizes are bytes. The shares are upper bounds of what the eager decoder keeps for its backward
pass; `benchmarks/fleet.py` prints the plan beside the measured peak.
"""

from __future__ import annotations

from dataclasses import dataclass

from synthleak.core.errors import GeneratorError
from synthleak.releases.lm.fleet.training import CHUNK

HEADROOM = 0.88
"""Share of the memory that is used; the rest is for the allocator and the libraries."""

FULL = 4
"""Bytes of a value in full precision."""

PACKED_RANKS = 512
"""Values of low rank that a packed layer keeps of a token, at most for ranks up to 32."""

PROMPT = 32
"""Tokens of a prompt that sampling reserves memory for."""

MOST_TOKENS = 98_304
"""Tokens of training that are computed together."""
MOST_TEXTS = 32_768
MOST_ANSWERS = 65_536
"""Texts at once where their prompts are kept once."""


@dataclass(frozen=True)
class Shape:
    """What decides the memory of a backbone."""

    layers: int
    hidden: int
    inner: int
    keys: int
    vocabulary: int
    parameters: int
    adapter: int
    bytes: int
    packed: bool = False

    @property
    def weights(self) -> int:
        """The frozen backbone."""
        return self.parameters * self.bytes

    @property
    def instance(self) -> int:
        """One instance: master, two moments, sum and live; unpacked, noise and step as well."""
        return self.adapter * ((4 if self.packed else 6) * FULL + self.bytes)

    @property
    def token(self) -> int:
        """One token of training: what every layer keeps for the backward pass.

        Packed: `PackedModel.kept`, and some more for low ranks and shared buffers.
        """
        if self.packed:
            kept = 9 * self.hidden + 4 * self.keys + 3 * self.inner + PACKED_RANKS
            return (self.layers + 2) * kept * self.bytes
        norms = 2 * (2 * FULL + self.bytes) * self.hidden
        attention = 8 * self.hidden * self.bytes
        inner = 5 * self.inner * self.bytes
        return self.layers * (norms + attention + inner)

    @property
    def example(self) -> int:
        """One example of training: its copy of the adapter, and its own gradient."""
        return 0 if self.packed else 2 * self.adapter * self.bytes

    @property
    def head(self) -> int:
        """One chunk of the output layer: logits, probabilities, gradient."""
        return CHUNK * self.vocabulary * (2 * FULL + 2 * self.bytes)

    @property
    def logits(self) -> int:
        """Drawing one token: its logits, and what is computed from them."""
        return self.vocabulary * (2 * self.bytes + FULL)

    def layer(self, positions: int) -> int:
        """One text's keys and values of one layer."""
        return 2 * self.keys * self.bytes * positions

    def text(self, longest: int) -> int:
        """One text of sampling: keys and values (unpacked twice, while they grow) and its logits.

        Packed, a prompt has a place of its own, and a step its buffers.
        """
        if self.packed:
            return (
                self.layers * self.layer(longest + PROMPT) + self.token // self.layers + self.logits
            )
        return 2 * self.layers * self.layer(longest) + self.logits


@dataclass(frozen=True)
class Fleet:
    """The numbers of instances, tokens, examples and texts that are computed together."""

    instances: int
    tokens: int
    examples: int
    texts: int


def plan_fleet(
    shape: Shape, memory: int, *, wanted: int, batch: float, longest: int, most: int | None = None
) -> Fleet:
    """Return the largest fleet that fits `memory`: of `wanted` instances, at most `most`.

    Instances come first, since a step costs little more for many than for few; then as many
    examples of one step as the rest allows.
    """
    room = int(memory * HEADROOM) - shape.weights
    least = shape.instance + shape.head + longest * shape.token + shape.example
    if room < least or room < shape.instance + shape.text(longest):
        raise GeneratorError(
            f"the backbone needs {(shape.weights + least) / 2**30:.1f} GiB for one instance,"
            f" but only {memory * HEADROOM / 2**30:.1f} GiB are available",
            remedy="use a smaller backbone or max_tokens, or a larger device",
        )
    instances = max(1, min(wanted, most or wanted, int(room * 0.5) // shape.instance))
    rest = room - instances * shape.instance - shape.head
    # Poisson batches vary: half as many again as expected are computed together, if they fit.
    wish = max(1, int(1.5 * batch * instances))
    examples = max(1, min(wish, rest // (shape.example + longest * shape.token)))
    tokens = min(MOST_TOKENS, (rest - examples * shape.example) // shape.token)
    if examples < wish:
        # Most texts are shorter than the longest: trade tokens for examples at half its length.
        examples = max(examples, min(wish, rest // (shape.example + longest * shape.token // 2)))
        tokens = min(MOST_TOKENS, (rest - examples * shape.example) // shape.token)
    sampling = room - instances * shape.instance
    texts = max(1, min(MOST_TEXTS, sampling // shape.text(longest)))
    return Fleet(instances, max(int(tokens), longest), examples, int(texts))
