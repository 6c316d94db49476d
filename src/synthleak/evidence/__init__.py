"""Stage 5: proxies observe every target in every release (docs/method.md §6).

Plug-in authors import from here:

- `family`: the decorator that registers a function as a proxy family.
- `Targets`, `Observation`: what such a function is given; `TextSet` is what both are.
- `Floats`: the type of what it returns, float64 `[target, proxy]`.
- `observe_texts`: calls it on a few texts, to try it out.
- `Attack`, `Arm`, `attacks`: base class, columns and registry of prior attacks;
  `@attacks.register(name, version=1)` registers one.
- `Family`, `Proxy`, `families`: what is registered, and the catalogue.
"""

from synthleak.evidence.attack import Arm, Attack, attacks
from synthleak.evidence.family import Family, Proxy, families, family, observe_texts
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
    "observe_texts",
]
