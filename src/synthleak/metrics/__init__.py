"""Stage 7: measurements, each with its null distribution (METHOD §7, §8)."""
