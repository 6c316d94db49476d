"""The prior attacks on the shelf, one file each (docs/method.md §9)."""
