"""`lm`: one fleet of adapters gives what a loop over observations gives, and a copy shows."""

from __future__ import annotations

import math
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("transformers")
torch = pytest.importorskip("torch")

import synthleak  # noqa: E402
from support.tiny_backbone import WORDS, tiny_shared_backbone, write_backbone  # noqa: E402
from synthleak.audit.setup import targets_in  # noqa: E402
from synthleak.audit.stages import set_up  # noqa: E402
from synthleak.audit.steps.observations import (  # noqa: E402
    evidence_keys,
    look_with_models,
    missing_models,
    observations,
    open_observation,
)
from synthleak.audit.steps.releases import make_releases, missing_releases  # noqa: E402
from synthleak.audit.verify import (  # noqa: E402
    DIFFERS,
    UNCHECKED,
    verify,
)
from synthleak.core.errors import SpecError, UserError  # noqa: E402
from synthleak.core.spec import LoadedSpec, parse_spec  # noqa: E402
from synthleak.core.store import MemoryStore, name_of  # noqa: E402
from synthleak.encoders.builtin.hashing import Hashing  # noqa: E402
from synthleak.evidence.family import model_families  # noqa: E402
from synthleak.evidence.models.lm import LanguageModelProxy  # noqa: E402
from synthleak.evidence.observation import Observation, Targets  # noqa: E402
from synthleak.evidence.table import get_evidence  # noqa: E402
from synthleak.releases.lm.fleet.likelihood import example_of, token_scores  # noqa: E402

ENCODE = Hashing().encode


@pytest.fixture(scope="module")
def backbone(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_backbone(tmp_path_factory.mktemp("lm") / "model", layers=2)


def proxy(backbone: str, **settings: Any) -> LanguageModelProxy:
    known = {"backbone": backbone, "device": "cpu", "dtype": "float64", "rank": 2, "batch_size": 4}
    return LanguageModelProxy.model_validate(known | settings)


def texts_of(seed: int, count: int, length: int = 9) -> list[str]:
    rng = np.random.default_rng(seed)
    return [" ".join(rng.choice(WORDS, length)) for _ in range(count)]


def observation(texts: list[str]) -> Observation:
    return Observation(texts, ENCODE)


def test_a_fleet_gives_what_single_runs_give(backbone: str) -> None:
    targets = Targets([*texts_of(1, 5), "sleep", "", texts_of(1, 1)[0]], ENCODE)
    seen = [observation(texts_of(seed, 12)) for seed in (2, 3, 4)] + [observation(texts_of(5, 7))]
    together = proxy(backbone).look_together(targets, seen)
    alone = [proxy(backbone, fleet=1).look(targets, one) for one in seen]
    for one, two in zip(together, alone, strict=True):
        assert one.shape == (8, 2)
        np.testing.assert_allclose(one, two, atol=2e-6)
        assert np.array_equal(one[0], one[7])  # equal texts tie exactly
        assert np.array_equal(one[6], [0.0, 0.0])  # an empty text has no likelihood


def test_scores_are_those_of_a_plain_forward_pass(backbone: str) -> None:
    shared = tiny_shared_backbone(backbone)
    shared.drop_adapters()
    text = " ".join(WORDS[:12])
    example = example_of(text, shared.backbone, 64)
    with torch.no_grad():
        logits = shared.backbone.model(input_ids=torch.tensor([example.tokens])).logits[0]
    expected = [
        float(torch.log_softmax(logits[place - 1], 0)[example.tokens[place]])
        for place in range(1, len(example.tokens) - 1)
    ]
    (found,) = token_scores(shared, None, [example])
    np.testing.assert_allclose(found[0], expected, atol=1e-9)
    assert len(found[0]) == 12


def test_training_is_adamw_on_the_mean_loss_of_each_batch(backbone: str) -> None:
    """A slow loop: one adapter as plain matrices, autograd, torch's own optimiser."""
    from synthleak.core.seeds import derive, stream
    from synthleak.releases.lm.fleet.likelihood import SCALE, Tuning, tuned_log_likelihoods

    shared = tiny_shared_backbone(backbone)
    own, target, tuning = texts_of(7, 6), texts_of(8, 1), Tuning(epochs=1, batch=3, rank=2)
    gains = tuned_log_likelihoods(shared, [own], [11], target, tuning)[0][0]

    adapters = shared.adapters([11], rank=2, scale=SCALE)
    pairs = []
    for slot in adapters.slots:
        a, b = slot.split(adapters.master.clone())
        pairs.append(tuple(part[0].clone().requires_grad_() for part in (a, b)))
    shared.drop_adapters()
    hooks = [
        layer.register_forward_hook(
            lambda _, given, out, pair=pair: out + SCALE * (given[0] @ pair[0].T) @ pair[1].T
        )
        for layer, pair in zip(shared.layers, pairs, strict=True)
    ]
    examples = [example_of(text, shared.backbone, 128) for text in own]
    config = tuning.config(len(own))
    slow = torch.optim.AdamW(
        [part for pair in pairs for part in pair], config.learning_rate, weight_decay=0.01
    )
    coin = stream(11, "batches")
    for _ in range(config.steps):
        chosen = np.flatnonzero(coin.random(len(own)) < config.rate)
        loss = torch.zeros((), dtype=torch.float64)
        for n in chosen:
            tokens = torch.tensor([examples[n].tokens])
            logits = shared.backbone.model(input_ids=tokens).logits[0]
            loss = loss + torch.nn.functional.cross_entropy(logits[:-1], tokens[0, 1:])
        slow.zero_grad()
        (loss / config.batch).backward()
        slow.step()
    scored = example_of(target[0], shared.backbone, 128)

    def plain() -> np.ndarray:
        with torch.no_grad():
            logits = shared.backbone.model(input_ids=torch.tensor([scored.tokens])).logits[0]
        table = torch.log_softmax(logits, 1)
        places = range(1, len(scored.tokens) - 1)
        return np.array([float(table[n - 1, scored.tokens[n]]) for n in places])

    tuned = plain()
    for hook in hooks:
        hook.remove()
    np.testing.assert_allclose(gains, tuned - plain(), atol=1e-8)
    assert config.steps == math.ceil(6 / 3) and derive(11, "adapter")


def test_a_copied_text_becomes_more_likely(backbone: str) -> None:
    targets = Targets(texts_of(21, 12), ENCODE)
    rest = texts_of(22, 36)
    look = proxy(backbone, epochs=6, learning_rate=2e-2).look_together
    without, inside = look(targets, [observation(rest), observation([*rest, *targets.texts])])
    assert ((inside - without).mean(axis=0) > 0).all()


def audit_of(out: Path, backbone: str, **evidence: Any) -> Any:
    lm = {"kind": "lm", "backbone": backbone, "device": "cpu", "rank": 2, "epochs": 1}
    spec = {
        "seed": 3,
        "corpus": {"reader": "demo", "size": 400},
        "encoders": {"pools": "hashing", "evidence": "hashing"},
        "pool": [{"name": "random", "rule": "random", "size": 6, "draws": 1}],
        "game": {"design": "cohort", "instances": 4, "records": 40},
        "generator": [{"kind": "bystander"}],
        "evidence": {"families": ["bm25"], "also": [lm]} | evidence,
        "prior": [],
    }
    return synthleak.run(parse_spec(spec), out, runtime=synthleak.Runtime(workers=1))


@pytest.fixture(scope="module")
def audit(backbone: str, tmp_path_factory: pytest.TempPathFactory) -> Any:
    return audit_of(tmp_path_factory.mktemp("audit") / "run", backbone)


def test_an_audit_takes_it_as_two_proxies_more(audit: Any) -> None:
    names = {row.proxy for row in audit.proxies}
    assert names == {"bm25_max", "bm25_mean", "lm_llr", "lm_window"}
    assert {row.scenario for row in audit.proxies if row.proxy == "lm_llr"} == {"S1", "S2", "S3"}
    again = synthleak.open_run(audit.folder.root)
    assert [member.name for member in again.setup.plugins.families] == ["bm25", "lm"]
    settings = audit.setup.plugins.families[1].settings
    assert settings is not None and not {"device", "dtype", "fleet"} & set(settings)


def test_pools_that_share_releases_share_the_models(backbone: str) -> None:
    """Each release is learnt once, and every pool gets the values of its own targets."""
    lm = {"kind": "lm", "backbone": backbone, "device": "cpu", "dtype": "float64", "rank": 2}
    spec = {
        "seed": 3,
        "corpus": {"reader": "demo", "size": 400},
        "encoders": {"pools": "hashing", "evidence": "hashing"},
        "pool": [
            {"name": "one", "rule": "random", "size": 5, "draws": 1},
            {"name": "two", "rule": "random", "size": 3, "draws": 1},
        ],
        "game": {"design": "cohort", "instances": 3, "records": 40, "share_releases": True},
        "generator": [{"kind": "bystander"}],
        "evidence": {"families": ["bm25"], "also": [lm]},
    }
    setup = set_up(LoadedSpec(parse_spec(spec)), MemoryStore())
    for unit in missing_releases(setup):
        make_releases(setup, unit)
    (unit,) = missing_models(setup)
    assert unit.targets == (("one", 0), ("two", 0))
    look_with_models(setup, unit)
    assert missing_models(setup) == []
    for cell in setup.cells:
        targets = targets_in(setup, cell.pool)
        for seen in observations(setup, cell):
            keys = {family.name: key for family, key in evidence_keys(setup, targets, seen.key)}
            kept = get_evidence(setup.store, keys["lm"])
            alone = proxy(backbone, rank=2, batch_size=16).look(
                targets, open_observation(setup, cell.pool, seen)
            )
            np.testing.assert_allclose(kept, alone, atol=2e-6)


def test_values_of_a_model_are_not_made_again_to_verify(audit: Any) -> None:
    found = verify(audit.folder.root, replay=60)
    looked = [one for one in found.findings if one.what.startswith("evidence lm")]
    assert found.verified and looked and {one.outcome for one in looked} == {UNCHECKED}


def test_missing_values_of_a_model_are_found(audit: Any, tmp_path: Path) -> None:
    shutil.copytree(audit.folder.root, tmp_path / "run")
    setup = audit.setup
    cell = setup.cells[0]
    seen = observations(setup, cell)[0]
    keys = evidence_keys(setup, targets_in(setup, cell.pool).blocks()[0], seen.key)
    (lost,) = [name_of("evidence", key) for member, key in keys if member.model]
    (tmp_path / "run/store" / lost).unlink()
    found = {one.what: one for one in verify(tmp_path / "run").findings}
    assert found["evidence"].outcome == DIFFERS and "lm" in found["evidence"].detail


def test_mistakes_are_said_in_a_line(backbone: str, tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="unknown opt-in proxy family 'ml'"):
        audit_of(tmp_path / "one", backbone, also=["ml"])
    with pytest.raises(SpecError, match="epochs"):
        audit_of(tmp_path / "two", backbone, also=[{"kind": "lm", "epochs": 0}])
    with pytest.raises(UserError, match="no-such-model"):
        audit_of(tmp_path / "three", backbone, also=[{"kind": "lm", "backbone": "no-such-model"}])
    assert not (tmp_path / "three").exists()
    assert "lm" in model_families.names()
