"""The audit of a release that already exists (docs/method.md §11)."""
