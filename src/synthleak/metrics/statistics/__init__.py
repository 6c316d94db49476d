"""The statistics of the verdict: `table.py` lists them, the other modules compute them."""
