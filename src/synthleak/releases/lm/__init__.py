"""Generators on a language model: fine-tuning, private evolution, steering (docs/method.md
§5.2)."""
