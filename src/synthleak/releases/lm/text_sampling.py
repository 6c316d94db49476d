"""Sampling texts: requests in, clean texts out; rejected texts are sampled again.

Whether a text is rejected depends on the text alone, never on a private record. Prompts are in the
backbone's chat template if it has one, else plain text.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from jinja2 import TemplateError
from numpy.typing import NDArray

from synthleak.core.errors import GeneratorError
from synthleak.core.seeds import stream
from synthleak.corpus.corpus import Labels
from synthleak.releases.lm.backbone import Backbone
from synthleak.releases.lm.fleet.sampling import Decoding, Tokens
from synthleak.releases.lm.fleet.shared_backbone import SharedBackbone
from synthleak.releases.lm.prompts import clean_answer, degenerate, unquoted, whole_sentences
from synthleak.releases.lm.token_sampling import SteeringVectors, TokenSampler

if TYPE_CHECKING:
    from synthleak.releases.generators.augpe import AugPe


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
        tokens = {self._backbone.end}
        for ends in named:
            tokens |= set(_listed(ends))
        return tuple(sorted(tokens))

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


log = logging.getLogger("synthleak.releases")

Owner = tuple[int, int]
"""A seed, and the number of consecutive rows that are drawn from it."""


class TextSampler:
    """Samples texts from the shared backbone."""

    def __init__(self, shared: SharedBackbone, *, attempts: int) -> None:
        self.tokenizer = PromptTokenizer(shared.backbone)
        self._token_sampler = TokenSampler(shared)
        self._attempts = attempts

    def sample(
        self,
        prompts: Sequence[Tokens],
        of: Sequence[int] | NDArray[np.int64],
        owners: Sequence[Owner],
        how: Decoding,
        *,
        one_line: bool,
        quoted: bool = False,
        labels: Sequence[Labels] | None = None,
        steering: SteeringVectors | None = None,
        written: Callable[[Sequence[str]], None] = lambda texts: None,
    ) -> list[str]:
        """Continue prompt `of[r]` for every row r; a row's owner decides its randomness.

        `quoted` says that prompts end with an opening quotation mark; `labels` are those that each
        row should fit. A text that is degenerate after the last attempt is kept: a release always
        has its full size. `written` is given the others, in a thread, while the device draws more.
        """
        prompt_of = np.asarray(of, dtype=np.int64)
        texts = [""] * len(prompt_of)
        rows = np.arange(len(prompt_of))
        rejected: list[int] = []
        drawn, ends = 0, frozenset(how.end)

        def read(places: list[int], drawn: list[Tokens]) -> None:
            accepted = []
            answers = self.tokenizer.decode(drawn)
            for row, answer, tokens in zip(rows[places].tolist(), answers, drawn, strict=True):
                inside, ended = unquoted(answer) if quoted else (answer, False)
                whole = inside if ended or tokens[-1] in ends else whole_sentences(inside)
                text = texts[row] = clean_answer(whole, one_line=one_line)
                if degenerate(text, labels[row] if labels else ()):
                    rejected.append(row)
                else:
                    accepted.append(text)
            written(accepted)

        for attempt in range(self._attempts):
            uniforms = _uniforms(owners, attempt, how.longest)[rows]
            rejected.clear()
            tokens = self._token_sampler.sample(
                prompts, prompt_of[rows], uniforms, how, steering, read
            )
            drawn += sum(map(len, tokens))
            rows = np.array(sorted(rejected), dtype=np.int64)
            if not len(rows):
                break
        log.info("%d texts, %d tokens, %d still degenerate", len(prompt_of), drawn, len(rows))
        return texts


def _uniforms(owners: Sequence[Owner], attempt: int, longest: int) -> NDArray[np.float32]:
    parts = [
        stream(seed, "tokens", attempt).random((rows, longest), dtype=np.float32)
        for seed, rows in owners
    ]
    return np.concatenate(parts) if parts else np.zeros((0, longest), dtype=np.float32)


class LocalWriter:
    """Writes texts with the shared backbone."""

    def __init__(self, generator: AugPe, *, one_line: bool) -> None:
        shared = generator.shared_backbone()
        self._sampler = TextSampler(shared, attempts=generator.attempts)
        tokenizer = self._sampler.tokenizer
        if tokenizer.chat_frame is None:
            log.warning(
                "the backbone %r has no chat template: prompts are written plainly, and texts end"
                " with their line",
                shared.backbone.name,
            )
        self._quoted = tokenizer.chat_frame is not None
        self._one_line = one_line or not self._quoted
        self._how = generator.decoding(tokenizer.ends(one_line=self._one_line))
        self._context = shared.backbone.context

    def tell(self) -> None:
        """Log nothing: a local backbone costs only time."""

    def write(
        self,
        requests: Sequence[str],
        labels: Sequence[Labels],
        each: int,
        owners: Sequence[tuple[int, int]],
        written: Callable[[Sequence[str]], None] = lambda texts: None,
    ) -> list[str]:
        """Answer every request `each` times; a prompt is read once for all its answers."""
        different, number = distinct(requests)
        prompts = self._sampler.tokenizer.encode_requests(different)
        longest = max(map(len, prompts), default=0) + self._how.longest
        if longest > self._context:
            raise GeneratorError(
                f"a prompt and its answer take {longest} tokens and the backbone reads"
                f" {self._context}",
                remedy="use a smaller max_tokens, or shorter prompts",
            )
        of = np.repeat(number, each)
        return self._sampler.sample(
            prompts,
            of,
            owners,
            self._how,
            one_line=self._one_line,
            quoted=self._quoted,
            labels=[name for name in labels for _ in range(each)],
            written=written,
        )
