"""Stage 1: records are read (METHOD §1)."""
