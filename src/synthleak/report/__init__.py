"""Stage 9: tables, page and figures."""
