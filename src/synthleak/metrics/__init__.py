"""Stage 7: measurements, each with its null distribution (docs/method.md §7, §8)."""
