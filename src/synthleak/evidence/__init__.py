"""Stage 5: proxies observe every target in every release (docs/method.md §6)."""
