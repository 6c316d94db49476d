"""The generators on the shelf, one file each."""
