"""The deployable figure: choose on some folds, evaluate on another (docs/method.md §8)."""
