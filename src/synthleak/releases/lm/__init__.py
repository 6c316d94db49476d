"""Generators on a language model: fine-tuning, evolution, steering (docs/method.md §5.2)."""
