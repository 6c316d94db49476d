"""Stage 5: proxies observe every target in every release (docs/method.md §6)."""

from synthleak.evidence.family import families, family
from synthleak.evidence.observation import Floats, Observation, Targets

__all__ = ["Floats", "Observation", "Targets", "families", "family"]
