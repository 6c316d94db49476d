"""The audit of a release that already exists (METHOD §11)."""
