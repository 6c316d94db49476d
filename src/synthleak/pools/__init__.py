"""Stage 2: targets are selected, and the rest is split (docs/method.md §3).

Plug-in authors import from here: `@rules.register(name, version=1)` registers a pool rule.
"""

# Loaded first: what is loaded later would replace the registry of the same name.
import synthleak.pools.rules  # noqa: F401
from synthleak.pools.pool import Pool
from synthleak.pools.selection import Filter, Ground, Material, Rule, Writer, mean_ranks, rules

__all__ = ["Filter", "Ground", "Material", "Pool", "Rule", "Writer", "mean_ranks", "rules"]
