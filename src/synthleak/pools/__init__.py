"""Stage 2: targets are selected, and the rest is split (METHOD §3)."""
