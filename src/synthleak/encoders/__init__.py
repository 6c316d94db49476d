"""Encoders: texts become vectors, once per text and encoder (docs/method.md §2).

Plug-in authors import from here: `@encoders.register(name, version=1)` registers an encoder.
"""

from synthleak.encoders.encoder import Encoder, Vectors, encoders

__all__ = ["Encoder", "Vectors", "encoders"]
