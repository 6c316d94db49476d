"""Room 2: whom the audit asks about (METHOD §3)."""
