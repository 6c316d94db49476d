"""The pool rules on the shelf, one file each."""
