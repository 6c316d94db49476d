"""`tsv`: tab-separated values."""

from __future__ import annotations

from pydantic import Field

from synthleak.corpus.corpus import readers
from synthleak.corpus.readers.csv import Csv


@readers.register("tsv", version=1)
class Tsv(Csv):
    """Tab-separated values with a header, plain or .gz; quotes mean nothing unless `quote` is set.

    A text that opens with a quotation mark is common in TSV files and must not swallow its rows.
    """

    delimiter: str = Field(default="\t", min_length=1, max_length=1)
    quote: str = Field(default="", max_length=1, description="the quotation mark, if cells use one")
