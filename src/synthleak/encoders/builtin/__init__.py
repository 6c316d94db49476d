"""The built-in encoders, one file each."""
