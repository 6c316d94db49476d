"""The proxy families on the shelf, one file each."""
