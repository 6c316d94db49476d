"""Stage 8: analyses of the tables, each a pure function (docs/method.md §10)."""

from synthleak.analyses.analysis import Study, Unavailable, analyses, analysis

__all__ = ["Study", "Unavailable", "analyses", "analysis"]
