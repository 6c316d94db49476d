"""Analyses: one a file; each turns the tables of an audit into rows of its own table.

An analysis of another package needs `analysis`, `Study` and `Unavailable`.
"""

from synthleak.analyses.analysis import Study, Unavailable, analysis

__all__ = ["Study", "Unavailable", "analysis"]
