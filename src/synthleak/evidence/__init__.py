"""Stage 5: proxies observe every target in every release (METHOD §6)."""
