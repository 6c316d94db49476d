"""The built-in readers, one file each."""
