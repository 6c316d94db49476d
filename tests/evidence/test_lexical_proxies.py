"""Every lexical proxy against its slow oracle and against libraries that others wrote."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import SequenceMatcher

import numpy as np
import pytest
from rank_bm25 import BM25Okapi
from rouge_score.rouge_scorer import RougeScorer

from support.oracles.evidence_lexical import folded, lexical, words
from synthleak.core.seeds import stream
from synthleak.corpus.readers.demo import write_demo
from synthleak.evidence import Observation, Targets, families
from synthleak.evidence.family import read_vectors
from synthleak.evidence.fast.grams import longest_substrings
from synthleak.evidence.fast.retrieval import TOP, bm25, retrieve
from synthleak.evidence.fast.words import inverse_frequency
from synthleak.evidence.proxies.sequence_overlap import common_words
from synthleak.evidence.table import look

LEXICAL = [entry.plugin for entry in families if entry.plugin.view == "lexical"]
DEMO = [record.text for record in write_demo(260, seed=5)]


def random_texts(seed: int, count: int) -> list[str]:
    """Short texts of few words, so that overlaps, repeats and ties abound."""
    rng = stream(seed, "random texts")
    lexicon = ["a", "be", "red", "fox", "Dr", "Maria", "40", "3/4", "AB-12", "ab,", "éa", "病"]
    return [
        " ".join(lexicon[i] for i in rng.integers(len(lexicon), size=rng.integers(0, 14)))
        for _ in range(count)
    ]


def seen(targets: Sequence[str], texts: Sequence[str]) -> list[dict[str, float]]:
    """Return {proxy: value} for each target, by the built-in families."""
    asked, observation = Targets(targets, read_vectors), Observation(texts, read_vectors)
    tables = [look(member, asked, observation) for member in LEXICAL]
    names = [proxy.name for member in LEXICAL for proxy in member.proxies]
    return [dict(zip(names, row, strict=True)) for row in np.hstack(tables).tolist()]


CASES = {
    "demo, more texts than are retrieved": (DEMO[:4], DEMO[10:66]),
    "demo, targets among the texts": (DEMO[:6], DEMO[3:20]),
    "demo, more than 2 texts are 1%": (DEMO[:4], [*DEMO, *DEMO[2:90]]),
    **{
        f"random {seed}": (
            random_texts(seed, 5),
            random_texts(seed + 100, 7 + 20 * (seed % 4)),
        )
        for seed in range(8)
    },
}


@pytest.mark.parametrize("case", CASES)
def test_the_oracle_agrees_with_every_lexical_proxy(case: str) -> None:
    targets, texts = CASES[case]
    for target, values in zip(targets, seen(targets, texts), strict=True):
        assert values == pytest.approx(lexical(target, texts), abs=1e-9)


def test_oracle_covers_the_lexical_proxies() -> None:
    assert len(lexical("a b", ["a b", "c"])) == 17
    assert len(seen(["a b"], ["a b", "c"])[0]) == 17


class OurIdf(BM25Okapi):  # type: ignore[misc]
    """rank-bm25 with the idf of docs/method.md §6."""

    def _calc_idf(self, nd: dict[str, int]) -> None:
        self.idf = {
            word: float(inverse_frequency(self.corpus_size, np.array(df)))
            for word, df in nd.items()
        }


def test_rank_bm25_gives_the_same_scores() -> None:
    observation, targets = Observation(DEMO[20:120], read_vectors), Targets(DEMO[:20], read_vectors)
    library = OurIdf([words(text) for text in observation.texts], k1=1.5, b=0.75)
    expected = [library.get_scores(words(text)) for text in targets.texts]
    assert bm25(targets, observation) == pytest.approx(np.array(expected))


def test_the_fifty_best_are_retrieved_best_first() -> None:
    observation, targets = Observation(DEMO[20:120], read_vectors), Targets(DEMO[:20], read_vectors)
    scores, found = bm25(targets, observation), retrieve(targets, observation)
    assert found.rows.shape == (20, TOP)
    assert (np.diff(found.scores, axis=1) <= 1e-9).all()
    assert found.scores.min(axis=1) == pytest.approx(np.sort(scores, axis=1)[:, -TOP])


class OurWords:
    """Lets rouge-score cut text as METHOD does."""

    def tokenize(self, text: str) -> list[str]:
        return list(words(text))


def test_rouge_score_gives_the_same_f1() -> None:
    scorer = RougeScorer(["rougeL"], tokenizer=OurWords())
    for target, text in zip(DEMO[:40], DEMO[40:80], strict=True):
        score = scorer.score(target, text)["rougeL"]
        values = seen([target], [text])[0]
        assert values["rouge_l_max"] == pytest.approx(score.fmeasure)
        assert values["token_lcs_max"] == pytest.approx(score.recall)


def test_difflib_finds_the_same_substring() -> None:
    texts = [" ".join(DEMO[i : i + 4]) for i in range(0, 120, 4)]
    targets, observation = Targets(texts[:5], read_vectors), Observation(texts[3:], read_vectors)
    rows, lengths = retrieve(targets, observation).rows, longest_substrings(targets, observation)
    for target, text in enumerate(targets.texts):
        for row, length in zip(rows[target].tolist(), lengths[target].tolist(), strict=True):
            match = SequenceMatcher(
                None, folded(text), observation.folded[row], autojunk=False
            ).find_longest_match()
            assert match.size == length


def test_ties_are_broken_by_content_not_position() -> None:
    texts = [f"unrelated {number}" for number in range(80)]
    first = retrieve(Targets(["other words"], read_vectors), Observation(texts, read_vectors))
    again = Observation(texts[::-1], read_vectors)
    second = retrieve(Targets(["other words"], read_vectors), again)
    assert first.rows.tolist() == second.rows.tolist()
    chosen = [again.texts[row] for row in second.rows[0]]
    assert chosen != sorted(texts)[:TOP]


def test_unknown_words_count_for_length_and_vocabulary() -> None:
    short, long = seen(["red fox"], ["red fox"])[0], seen(["red fox"], ["red fox x y z"])[0]
    assert short["rouge_l_max"] > long["rouge_l_max"]
    assert short["bigram_logprob"] > long["bigram_logprob"]


def test_the_subsequence_of_many_different_words_is_exact() -> None:
    """More words than a byte or a two-byte character can tell apart."""
    lexicon = [f"w{number}" for number in range(70_000)]
    targets = Targets([" ".join(lexicon[::2])], read_vectors)
    observation = Observation([" ".join(lexicon[:5000]), " ".join(lexicon[60_000:])], read_vectors)
    rows = retrieve(targets, observation).rows[0].tolist()
    lengths = dict(zip(rows, common_words(targets, observation)[0].tolist(), strict=True))
    assert sorted(lengths.values()) == [2500, 5000]


def rare(target: str, texts: Sequence[str]) -> float:
    return seen([target], texts)[0]["rare_ngram_max"]


def test_rare_pairs_occur_in_few_texts_of_the_release() -> None:
    others = [f"other {number}" for number in range(400)]
    assert rare("the red fox", ["the red fox"] * 2 + others[:90]) == 1
    assert rare("the red fox", ["the red fox"] * 3 + others[:90]) == 0
    # 1% of 300 texts: a pair that three of them have is rare, one that four have is not.
    assert rare("the red fox", ["the red fox"] * 3 + others[:297]) == 1
    assert rare("the red fox", ["the red fox"] * 4 + others[:296]) == 0


def test_rare_pairs_outside_the_release_lower_the_share() -> None:
    def idf(df: int) -> float:
        return float(inverse_frequency(2, np.array(df)))

    assert rare("one red fox", ["red fox", "else"]) == pytest.approx(idf(1) / (idf(1) + idf(0)))
    assert rare("one red fox", ["else", "more"]) == 0


def test_equal_texts_score_the_same_to_the_last_digit() -> None:
    """Wherever a target stands, alone or in blocks with others whose words are numbered first."""
    member = next(member for member in LEXICAL if member.name == "rare_ngram")
    texts = [" ".join(DEMO[i : i + 3]) for i in range(0, 240, 3)]
    released = [*DEMO[:200:2], *texts[::3]]
    rng = stream("blocks")
    others = [" ".join(rng.permutation(text.split())) for text in texts * 7]
    alone = look(member, Targets(texts, read_vectors), Observation(released, read_vectors))
    assert (alone[:, 1] > 0).mean() > 0.9
    for place in (0, 17, 480, 555):
        targets = Targets([*others[:place], *texts, *others[place:]], read_vectors)
        assert len(targets.blocks()) == 2
        observation = Observation(released, read_vectors)
        values = np.vstack([look(member, block, observation) for block in targets.blocks()])
        assert values[place : place + len(texts)].tolist() == alone.tolist()
