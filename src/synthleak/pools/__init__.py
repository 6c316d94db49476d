"""Stage 2: targets are selected, and the rest is split (docs/method.md §3)."""
