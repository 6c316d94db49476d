"""The built-in opt-in proxy families, which fit a model or count n-grams, one file each."""
