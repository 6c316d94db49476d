"""The deployable AUC: choose on some folds, evaluate on another (docs/method.md §8)."""
