"""What models say of records: a fleet's scores are those of one instance and one text alone."""

from __future__ import annotations

import copy
import csv
import json
import math
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("transformers")
torch = pytest.importorskip("torch")

from support.reading import Results, holds, numbers  # noqa: E402
from support.scripts import script  # noqa: E402
from support.tiny_backbone import RECORDS, WORDS, ask, write_backbone  # noqa: E402
from synthleak.audit.folder import RunFolder  # noqa: E402
from synthleak.audit.result import open_run  # noqa: E402
from synthleak.audit.run import run  # noqa: E402
from synthleak.audit.setup import Setup, identity_of, records_at, resolved  # noqa: E402
from synthleak.audit.stages import set_up  # noqa: E402
from synthleak.audit.steps.releases import (  # noqa: E402
    make_releases,
    missing_releases,
    model_scores_name,
    release_key,
    request_for,
    wanted_sets,
)
from synthleak.audit.verify import DIFFERS, verify  # noqa: E402
from synthleak.core.errors import SpecError, StoreError  # noqa: E402
from synthleak.core.runtime import Runtime  # noqa: E402
from synthleak.core.spec import LoadedSpec, dump_toml, parse_spec  # noqa: E402
from synthleak.core.store import MemoryStore  # noqa: E402
from synthleak.corpus.corpus import Record  # noqa: E402
from synthleak.encoders.encoder import load_array  # noqa: E402
from synthleak.releases.generators.dpsgd import DpSgd, prompt_of  # noqa: E402
from synthleak.releases.lm.backbone import load_backbone  # noqa: E402
from synthleak.report.verdict import model_line  # noqa: E402


@pytest.fixture(scope="module")
def backbone(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_backbone(tmp_path_factory.mktemp("lm") / "model", layers=2)


def small(backbone: str, **settings: Any) -> DpSgd:
    known = {"backbone": backbone, "device": "cpu", "dtype": "float64", "rank": 2, "epochs": 2}
    return DpSgd.model_validate(known | {"batch_size": 4, "max_tokens": 24} | settings)


SCORED = (*RECORDS[:5], Record("new", " ".join(WORDS[::-1]), ("joy",)), Record("blank", ""))


def naive_scores(generator: DpSgd, adapters: Any, instance: int, record: Record) -> list[float]:
    """Add one instance's matrices to the weights, and read log p of one text token by token."""
    plain = load_backbone(generator.backbone, "cpu", "float64")

    def log_p(model: Any) -> list[float]:
        prompt = prompt_of(record.labels, plain)
        tokens = [*prompt, *plain.encode(record.text)][: generator.max_tokens - 1]
        logits = model(torch.tensor([tokens])).logits[0].log_softmax(dim=-1)
        return [logits[t - 1, tokens[t]].item() for t in range(len(prompt), len(tokens))]

    with torch.no_grad():
        before, model = log_p(plain.model), copy.deepcopy(plain.model)
        linear = [m for m in model.model.modules() if isinstance(m, torch.nn.Linear)]
        for layer, slot in zip(linear, adapters.slots, strict=True):
            (a,), (b,) = slot.split(adapters.master[instance : instance + 1])
            layer.weight += adapters.scale * b @ a
        after = log_p(model)
    gain = sum(after) - sum(before)
    return [gain, gain / max(len(before), 1)]


@pytest.mark.parametrize("epsilon", [math.inf, 8.0])
def test_fleet_scores_equal_single_scores(
    backbone: str, epsilon: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    from synthleak.releases.lm.fleet import finetune

    generator, kept = small(backbone), []
    real = finetune.ScoredTexts.gains

    def gains(self: Any, adapters: Any) -> Any:
        kept.append(adapters)
        return real(self, adapters)

    monkeypatch.setattr(finetune.ScoredTexts, "gains", gains)
    requests = [ask(epsilon, seed=seed) for seed in (1, 2, 3)]
    together = list(generator.generate_and_score(requests, SCORED))
    (adapters,) = kept
    for instance, (_, scores) in enumerate(together):
        assert scores.shape == (len(SCORED), 2)
        naive = [naive_scores(generator, adapters, instance, record) for record in SCORED]
        np.testing.assert_allclose(scores, naive, atol=2e-6)
        assert np.abs(scores[:6]).min() > 1e-4
        assert scores[6].tolist() == [0, 0]


def test_scores_do_not_change_a_release(backbone: str) -> None:
    requests = [ask(8.0, seed=seed) for seed in (1, 2)]
    scored = [release for release, _ in small(backbone).generate_and_score(requests, SCORED)]
    assert scored == list(small(backbone).generate_many(requests))


def test_scores_depend_on_no_fleet_and_no_sampling(backbone: str) -> None:
    requests = [ask(seed=seed) for seed in (1, 2, 3)]
    together = small(backbone).generate_and_score(requests, SCORED)
    alone = small(backbone, fleet=1).generate_and_score(requests, SCORED[:3], sample=False)
    for (_, one), (empty, two) in zip(together, alone, strict=True):
        assert empty == []
        np.testing.assert_allclose(one[:3], two, atol=2e-6)


def test_records_that_were_learnt_gain(backbone: str) -> None:
    generator = small(backbone, epochs=30)
    ((_, scores),) = generator.generate_and_score([ask(records=RECORDS[:4], nominal=4)], SCORED)
    assert scores[:4, 1].mean() > scores[5, 1] + 0.5


# ---------------------------------------------------------------------------- in an audit


def spec_of(backbone: str, **more: Any) -> dict[str, Any]:
    generator = {"kind": "dpsgd", "backbone": backbone, "device": "cpu", "rank": 2, "epochs": 1}
    generator |= {"batch_size": 8, "max_tokens": 16, "epsilon": [float("inf")]}
    pools = [
        {"name": "outlier", "rule": "outlier", "percentile": 95, "size": 5},
        {"name": "canary", "rule": "canary", "size": 3},
    ]
    game = {"design": "cohort", "instances": 4, "records": 60, "release_size": 10}
    return {
        "seed": 3,
        "prior": [],
        "corpus": {"reader": "demo", "size": 300},
        "encoders": {"pools": "hashing", "evidence": "hashing"},
        "pool": pools,
        "game": game | {"share_releases": True},
        "generator": [generator],
        "evidence": {"families": ["bigram_logprob"], "model": True},
    } | more


def setup_of(spec: dict[str, Any], store: Any = None) -> Setup:
    return set_up(LoadedSpec(parse_spec(spec)), store or MemoryStore())


def without(spec: dict[str, Any]) -> dict[str, Any]:
    return spec | {"evidence": {"families": ["bigram_logprob"]}}


def names_of_scores(setup: Setup) -> list[str]:
    return [
        model_scores_name(setup, cell, item, cell.pool)
        for cell in setup.cells
        for _, item in wanted_sets(setup, cell)
    ]


def made(setup: Setup) -> Setup:
    for unit in missing_releases(setup):
        make_releases(setup, unit)
    return setup


def test_pools_that_share_releases_are_scored_in_one_pass(backbone: str) -> None:
    setup = setup_of(spec_of(backbone))
    (unit,) = missing_releases(setup)
    assert unit.sample and len(unit.sets) == 4
    make_releases(setup, unit)
    assert missing_releases(setup) == []
    assert sorted(setup.store.list("model/")) == sorted(names_of_scores(setup))
    for cell in setup.cells:
        asked = records_at(setup, setup.pools[cell.pool].asked)
        for _, item in wanted_sets(setup, cell):
            kept = load_array(setup.store.get(model_scores_name(setup, cell, item, cell.pool)))
            assert kept.shape == (len(asked), 2)
            generator = setup.plugins.generators[0][1]
            request = request_for(setup, cell, item)
            ((_, alone),) = generator.generate_and_score([request], asked, sample=False)
            np.testing.assert_allclose(kept, alone, atol=1e-4)


def test_models_of_stored_releases_are_trained_again_for_scores_alone(backbone: str) -> None:
    before = made(setup_of(without(spec_of(backbone))))
    assert not list(before.store.list("model/"))
    texts = {name: before.store.get(name) for name in before.store.list("")}
    setup = setup_of(spec_of(backbone), before.store)
    (unit,) = missing_releases(setup)
    assert not unit.sample and len(unit.sets) == 4
    made(setup)
    assert {name: setup.store.get(name) for name in texts} == texts
    fresh = made(setup_of(spec_of(backbone)))
    for name in names_of_scores(setup):
        one, two = (load_array(store.get(name)) for store in (setup.store, fresh.store))
        np.testing.assert_allclose(one, two, atol=1e-4)


def test_an_interrupted_fleet_goes_on(backbone: str) -> None:
    spec = spec_of(backbone)
    spec["generator"][0] |= {"fleet": 2}
    setup = setup_of(spec)
    first, second = missing_releases(setup)
    make_releases(setup, first)
    kept = {name: setup.store.get(name) for name in setup.store.list("")}
    lost = next(iter(setup.store.list("model/")))
    setup.store.discard(lost)
    units = missing_releases(setup)
    assert [(unit.sample, len(unit.sets)) for unit in units] == [(True, 2), (False, 1)]
    assert units[0].sets == second.sets
    made(setup)
    assert missing_releases(setup) == []
    assert len(list(setup.store.list("model/"))) == 8
    # Trained in a fleet of another size, a model's scores may differ in their last bits.
    again = load_array(setup.store.get(lost))
    np.testing.assert_allclose(again, load_array(kept.pop(lost)), atol=1e-4)
    assert {name: setup.store.get(name) for name in kept} == kept


def test_keys_of_releases_do_not_depend_on_the_setting(backbone: str) -> None:
    asked, bare = setup_of(spec_of(backbone)), setup_of(without(spec_of(backbone)))
    for cell in asked.cells:
        for (_, one), (_, two) in zip(
            wanted_sets(asked, cell), wanted_sets(bare, cell), strict=True
        ):
            assert release_key(asked, cell, one) == release_key(bare, cell, two)
    off = spec_of(backbone, evidence={"families": ["bigram_logprob"], "model": False})
    assert identity_of(setup_of(off)) == identity_of(bare) != identity_of(asked)
    assert resolved(setup_of(off)) == resolved(bare)
    assert resolved(asked)["evidence"]["model"] is True


def test_a_folder_without_scores_says_what_is_new(backbone: str, tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    folder.begin(setup_of(without(spec_of(backbone))), new=True)
    with pytest.raises(StoreError, match=r"evidence\.model was None, is True"):
        folder.admit(setup_of(spec_of(backbone)), extend=False)


def test_no_generator_that_can_score_is_a_mistake() -> None:
    spec = spec_of("x", generator=[{"kind": "ngram"}])
    with pytest.raises(SpecError, match="no generator here can say what its model knows"):
        setup_of(spec)


def do(*words: object) -> None:
    script("slice").main([str(word) for word in words])


def content_of(folder: Path, kinds: Sequence[str]) -> dict[str, bytes]:
    store = RunFolder(folder).store
    return {name: store.get(name) for kind in kinds for name in store.list(f"{kind}/")}


def test_slices_carry_the_scores(backbone: str, tmp_path: Path) -> None:
    path = tmp_path / "small.toml"
    path.write_text(dump_toml(spec_of(backbone)), encoding="utf-8")
    runs = [tmp_path / name for name in ("home", "away", "again")]
    do("prepare", path, "--run", runs[0], "--to", tmp_path / "prepared")
    do(
        *("make", path, "--run", runs[1], "--prepared", tmp_path / "prepared"),
        *("--pack", tmp_path / "out", "--score"),
    )
    archives = sorted((tmp_path / "out").glob("*.tar*"))
    do("take", path, "--run", runs[0], *archives)
    kinds = ("release", "text", "model", "evidence")
    there, here = (content_of(folder, kinds) for folder in (runs[1], runs[0]))
    assert there == here and sum(name.startswith("model/") for name in here) == 8
    do("pack", path, "--run", runs[0], "--to", tmp_path / "packed")
    do("take", path, "--run", runs[2], *(tmp_path / "packed").iterdir())
    assert content_of(runs[2], ("model",)) == content_of(runs[0], ("model",))


# ---------------------------------------------------------------------------- the ladder


def leaky_spec(backbone: str, folder: Path) -> dict[str, Any]:
    """An audit of adapters that remember: every text is of words that the backbone knows."""
    rng = np.random.default_rng(4)
    texts = [" ".join(rng.choice(WORDS, 9)) for _ in range(120)]
    path = folder / "corpus.jsonl"
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in dict.fromkeys(texts)))
    spec = spec_of(backbone, corpus={"reader": "jsonl", "path": str(path)})
    spec["pool"] = [{"name": "random", "rule": "random", "size": 8, "draws": 1}]
    spec["game"] = {"design": "cohort", "instances": 8, "records": 40, "release_size": 10}
    spec["generator"][0] |= {"epsilon": [math.inf, 2.0], "epochs": 30, "rank": 8}
    spec["generator"][0] |= {"learning_rate": 0.02}
    return spec


@pytest.fixture(scope="module")
def audit(backbone: str, tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("ladder")
    return run(parse_spec(leaky_spec(backbone, folder)), folder / "run", runtime=ONE)


ONE = Runtime(workers=1)


def rows_of(audit: Any) -> list[dict[str, str]]:
    with (Path(audit.folder.results) / "ladder.csv").open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_the_ladder_goes_from_the_claim_to_the_release(audit: Any) -> None:
    rows = rows_of(audit)
    assert [row["rung"] for row in rows] == ["claim", "model", "S3", "S2", "S1"] * 2
    free, private = rows[:5], rows[5:]
    assert float(free[0]["auc"]) == 1.0 > float(private[0]["auc"]) > 0.5
    assert free[1]["verdict"] == "leak found" and float(free[1]["auc"]) > 0.9
    assert float(free[1]["p_holm"]) <= 0.05
    assert float(private[1]["auc"]) < float(private[0]["auc"])
    assert float(private[1]["claim_p_holm"]) > 0.05
    by_scenario = {(row.epsilon, row.scenario): row for row in audit.cells}
    for row in rows:
        known = by_scenario.get((float(row["epsilon"]), row["rung"]))
        if known is not None:
            assert float(row["auc"]) == known.pooled_auc
            assert float(row["p_holm"]) == known.p_holm and row["verdict"] == known.verdict


def test_page_and_audit_say_what_the_model_adds(audit: Any) -> None:
    page = (Path(audit.folder.root) / "report.html").read_text(encoding="utf-8")
    assert page.count("If the model were published</h4>") == 2
    shown = [one for one in numbers(page) if one[1].startswith("ladder/")]
    results = Results(audit.folder.results)
    assert len(shown) == 50 and all(holds(results, *one) for one in shown)
    said = [str(model_line(one)) for one in audit.results.cells]
    assert said[0].startswith("The release ")  # how much it hides, a last bit of training decides
    assert f" {float(rows_of(audit)[1]['auc']):.2f} against " in said[0]
    assert all(sentence in page and sentence in audit._repr_html_() for sentence in said)
    summary = json.loads((Path(audit.folder.results) / "summary.json").read_text())
    assert [cell["model"] for cell in summary["cells"]] == said
    again = open_run(audit.folder.root)
    assert [model_line(one) for one in again.results.cells] == said
    assert len(again.to_pandas("ladder")) == 10


def test_the_verdict_on_the_release_does_not_depend_on_the_model(
    audit: Any, backbone: str, tmp_path: Path
) -> None:
    bare = run(parse_spec(without(leaky_spec(backbone, tmp_path))), tmp_path / "run", runtime=ONE)
    for name in ("cells.csv", "proxies.csv", "records.csv"):
        one, two = (Path(some.folder.results) / name for some in (audit, bare))
        assert one.read_bytes() == two.read_bytes()
    assert bare.headline == audit.headline and "model were" not in bare._repr_html_()
    assert [bare.claim(cell) for cell in bare.setup.cells] == [
        audit.claim(cell) for cell in audit.setup.cells
    ]
    assert not (Path(bare.folder.results) / "ladder.csv").exists()


def test_scores_that_are_lost_are_named_and_made_again(audit: Any, tmp_path: Path) -> None:
    shutil.copytree(audit.folder.root, tmp_path / "run")
    lost = next((tmp_path / "run" / "store" / "model").iterdir())
    lost.unlink()
    found = {one.what: one for one in verify(tmp_path / "run").findings}
    assert found["evidence"].outcome == DIFFERS and "scores of 1 models" in found["evidence"].detail
    before = (tmp_path / "run" / "results" / "ladder.csv").read_bytes()
    run(tmp_path / "run" / "spec.toml", tmp_path / "run", runtime=ONE)
    assert lost.exists()
    assert (tmp_path / "run" / "results" / "ladder.csv").read_bytes() == before
    assert verify(tmp_path / "run", replay=8).verified
