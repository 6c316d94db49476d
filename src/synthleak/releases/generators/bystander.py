"""`bystander`: fresh samples from R, blind to the private set."""

from __future__ import annotations

from collections.abc import Sequence

from synthleak.core.seeds import stream
from synthleak.releases.generator import Generator, generators
from synthleak.releases.release import Request, Synthetic


@generators.register("bystander", version=1)
class Bystander(Generator):
    """Fresh samples from the auxiliary records, blind to the private set: the widest null."""

    def generate(self, request: Request) -> Sequence[Synthetic]:
        """Sample R without replacement where it is large enough."""
        rng = stream(request.seed, "bystander")
        pool = request.public.auxiliary
        picks = rng.choice(len(pool), request.size, replace=request.size > len(pool))
        return [Synthetic(pool[pick].text, pool[pick].labels) for pick in picks]
