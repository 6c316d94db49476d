"""The deployable figure: choose on some folds, evaluate on another (METHOD §8)."""
