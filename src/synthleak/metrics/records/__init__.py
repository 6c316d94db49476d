"""Figures of single records: vulnerability, profiles, exposure, origins (METHOD §10, §11)."""
