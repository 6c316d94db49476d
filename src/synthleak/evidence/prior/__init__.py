"""The built-in prior attacks, one file each (docs/method.md §9)."""
