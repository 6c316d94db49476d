"""Encoders: texts become vectors, once per text and encoder (METHOD §2)."""
