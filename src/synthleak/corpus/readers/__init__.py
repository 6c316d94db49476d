"""The readers on the shelf, one file each."""
