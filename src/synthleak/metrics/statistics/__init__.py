"""The statistics of the verdict, for every signal and every assignment (docs/method.md §8)."""
