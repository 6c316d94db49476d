"""Figures of single records: vulnerability, profiles, exposure, origins (docs/method.md §10,
§11)."""
