"""Encoders: texts become vectors, once per text and encoder (docs/method.md §2).

Plug-in authors import from here:

- `Encoder`: the base class, with `encode(texts) -> float32 [n, d]`.
- `Vectors`: the type of what `encode` returns.
- `encoders`: the registry; `@encoders.register(name, version=1)` registers an encoder. `version` is
  raised whenever its vectors change.
"""

from synthleak.encoders.encoder import Encoder, Vectors, encoders

__all__ = ["Encoder", "Vectors", "encoders"]
