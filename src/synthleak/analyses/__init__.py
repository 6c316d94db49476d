"""Stage 8: analyses of the tables, each a pure function (METHOD §10)."""
