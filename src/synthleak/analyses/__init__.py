"""Stage 8: analyses of the tables, each a pure function (docs/method.md §10)."""
