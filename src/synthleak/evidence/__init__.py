"""Stage 5: proxies observe every target in every release (docs/method.md §6).

Plug-in authors import from here: `family` registers a proxy family, `attacks` a prior attack.
"""

from synthleak.evidence.attack import Arm, Attack, attacks
from synthleak.evidence.family import Family, Proxy, families, family
from synthleak.evidence.observation import Floats, Observation, Targets, TextSet

__all__ = [
    "Arm",
    "Attack",
    "Family",
    "Floats",
    "Observation",
    "Proxy",
    "Targets",
    "TextSet",
    "attacks",
    "families",
    "family",
]
