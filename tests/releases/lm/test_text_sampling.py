"""Writing texts: what was drawn is read, and what is no text is drawn again."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from synthleak.releases.lm.fleet.sampling import Decoding  # noqa: E402
from synthleak.releases.lm.text_sampling import TextSampler  # noqa: E402

END = 9
SAYINGS = {
    (1, END): "It rained again. And then we",
    (1, 1): "It rained again. And then we",
    (2, END): "Here is the rewritten text:",
    (3, END): "We stayed.",
    (6, END): "Relief.",
    (4, 4): 'It rained again, so "no" I said" is better. And',
    (5, 5): 'It rained again. She said "no" to',
}


def sampler(
    tries: list[list[tuple[int, ...]]], attempts: int
) -> tuple[TextSampler, list[list[int]]]:
    """Return a sampler that gets the tokens `tries[attempt]`, and what it asked for."""
    asked: list[list[int]] = []

    def draw(
        prompts: Any,
        of: Any,
        uniforms: Any,
        how: Any,
        steering: Any,
        done: Callable[[Any, Any], None],
    ) -> list[tuple[int, ...]]:
        drawn = tries[len(asked)]
        asked.append(of.tolist())
        half = len(drawn) // 2
        done(list(range(half, len(drawn))), drawn[half:])
        done(list(range(half)), drawn[:half])
        return drawn

    made = TextSampler.__new__(TextSampler)
    made.tokenizer = SimpleNamespace(decode=lambda rows: [SAYINGS[row] for row in rows])  # type: ignore[assignment]
    made._token_sampler = SimpleNamespace(sample=draw)  # type: ignore[assignment]
    made._attempts = attempts
    return made, asked


def write(
    made: TextSampler,
    rows: int,
    *,
    quoted: bool = False,
    labels: list[tuple[str, ...]] | None = None,
) -> list[str]:
    how, owners = Decoding(end=(END,), longest=2), [(5, rows)]
    return made.sample(
        [(0,)] * rows, np.arange(rows), owners, how, one_line=True, quoted=quoted, labels=labels
    )


def test_unfinished_text_keeps_whole_sentences() -> None:
    made, _ = sampler([[(1, END), (1, 1), (3, END)]], attempts=1)
    assert write(made, 3) == ["It rained again. And then we", "It rained again.", "We stayed."]


def test_quotation_ends_at_its_closing_mark() -> None:
    made, _ = sampler([[(4, 4), (5, 5), (3, END)]], attempts=1)
    texts = write(made, 3, quoted=True)
    assert texts == ['It rained again, so "no" I said', "It rained again.", "We stayed."]


def test_only_rejected_texts_are_sampled_again() -> None:
    made, asked = sampler([[(3, END), (2, END), (3, END), (2, END)], [(2, END), (1, 1)]], 2)
    texts = write(made, 4)
    assert asked == [[0, 1, 2, 3], [1, 3]]
    assert texts == ["We stayed.", "", "We stayed.", "It rained again."]


def test_texts_that_only_repeat_their_labels_are_resampled() -> None:
    made, asked = sampler([[(3, END), (6, END), (6, END)], [(6, END)], [(3, END)]], 3)
    texts = write(made, 3, labels=[("relief",), ("joy",), ("relief",)])
    assert asked == [[0, 1, 2], [2], [2]]
    assert texts == ["We stayed.", "Relief.", "We stayed."]


def test_sampling_errors_are_raised_as_they_are() -> None:
    def draw(*asked: Any) -> None:
        raise MemoryError

    made, _ = sampler([], attempts=1)
    made._token_sampler = SimpleNamespace(sample=draw)  # type: ignore[assignment]
    with pytest.raises(MemoryError):
        write(made, 1)


def test_an_error_while_reading_is_not_lost() -> None:
    made, _ = sampler([[(3, END), (8, 8)]], attempts=1)
    with pytest.raises(KeyError):
        write(made, 2)


def test_texts_are_passed_on_while_others_are_drawn() -> None:
    made, _ = sampler([[(3, END), (2, END), (1, END)], [(2, END)]], attempts=2)
    parts: list[list[str]] = []
    how = Decoding(end=(END,), longest=2)
    texts = made.sample(
        [(0,)] * 3, np.arange(3), [(5, 3)], how, one_line=True, written=parts.append
    )
    # Each call of `done` is a part; a degenerate text is never passed on, even if it stays.
    assert parts == [["It rained again. And then we"], ["We stayed."], [], []]
    assert not any(texts[1] in part for part in parts)
