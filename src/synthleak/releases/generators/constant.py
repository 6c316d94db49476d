"""`constant`: always the same text."""

from __future__ import annotations

from collections.abc import Sequence

from synthleak.releases.generator import Generator, generators
from synthleak.releases.release import Request, Synthetic


@generators.register("constant", version=1)
class Constant(Generator):
    """The same text always, whatever the private set: a null that no attack may beat."""

    text: str = "All records were withheld."

    @property
    def ignores_seed(self) -> bool:
        """There is nothing to draw."""
        return True

    def generate(self, request: Request) -> Sequence[Synthetic]:
        """Return the text as often as asked."""
        return [Synthetic(self.text)] * request.size
