"""`echo`: copies private records at a known rate."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import Field

from synthleak.core.seeds import stream
from synthleak.releases.generator import Generator, generators
from synthleak.releases.release import Request, Synthetic


@generators.register("echo", version=1)
class Echo(Generator):
    """Copies each private record with probability p and fills up from R: a leak of known size.

    The ceiling to check an auditor by: on targets without near-duplicates TPR tends to p and AUC to
    (1 + p) / 2, as long as the release is at least as large as the private set (docs/method.md
    §5.1).
    """

    p: float = Field(default=1.0, ge=0, le=1)

    def generate(self, request: Request) -> Sequence[Synthetic]:
        rng = stream(request.seed, "echo")
        heads = rng.random(len(request.records)) < self.p
        copies = [record for record, head in zip(request.records, heads, strict=True) if head]
        if len(copies) > request.size:
            keep = rng.choice(len(copies), request.size, replace=False)
            copies = [copies[position] for position in sorted(keep)]
        pool = request.public.auxiliary
        missing = request.size - len(copies)
        picks = rng.choice(len(pool), missing, replace=missing > len(pool))
        release = [*copies, *(pool[pick] for pick in picks)]
        return [
            Synthetic(release[position].text, release[position].labels)
            for position in rng.permutation(len(release))
        ]
