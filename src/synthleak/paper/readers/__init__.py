"""Readers of the published corpora (METHOD §1)."""
