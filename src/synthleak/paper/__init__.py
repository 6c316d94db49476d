"""The study that the project implements: its table layouts and the readers of its corpora."""
