"""Pool rules: what each selects, its cap, its identity, and each mistake in one line."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.neighbors import LocalOutlierFactor

from synthleak.core.errors import CorpusError, PoolError, SpecError
from synthleak.core.store import MemoryStore, Store
from synthleak.corpus import Corpus, Record
from synthleak.pools import Pool, rules
from synthleak.pools.pool import overlaps_of
from synthleak.pools.selection import PoolOrder, select_all

SITES, LABELS = "AAAAABBBCC", (("x",), ("x", "y"), ("z",), ())
RNG = np.random.default_rng(4)
VECTORS = RNG.normal(size=(60, 6)).astype(np.float32)
VECTORS[:3] *= 6


def corpus_of(size: int = 60) -> Corpus:
    records = [
        Record(
            f"r{n}",
            f"text {n}",
            LABELS[n % 4],
            meta={"site": SITES[n % 10], "age": 20 + n, "csv_age": str(20 + n)},
        )
        for n in range(size)
    ]
    return Corpus("c", tuple(records))


def order(name: str, rule: str, position: int = 0, **settings: Any) -> PoolOrder:
    built = rules.build(rule, settings, key="rule", where=("pool", position))
    return PoolOrder(name, built, f"pool[{position}]")


def select(
    *orders: PoolOrder,
    corpus: Corpus | None = None,
    seed: int = 1,
    store: Store | None = None,
    vectors: np.ndarray = VECTORS,
) -> dict[str, Pool]:
    return select_all(
        orders,
        corpus or corpus_of(),
        lambda: vectors,
        {},
        auxiliary=0.5,
        seed=seed,
        store=store or MemoryStore(),
    )


def ids(pool: Pool) -> list[str]:
    return [f"r{n}" for n in pool.targets]


@pytest.mark.parametrize("unit", [False, True])
@pytest.mark.parametrize("lof", [None, 5])
def test_outlier_by_hand(unit: bool, lof: int | None) -> None:
    vectors = VECTORS.astype(float)
    if unit:
        vectors = np.stack([v / np.sqrt((v**2).sum()) for v in vectors])
    distances = [np.sqrt(((v - vectors.mean(axis=0)) ** 2).sum()) for v in vectors]
    expected = {n for n, d in enumerate(distances) if d > np.percentile(distances, 90)}
    if lof:
        flags = LocalOutlierFactor(n_neighbors=lof).fit_predict(vectors)
        expected |= {n for n, flag in enumerate(flags) if flag == -1}
    pool = select(order("p", "outlier", percentile=90, lof=lof, unit=unit))["p"]
    assert set(pool.targets) == expected
    assert ({0, 1, 2} <= expected) is not unit


def ranks(values: Sequence[float]) -> list[float]:
    """Ranks from 1, the smallest first, equal values sharing their mean rank."""
    return [
        sum(other < value for other in values) + (1 + sum(other == value for other in values)) / 2
        for value in values
    ]


def test_outlier_compares_directions_by_default() -> None:
    longer = order("p", "outlier", percentile=90, unit=False)
    assert select(order("p", "outlier", percentile=90))["p"].targets == (
        select(order("p", "outlier", percentile=90, unit=True))["p"].targets
    )
    assert select(longer)["p"].targets != select(order("p", "outlier", percentile=90))["p"].targets


@pytest.mark.parametrize("lof", [None, 5])
def test_outlier_size_keeps_the_most_extreme(lof: int | None) -> None:
    vectors = [v / np.sqrt((v**2).sum()) for v in VECTORS.astype(float)]
    middle = np.mean(vectors, axis=0)
    distances = [float(np.sqrt(((v - middle) ** 2).sum())) for v in vectors]
    extremity = ranks(distances)
    if lof:
        factor = LocalOutlierFactor(n_neighbors=lof).fit(vectors)
        by_factor = ranks((-factor.negative_outlier_factor_).tolist())
        extremity = [(a + b) / 2 for a, b in zip(extremity, by_factor, strict=True)]
    found = select(order("p", "outlier", percentile=80, lof=lof))["p"].targets
    kept = select(order("p", "outlier", percentile=80, lof=lof, size=4))["p"].targets
    assert set(kept) == set(sorted(found, key=lambda n: -extremity[n])[:4])
    assert len(found) > 8


def test_equally_extreme_records_are_drawn_by_the_seed() -> None:
    twins = np.tile(np.eye(3, dtype=np.float32)[[0, 0, 0, 0, 0, 1]], (10, 1))
    makes = [
        (order("p", "outlier", percentile=80, size=4), {n for n in range(60) if n % 6 == 5}),
        (order("p", "rare", min_labels=2, size=4), {n for n in range(60) if n % 4 == 1}),
    ]
    for made, equal in makes:
        drawn = {select(made, seed=seed, vectors=twins)["p"].targets for seed in range(8)}
        assert all(set(kept) < equal for kept in drawn)
        assert len(drawn) > 4
        assert drawn != {tuple(sorted(equal)[:4])}
        assert select(made, seed=3, vectors=twins)["p"] == select(made, seed=3, vectors=twins)["p"]


def test_rare_size_keeps_the_rarest() -> None:
    counts = {("a",): 9, ("b",): 3, ("c",): 2, ("d", "e", "f"): 6, ("d", "e"): 8, ("g",): 12}
    labels = [combination for combination, count in counts.items() for _ in range(count)]
    records = tuple(Record(f"r{n}", f"t{n}", carried) for n, carried in enumerate(labels))
    corpus = Corpus("c", records)

    def carried(**settings: Any) -> list[tuple[str, ...]]:
        pool = select(order("p", "rare", **settings), corpus=corpus)["p"]
        return sorted(records[n].labels for n in pool.targets)

    assert carried(max_frequency=9, size=5) == [("b",)] * 3 + [("c",)] * 2
    assert carried(max_frequency=9, size=4) == [("b",)] * 2 + [("c",)] * 2
    assert carried(min_labels=2, size=6) == [("d", "e", "f")] * 6
    # By both, mean ranks among 40 records: 35 for d + e + f (32.5 and 37.5), 26.5 for c.
    assert carried(max_frequency=3, min_labels=2, size=6) == [("d", "e", "f")] * 6


def test_rare_by_frequency_and_by_cardinality() -> None:
    corpus = corpus_of(59)
    assert select(order("p", "rare", max_frequency=14), corpus=corpus)["p"].targets == tuple(
        n for n in range(59) if n % 4 == 3
    )
    assert select(order("p", "rare", min_labels=2))["p"].targets == tuple(range(1, 60, 4))


def test_union_remembers_origins_and_needs_disjoint_pools() -> None:
    one, two = order("one", "labels", any=["z"]), order("two", "labels", 1, all=["x", "y"])
    pool = select(one, two, order("both", "union", 2, of=["one", "two"]))["both"]
    assert pool.targets == tuple(n for n in range(60) if n % 4 in (1, 2))
    assert pool.origins == tuple("two" if n % 4 == 1 else "one" for n in pool.targets)
    assert not set(pool.targets) & {*pool.candidates, *pool.auxiliary}
    capped = select(one, two, order("both", "union", 2, of=["one", "two"], size=9))["both"]
    assert len(capped.targets) == len(capped.origins) == 9
    assert capped.origins == tuple("two" if n % 4 == 1 else "one" for n in capped.targets)


def test_union_of_pools_that_share_records() -> None:
    one, two = order("one", "labels", any=["x"]), order("two", "labels", 1, all=["x", "y"])
    with pytest.raises(
        PoolError, match=r"pool\[2\]: the pools one and two share 15 records; set sha"
    ):
        select(one, two, order("both", "union", 2, of=["one", "two"]))
    pool = select(one, two, order("both", "union", 2, of=["one", "two"], shared="first"))["both"]
    assert set(pool.origins) == {"one"}
    pool = select(one, two, order("both", "union", 2, of=["two", "one"], shared="first"))["both"]
    assert pool.origins.count("two") == 15


def test_union_mistakes() -> None:
    one = order("one", "labels", any=["x"])
    with pytest.raises(PoolError, match=r"pool\[1\]: .*'eno'.*; known: one"):
        select(one, order("both", "union", 1, of=["one", "eno"]))
    with pytest.raises(SpecError, match=r"pool\[0\]\.of: .*name two different pools"):
        order("both", "union", of=["one", "one"])
    with pytest.raises(SpecError, match="name two different pools"):
        order("both", "union", of=["one"])


def test_labels_any_all_none() -> None:
    assert select(order("p", "labels", any=["x", "z"]))["p"].targets == tuple(
        n for n in range(60) if n % 4 != 3
    )
    assert select(order("p", "labels", any="x", none=["y"]))["p"].targets == tuple(range(0, 60, 4))
    assert select(order("p", "labels", none=["x"]))["p"].targets == tuple(
        n for n in range(60) if n % 4 in (2, 3)
    )


def test_labels_mistakes() -> None:
    with pytest.raises(
        PoolError, match=r"pool\[0\]: no record carries the label 'q'; known: x, y, z"
    ):
        select(order("p", "labels", any=["q"]))
    with pytest.raises(
        PoolError, match=r"no record satisfies all = \['y', 'z'\]; the most frequent"
    ):
        select(order("p", "labels", all=["y", "z"]))
    with pytest.raises(SpecError, match="set any, all or none to a list of labels"):
        order("p", "labels")


def test_many_labels_are_not_all_listed() -> None:
    records = [Record(f"r{n}", f"t{n}", (f"label{n}",)) for n in range(60)]
    with pytest.raises(PoolError, match=r"known: label0, label1, .* and 48 more"):
        select(order("p", "labels", any=["?"]), corpus=Corpus("c", tuple(records)))


@pytest.mark.parametrize("column", ["age", "csv_age"])
def test_where_by_hand(column: str) -> None:
    pool = select(order("p", "where", where=f"site == 'B' and {column} >= 50"))["p"]
    assert pool.targets == tuple(n for n in range(60) if SITES[n % 10] == "B" and 20 + n >= 50)
    assert ids(select(order("p", "where", where="id in ['r3', 'r9']"))["p"]) == ["r3", "r9"]


def test_where_mistakes() -> None:
    with pytest.raises(
        SpecError, match=r"pool\[0\]\.where: 'age >=': a value is missing at the end"
    ):
        order("p", "where", where="age >=")
    with pytest.raises(
        PoolError, match=r"asks for 'agee', which no record has; did you mean 'age'"
    ):
        select(order("p", "where", where="agee > 3"))
    said = r"no record satisfies where = .*; site is one of 'A', 'B', 'C'; age is from 20 to 79"
    with pytest.raises(PoolError, match=said):
        select(order("p", "where", where="site == 'D' and age > 0"))
    with pytest.raises(PoolError, match="id has 60 different values"):
        select(order("p", "where", where="id == 'nobody'"))


def test_ids_from_every_kind_of_file(tmp_path: Path) -> None:
    files = {
        "a.txt": b"r7\n\n r3 \nr7\n",
        "b.csv": b"name,id\nx,r7\ny,r3\n",
        "c.tsv": b"id\tname\nr7\tx\nr3\ty\n",
        "C.CSV": b"name,id\nx,r7\ny,r3\n",
        "d.jsonl": b'{"id": "r7"}\n{"id": "r3"}\n',
        "e.txt.gz": gzip.compress(b"r7\nr3\n"),
    }
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
        assert ids(select(order("p", "ids", path=str(tmp_path / name)))["p"]) == ["r3", "r7"]
    path = tmp_path / "f.csv"
    path.write_text("patient\nr1\nr2\n")
    assert ids(select(order("p", "ids", path=str(path), field="patient"))["p"]) == ["r1", "r2"]


def test_ids_are_known_by_content_not_by_place(tmp_path: Path) -> None:
    store = MemoryStore()
    path = tmp_path / "a.txt"
    path.write_text("r1\nr2\n")
    one = order("p", "ids", path=str(path))
    assert ids(select(one, store=store)["p"]) == ["r1", "r2"]
    (tmp_path / "b.txt").write_text("r2\nr1\nr1\n")
    assert order("p", "ids", path=str(tmp_path / "b.txt")).rule.identity() == one.rule.identity()
    path.write_text("r1\nr5\n")
    assert ids(select(one, store=store)["p"]) == ["r1", "r5"]


def test_ids_mistakes(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("r1\nq1\nq2\nr2\nq3\nq4\n")
    said = r"pool\[0\]: 4 of 6 ids in .*a\.txt are not in the corpus \(entries 2, 3, 5, \.\.\.\); "
    with pytest.raises(PoolError, match=said):
        select(order("p", "ids", path=str(path)))
    assert ids(select(order("p", "ids", path=str(path), missing="skip"))["p"]) == ["r1", "r2"]
    path.write_text("my secret\nanother secret\n")
    with pytest.raises(PoolError, match="2 of 2 ids") as caught:
        select(order("p", "ids", path=str(path)))
    assert "secret" not in str(caught.value)
    path.write_text("q1\nq2\n")
    with pytest.raises(PoolError, match="2 of 2 ids"):
        select(order("p", "ids", path=str(path), missing="skip"))
    path.write_text("\n")
    with pytest.raises(PoolError, match="lists no id; write one id a line"):
        select(order("p", "ids", path=str(path)))
    (tmp_path / "b.csv").write_text("name\nr1\n")
    with pytest.raises(
        CorpusError, match=r"b\.csv, line 2: there is no field 'id'; set pool\.field"
    ):
        select(order("p", "ids", path=str(tmp_path / "b.csv")))
    with pytest.raises(CorpusError, match=r"gone: no such file; check pool\.path"):
        select(order("p", "ids", path=str(tmp_path / "gone")))
    (tmp_path / "c.txt").write_bytes(b"r1\nr\xff\n")
    with pytest.raises(
        CorpusError, match=r"c\.txt, line 2: not valid UTF-8; save the file as UTF-8$"
    ):
        select(order("p", "ids", path=str(tmp_path / "c.txt")))


SIZED: list[Callable[[Path], PoolOrder]] = [
    lambda _: order("p", "all", size=4),
    lambda _: order("p", "labels", any=["x"], size=4),
    lambda _: order("p", "where", where="age > 30", size=4),
    lambda folder: order("p", "ids", path=str(folder / "ids.txt"), size=4),
]


@pytest.mark.parametrize("make", SIZED)
def test_rules_without_a_ranking_draw_their_size_by_seed(
    make: Callable[[Path], PoolOrder], tmp_path: Path
) -> None:
    (tmp_path / "ids.txt").write_text("\n".join(f"r{n}" for n in range(40)))
    chosen = select(make(tmp_path))["p"].targets
    assert len(chosen) == 4
    assert chosen == tuple(sorted(chosen))
    assert chosen == select(make(tmp_path))["p"].targets
    assert len({select(make(tmp_path), seed=s)["p"].targets for s in range(6)}) > 1


def test_random_controls_are_matched_and_disjoint() -> None:
    pools = select(
        order("rare", "rare", min_labels=2), order("random", "random", 1, match="rare", draws=2)
    )
    assert [len(pool.targets) for pool in pools.values()] == [15, 15, 15]
    assert len({n for pool in pools.values() for n in pool.targets}) == 45
    assert all(o.shared == 0 for o in overlaps_of(pools))


def test_random_controls_that_cannot_be_disjoint() -> None:
    said = (
        r"pool\[1\]: a random control of 45 records cannot be disjoint: 15 of 60 are in no earlier"
    )
    with pytest.raises(PoolError, match=said):
        select(order("p", "labels", any=["x", "z"]), order("r", "random", 1, match="p"))
    with pytest.raises(PoolError, match="control of 61 records cannot be disjoint: 60 of 60"):
        select(order("r", "random", size=61))


def test_too_large_and_too_small_pools_are_refused() -> None:
    with pytest.raises(
        PoolError, match=r"pool\[0\]: the pool 'p' of 60 records leaves 0 of 60; give"
    ):
        select(order("p", "where", where="age > 0"))
    with pytest.raises(
        PoolError, match=r"pool\[0\]: the pool 'p' has 1 record of 60; loosen its rule"
    ):
        select(order("p", "where", where="id == 'r5'"))


def test_a_targets_group_leaves_candidates_and_auxiliary() -> None:
    records = [
        Record(f"r{n}", f"t{n}", ("x",) if n < 4 else (), group=f"g{n % 20}") for n in range(60)
    ]
    pool = select(order("p", "labels", any=["x"]), corpus=Corpus("c", tuple(records)))["p"]
    rest = {*pool.candidates, *pool.auxiliary}
    assert rest == {n for n in range(60) if n % 20 > 3}


def test_overlaps_count_shared_records() -> None:
    pools = select(order("a", "labels", any=["x"]), order("b", "labels", 1, all=["x", "y"]))
    (overlap,) = overlaps_of(pools)
    assert (overlap.shared, overlap.share_of_smaller) == (15, 1.0)
