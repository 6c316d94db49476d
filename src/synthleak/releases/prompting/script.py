"""Between words and tokens: chat templates where a backbone has one, plain prompts where not."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from synthleak.releases.backbone import Backbone
from synthleak.releases.fleet.sampling import Tokens

_HERE = "⟪here⟫"
_NEW_LINE = ("\n", "Ċ", "<0x0A>")
"""How vocabularies spell a new line: as it is, as byte-level symbol, as a byte."""


def distinct(requests: Sequence[str]) -> tuple[list[str], NDArray[np.int64]]:
    """Return the different requests, and for each request which of them it is.

    >>> words, of = distinct(["a", "b", "a"])
    >>> words, of.tolist()
    (['a', 'b'], [0, 1, 0])
    """
    numbers: dict[str, int] = {}
    of = [numbers.setdefault(request, len(numbers)) for request in requests]
    return list(numbers), np.array(of, dtype=np.int64)


class Script:
    """Writes prompts for a backbone, and reads what it drew."""

    def __init__(self, backbone: Backbone) -> None:
        self._backbone = backbone

    @cached_property
    def frame(self) -> tuple[str, str] | None:
        """What the chat template puts before and after a request; none without a template."""
        tokenizer = self._backbone.tokenizer
        if not getattr(tokenizer, "chat_template", None):
            return None
        turn = [{"role": "user", "content": _HERE}]
        whole: str = tokenizer.apply_chat_template(turn, tokenize=False, add_generation_prompt=True)
        before, _, after = whole.partition(_HERE)
        return before, after

    def ask(self, requests: Sequence[str]) -> list[Tokens]:
        """Return the prompts of requests in plain words.

        The answer to a chat is opened with a quotation mark: a small model then gives the text that
        was asked for, and seldom talks about it.
        """
        before, after = self.frame or ("", "\n\nText:")
        after += '"' if self.frame else ""
        return self.encode([f"{before}{request}{after}" for request in requests])

    def encode(self, texts: Sequence[str]) -> list[Tokens]:
        """Return the tokens of texts as they are."""
        if not texts:
            return []
        tokenizer = self._backbone.tokenizer
        fast = getattr(tokenizer, "backend_tokenizer", None)
        if fast is not None:
            # What the library wraps around this takes longer than the tokens themselves.
            batch = fast.encode_batch_fast(list(texts), add_special_tokens=False)
            return [tuple(row.ids) for row in batch]
        return [tuple(row) for row in tokenizer(list(texts), add_special_tokens=False)["input_ids"]]

    def decode(self, rows: Sequence[Tokens]) -> list[str]:
        """Return the texts of tokens, without special marks."""
        tokenizer = self._backbone.tokenizer
        fast = getattr(tokenizer, "backend_tokenizer", None)
        if fast is not None:
            texts: list[str] = fast.decode_batch([list(row) for row in rows])
            return texts
        return [self._backbone.decode(row) for row in rows]

    def ends(self, *, one_line: bool) -> tuple[int, ...]:
        """Return the tokens that end a text; a plain prompt knows no other end than a new line."""
        return self._stops + (self._lines if one_line or self.frame is None else ())

    @cached_property
    def _stops(self) -> tuple[int, ...]:
        """The end tokens: a model may know one for texts and another for turns."""
        model = self._backbone.model
        named = [
            model.config.eos_token_id,
            getattr(getattr(model, "generation_config", None), "eos_token_id", None),
        ]
        found = {self._backbone.end}
        for ends in named:
            found |= set(_listed(ends))
        return tuple(sorted(found))

    @cached_property
    def _lines(self) -> tuple[int, ...]:
        tokenizer = self._backbone.tokenizer
        spelled = tokenizer.convert_ids_to_tokens(list(range(len(tokenizer))))
        return tuple(
            token
            for token, word in enumerate(spelled)
            if word and any(line in word for line in _NEW_LINE)
        )


def _listed(ends: int | Iterable[int] | None) -> list[int]:
    if ends is None:
        return []
    return [ends] if isinstance(ends, int) else list(ends)
