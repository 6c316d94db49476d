"""A generator as a program of awk: training lines, shuffled by the seed, are the release."""

from __future__ import annotations

SHUFFLE = """
{ line[NR] = $0 }
END {
  srand(seed)
  for (i = NR; i > 1; i--) { j = int(rand() * i) + 1; t = line[i]; line[i] = line[j]; line[j] = t }
  for (i = 0; i < n; i++) print line[i % NR + 1] > out
}
"""
AWK = ["awk", "-v", "seed={seed}", "-v", "n={n}", "-v", "out={out}", "-f", "shuffle.awk", "{train}"]
