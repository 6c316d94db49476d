"""The built-in proxy families that fit a model to every observation, one file each."""
