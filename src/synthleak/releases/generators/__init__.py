"""The built-in generators, one file each."""
