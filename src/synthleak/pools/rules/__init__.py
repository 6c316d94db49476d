"""The built-in pool rules, one file each."""
