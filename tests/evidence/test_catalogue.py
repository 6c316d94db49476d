"""The catalogue of proxies, their order, their contract and their keys."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from support.errors import raises_at
from synthleak.cli.about import rows_of
from synthleak.core.errors import ContractError, SpecError
from synthleak.evidence import Family, Observation, Proxy, Targets, families
from synthleak.evidence.family import read_vectors
from synthleak.evidence.table import chosen_families, evidence_key, look

# Names are stable once published; the order is that of METHOD's table and breaks ties.
PUBLISHED = [
    "bm25_max",
    "bm25_mean",
    "containment_max",
    "containment_mean",
    "jaccard_max",
    "jaccard_mean",
    "rouge_l_max",
    "rouge_l_mean",
    "token_lcs_max",
    "token_lcs_mean",
    "substring_max",
    "substring_mean",
    "rare_ngram_max",
    "rare_ngram_mean",
    "entity_f1_max",
    "entity_f1_mean",
    "bigram_logprob",
    "cos_max",
    "cos_topk",
    "cos_radius",
    "dot_max",
    "dot_topk",
    "euclid_nn",
    "euclid_topk",
    "euclid_radius",
    "mahalanobis_centroid",
    "mahalanobis_nn",
    "csls_max",
    "csls_topk",
    "gaussian_loglik",
    "isolation",
    "lof",
]
ENCODER = {"kind": "some"}


def built_in() -> list[Family]:
    """Return the families of the method's table: those that have a place in its order."""
    return [entry.plugin for entry in families if entry.built_in and entry.plugin.order < 1000]


def proxies() -> list[Proxy]:
    return [proxy for member in built_in() for proxy in member.proxies]


def test_proxies_follow_the_order_of_the_method() -> None:
    assert [proxy.name for proxy in proxies()] == PUBLISHED
    assert len(PUBLISHED) == len(set(PUBLISHED)) == 32
    assert len(built_in()) == 13


def test_catalogue_has_17_lexical_and_15_embedding_proxies() -> None:
    views = [proxy.view for proxy in proxies()]
    assert (views.count("lexical"), views.count("embedding")) == (17, 15)


def test_scales_are_those_of_the_method() -> None:
    by_scale = {proxy.name: proxy.scale for proxy in proxies() if proxy.scale != "ratio"}
    assert by_scale == {
        "bigram_logprob": "log",
        "gaussian_loglik": "log",
        "dot_max": "difference",
        "dot_topk": "difference",
    }


def test_the_list_shows_view_family_scale_and_meaning() -> None:
    rows = [row for row in rows_of("proxies") if row["name"] in PUBLISHED]
    assert [row["name"] for row in rows] == PUBLISHED
    assert all(row["view"] and row["family"] and row["scale"] and row["meaning"] for row in rows)


def test_a_spec_may_choose_families_in_any_order() -> None:
    chosen = chosen_families(["cos", "bm25"])
    assert [member.name for member in chosen] == ["bm25", "cos"]
    with raises_at(SpecError, "evidence.families[0]", "'bm52'", "'bm25'"):
        chosen_families(["bm52"])


def test_a_family_that_breaks_its_contract_is_named() -> None:
    member = chosen_families(["bm25"])[0]
    targets, observation = Targets(["a"], read_vectors), Observation(["a"], read_vectors)
    for values, fault in ((np.zeros((1, 3)), r"\(1, 3\)"), (np.array([[np.nan, 0]]), "not finite")):
        broken = replace(member, look=lambda *_, values=values: values)
        with pytest.raises(ContractError, match=rf"'bm25' .*{fault}"):
            look(broken, targets, observation)


def test_keys_depend_on_content_alone() -> None:
    by_name = {member.name: member for member in built_in()}
    targets, other = Targets(["a"], read_vectors, ["r"]), Targets(["a"], read_vectors, ["s"])

    def key(name: str, encoder: dict[str, object], asked: Targets) -> str:
        return evidence_key(by_name[name], encoder, asked, "text")

    for name, member in by_name.items():
        same_encoder = key(name, ENCODER, targets) == key(name, {"kind": "else"}, targets)
        assert same_encoder == (member.view == "lexical")
        assert key(name, ENCODER, targets) == key(name, ENCODER, other)
        newer = replace(member, version=99)
        assert evidence_key(newer, ENCODER, targets, "text") != key(name, ENCODER, targets)
