"""Tokens of prompts: in the backbone's chat template if it has one, else as plain text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import cached_property

import numpy as np
from jinja2 import TemplateError
from numpy.typing import NDArray

from synthleak.core.errors import GeneratorError
from synthleak.releases.lm.backbone import Backbone
from synthleak.releases.lm.fleet.sampling import Tokens

_HERE = "⟪here⟫"
_DAY = datetime(2024, 7, 26)
"""The date for templates that contain one, so that a release does not depend on today."""
_NEW_LINE = ("\n", "Ċ", "<0x0A>")
"""A new line in vocabularies: the character, a byte-level symbol, or a byte."""


def distinct(requests: Sequence[str]) -> tuple[list[str], NDArray[np.int64]]:
    """Return the distinct requests, and for each request its index among them.

    >>> words, of = distinct(["a", "b", "a"])
    >>> words, of.tolist()
    (['a', 'b'], [0, 1, 0])
    """
    numbers: dict[str, int] = {}
    of = [numbers.setdefault(request, len(numbers)) for request in requests]
    return list(numbers), np.array(of, dtype=np.int64)


class PromptTokenizer:
    """Encodes prompts for a backbone, and decodes what it drew."""

    def __init__(self, backbone: Backbone) -> None:
        self._backbone = backbone

    @cached_property
    def chat_frame(self) -> tuple[str, str] | None:
        """What the chat template puts before and after a request; none without a template."""
        tokenizer = self._backbone.tokenizer
        if not getattr(tokenizer, "chat_template", None):
            return None
        turn = [{"role": "user", "content": _HERE}]
        try:
            template = tokenizer.get_chat_template()
            whole: str = tokenizer.apply_chat_template(
                turn,
                chat_template=_fixed_day() + template if "strftime_now" in template else template,
                tokenize=False,
                add_generation_prompt=True,
            )
        except (TemplateError, TypeError, ValueError) as error:
            raise self._unfit(str(error).strip().partition("\n")[0]) from None
        before, *rest = whole.split(_HERE)
        if len(rest) != 1:
            raise self._unfit(f"it shows what is asked {len(rest)} times, or alters it")
        return before, rest[0]

    def _unfit(self, reason: str) -> GeneratorError:
        return GeneratorError(
            f"the chat template of the backbone {self._backbone.name!r} cannot be used ({reason})",
            remedy="choose a backbone that answers one user's turn, or one without a template",
        )

    def encode_requests(self, requests: Sequence[str]) -> list[Tokens]:
        """Return the prompts of requests in plain words.

        A chat prompt ends with an opening quotation mark: a small model then gives the requested
        text and seldom talks about it.
        """
        if self.chat_frame is None:
            return self.encode_plain([f"{request}\n\nText:" for request in requests])
        before, after = self.chat_frame
        return self.encode([f'{before}{request}{after}"' for request in requests])

    def encode_plain(self, texts: Sequence[str]) -> list[Tokens]:
        """Return the tokens of plain prompts, after what the tokenizer opens every text with."""
        return [self._backbone.opening + tokens for tokens in self.encode(texts)]

    def encode(self, texts: Sequence[str]) -> list[Tokens]:
        """Return the tokens of texts as they are."""
        if not texts:
            return []
        tokenizer = self._backbone.tokenizer
        fast = getattr(tokenizer, "backend_tokenizer", None)
        if fast is not None:
            # The library's wrapper around this call takes longer than the call itself.
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
        """Return the tokens that end a text; after a plain prompt, a new line is one too."""
        return self._stops + (self._lines if one_line or self.chat_frame is None else ())

    @cached_property
    def _stops(self) -> tuple[int, ...]:
        """The end tokens: a model may have one for texts and another for turns."""
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


def _fixed_day() -> str:
    """Return a macro that writes the fixed date instead of today's."""
    codes = [f"%{code}" for code in "aAbBdHIjmMpSyY"] + ["%-d", "%-m"]
    filters = "".join(f"|replace('{code}', '{_DAY.strftime(code)}')" for code in codes)
    return f"{{%- macro strftime_now(format) -%}}{{{{ format{filters} }}}}{{%- endmacro -%}}"


def _listed(ends: int | Iterable[int] | None) -> list[int]:
    if ends is None:
        return []
    return [ends] if isinstance(ends, int) else list(ends)
