"""Generators on a language model: fine-tuning, private evolution, steering (METHOD §5.2)."""
