"""Stage 1: records are read (docs/method.md §1).

>>> from synthleak.corpus import FieldReader, Reader, Record, readers
"""

# Loaded first: what is loaded later would replace the registry of the same name.
import synthleak.corpus.readers  # noqa: F401
from synthleak.corpus.corpus import Corpus, Labels, Reader, Record, assemble, readers
from synthleak.corpus.rows import FieldReader

__all__ = ["Corpus", "FieldReader", "Labels", "Reader", "Record", "assemble", "readers"]
