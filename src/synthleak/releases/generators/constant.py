"""`constant`: always the same text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from synthleak.releases.generator import Generator, generators
from synthleak.releases.release import Request, Synthetic


@generators.register("constant", version=1)
class Constant(Generator):
    """The same text always, whatever the private set: a null that no attack may beat."""

    ignores_seed: ClassVar[bool] = True
    text: str = "All records were withheld."

    def generate(self, request: Request) -> Sequence[Synthetic]:
        return [Synthetic(self.text)] * request.size
