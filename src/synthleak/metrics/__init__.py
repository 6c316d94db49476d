"""Stage 7: measurements, each with its null distribution (docs/method.md §7, §8).

- `membership.py`: where labels meet scores; `scored_cell.py`: one cell with both.
- `measure.py`: all measurements of a cell (start here), kept as `measurements.py` has them.
- `verdict_statistics.py`: the statistics of the verdict; `null.py`: the test that combines them.
- `member_comparison.py`, `within_records.py`: who is compared with whom.
- `epsilon.py`: lower bounds on ε; `power.py`: what would be found; `blind.py`: was the split fair?
- `profile.py`, `exposure.py`: leakage record by record; `curves.py`: figures.
"""
