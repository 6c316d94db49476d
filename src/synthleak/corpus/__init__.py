"""Stage 1: records are read (docs/method.md §1)."""
