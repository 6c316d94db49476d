"""The prior attacks on the shelf, one file each (METHOD §9)."""
