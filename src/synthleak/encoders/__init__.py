"""Encoders: texts become vectors, once per text and encoder (docs/method.md §2)."""

from synthleak.encoders.encoder import Encoder, Vectors, encoders

__all__ = ["Encoder", "Vectors", "encoders"]
