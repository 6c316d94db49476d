"""Stage 2: targets are selected, and the rest is split (docs/method.md §3)."""

from synthleak.pools.pool import Filter, Ground, Pool, Rule, rules

__all__ = ["Filter", "Ground", "Pool", "Rule", "rules"]
