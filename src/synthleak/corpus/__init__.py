"""Room 1: records come in (METHOD §1)."""
