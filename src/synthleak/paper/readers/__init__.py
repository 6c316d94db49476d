"""Readers of the published corpora (docs/method.md §1)."""
