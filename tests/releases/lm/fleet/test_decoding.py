"""The largest_logits tokens of a large vocabulary against sorting all of it."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from synthleak.releases.lm.fleet.sampling import GROUP, Decoding, largest_logits, sample_tokens  # noqa: E402


@pytest.mark.parametrize("words", [7, 3 * GROUP, 40 * GROUP, 40 * GROUP + 9])
@pytest.mark.parametrize("k", [1, 5])
def test_the_likeliest_are_those_that_sorting_finds(words: int, k: int) -> None:
    generator = torch.Generator().manual_seed(words)
    logits = torch.randn(50, words, generator=generator)
    if words > GROUP:
        # All that count stand together in one group, or at the end beyond the last whole one.
        logits[:10, GROUP : GROUP + k] += 20
        logits[10:20, -k:] += 20
    values, places = largest_logits(logits, k)
    order = logits.argsort(dim=1, descending=True)[:, :k]
    assert torch.equal(places, order)
    assert torch.equal(values, logits.gather(1, order))


def test_equal_values_are_all_found() -> None:
    logits = torch.zeros(3, 40 * GROUP)
    logits[:, 100:300:20] = 1
    values, places = largest_logits(logits, 10)
    assert values.tolist() == [[1.0] * 10] * 3
    assert places.sort(dim=1).values.tolist() == [list(range(100, 300, 20))] * 3


def test_tokens_are_drawn_with_their_probabilities() -> None:
    logits = torch.full((1, 40 * GROUP), -9.0)
    logits[0, [70, 700, 1700]] = torch.tensor([0.5, 0.3, 0.2]).log()
    uniforms = (torch.arange(1000) + 0.5) / 1000
    how = Decoding(end=(), longest=1, top_k=3, top_p=1.0)
    drawn = sample_tokens(logits.expand(1000, -1), uniforms, how, 0)
    counts = [int((drawn == token).sum()) for token in (70, 700, 1700)]
    assert counts == [500, 300, 200]


@pytest.mark.parametrize("top_k", [1, 50])
def test_no_text_ends_before_its_least_length(top_k: int) -> None:
    logits = torch.tensor([[0.0, 9.0, 8.0, 1.0]])
    uniforms = (torch.arange(1000) + 0.5) / 1000
    how = Decoding(end=(1, 2), longest=9, top_k=top_k, top_p=1.0, least=2)
    for length in (0, 1):
        drawn = sample_tokens(logits.repeat(1000, 1), uniforms, how, length)
        assert not {1, 2} & set(drawn.tolist())
    assert 1 in sample_tokens(logits.repeat(1000, 1), uniforms, how, 2).tolist()
