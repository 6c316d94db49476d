"""Stage 2: targets are selected, and the rest is split (docs/method.md §3).

Plug-in authors import from here: `@rule(name, version=1)` registers a pool rule.
"""

from synthleak.pools.pool import Filter, Ground, Pool, Rule, mean_ranks, rule

__all__ = ["Filter", "Ground", "Pool", "Rule", "mean_ranks", "rule"]
