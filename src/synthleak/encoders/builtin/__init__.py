"""The encoders on the shelf, one file each."""
