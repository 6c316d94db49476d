"""Stage 1: records are read (docs/method.md §1).

>>> from synthleak.corpus import FieldReader, Reader, Record, readers
"""

from synthleak.corpus.corpus import Corpus, Labels, Reader, Record, assemble, readers
from synthleak.corpus.rows import FieldReader

__all__ = ["Corpus", "FieldReader", "Labels", "Reader", "Record", "assemble", "readers"]
