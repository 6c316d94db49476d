"""Room 5: what each proxy sees of each target in each observation (METHOD §6)."""
