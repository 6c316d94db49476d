"""The built-in proxy families, one file each."""
