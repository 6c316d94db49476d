"""Stage 2: targets are selected, and the rest is split (docs/method.md §3)."""

# Loaded first: what is loaded later would replace the registry of the same name.
import synthleak.pools.rules  # noqa: F401
from synthleak.pools.pool import Filter, Ground, Pool, Rule, rules

__all__ = ["Filter", "Ground", "Pool", "Rule", "rules"]
