"""Encoders: texts become vectors, once per text and encoder (docs/method.md §2)."""
