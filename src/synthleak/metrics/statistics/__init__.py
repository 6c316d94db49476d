"""The statistics of the verdict: `table.py` lists them, the other modules compute them."""

from synthleak.metrics.statistics.table import (
    AUC,
    BY_NAME,
    FEW_OTHERS,
    POOL_STATISTICS,
    RECORD_STATISTICS,
    TAIL,
    PoolStatistic,
    RecordStatistic,
    Statistic,
    Statistics,
    mean_compared,
    tail,
    tenth,
)

__all__ = [
    "AUC",
    "BY_NAME",
    "FEW_OTHERS",
    "POOL_STATISTICS",
    "RECORD_STATISTICS",
    "TAIL",
    "PoolStatistic",
    "RecordStatistic",
    "Statistic",
    "Statistics",
    "mean_compared",
    "tail",
    "tenth",
]
