"""Stage 4: generators make releases, each with its privacy claim (docs/method.md §5)."""

# Loaded first: what is loaded later would replace the registry of the same name.
import synthleak.releases.generators  # noqa: F401
from synthleak.releases.claim import Claim, GaussianEvent, gaussian_sigma, no_claim, stated_claim
from synthleak.releases.generator import Generator, generators
from synthleak.releases.release import Public, Request, Synthetic

__all__ = [
    "Claim",
    "GaussianEvent",
    "Generator",
    "Public",
    "Request",
    "Synthetic",
    "gaussian_sigma",
    "generators",
    "no_claim",
    "stated_claim",
]
