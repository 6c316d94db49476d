"""The audit: the pipeline, the setup that it works with, its folder and its result."""
