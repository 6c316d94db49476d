"""Stage 7: measurements, each with its null distribution (docs/method.md §7, §8).

- `measure.py`: all measurements of a cell; start here. `scored_cell.py` joins labels to scores.
- `statistics/`: the statistics of the verdict; `null.py`: the test that combines them.
- `assignment.py`: who is a member, observed and redrawn; `power.py`: what would be found.
- `comparison/`: who is compared with whom; `crossfit/`: the deployable AUC.
- `epsilon/`: lower bounds on ε; `records/`: leakage record by record.
- `roc.py`, `rounds.py`, `ranks.py`, `curves.py`: ROC values, the paper's means, ranks, figures.
"""
