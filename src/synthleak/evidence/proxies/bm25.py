"""BM25 relevance: how well the target, as a query, fits the texts that it retrieves."""

from __future__ import annotations

from synthleak.evidence import Floats, Observation, Targets, family
from synthleak.evidence.fast.retrieval import max_and_mean, retrieve


@family(
    "bm25",
    order=1,
    version=1,
    view="lexical",
    scale="ratio",
    proxies={
        "bm25_max": "largest BM25 score of a candidate",
        "bm25_mean": "mean BM25 score of the candidates",
    },
)
def bm25(targets: Targets, observation: Observation) -> Floats:
    """BM25 score of the retrieved texts, idf and lengths from the observation alone.

    >>> from synthleak.evidence import observe_texts
    >>> observe_texts(bm25, ["red fox"], ["a red fox", "a dog"])
    array([[1.272, 0.636]])
    """
    return max_and_mean(retrieve(targets, observation).scores)
