"""Room 8: what the scores say (METHOD §10)."""
