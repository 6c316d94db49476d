"""The privacy argument from end to end: what is noised is all that is private.

Where noise would be added, what comes out is replaced by randomness that knows no data. Releases
must then be the same whatever the private set is, and what was about to be noised must move as
little, and be given as much noise, as the claim says.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from support.tiny_backbone import RECORDS, ask, side_of, write_backbone  # noqa: E402
from synthleak.corpus.corpus import Record  # noqa: E402
from synthleak.releases.generators.augpe import AugPe  # noqa: E402
from synthleak.releases.generators.dpsgd import DpSgd  # noqa: E402
from synthleak.releases.generators.epsvec import EpsVec  # noqa: E402
from synthleak.releases.lm import evolution, steering  # noqa: E402
from synthleak.releases.lm.fleet.training import Trainer  # noqa: E402
from synthleak.releases.release import Request, Synthetic  # noqa: E402

SIDE = side_of()
OTHER = Record("x", "happy with this doctor " * 9, ("joy", "pain"))
ADDED = (*RECORDS, OTHER)
REMOVED = RECORDS[1:]
REPLACED = (*RECORDS[1:], OTHER)
WORLDS = (
    *(RECORDS, ADDED, REMOVED, REPLACED),
    *((), RECORDS[:1], RECORDS[::-1], RECORDS * 3),
    (*RECORDS[2:], replace(RECORDS[0], labels=("pain",)), replace(OTHER, labels=("new",))),
)
SETTINGS: dict[str, Any] = {
    "encoder": "hashing",
    "device": "cpu",
    "dtype": "float64",
    "max_tokens": 8,
}


@dataclass
class World:
    """A release, and what was about to be noised on the way to it."""

    made: Sequence[Synthetic]
    votes: list[Any]
    sigmas: list[float]
    sums: list[tuple[Any, Any]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_backbone(tmp_path_factory.mktemp("backbone"))


def generator(kind: str, folder: str) -> AugPe | EpsVec:
    if kind == "augpe":
        return AugPe(rounds=3, variations=2, backbone=folder, **SETTINGS)
    if kind == "shared":
        return AugPe(rounds=3, variations=2, shared_random=True, backbone=folder, **SETTINGS)
    return EpsVec(
        candidates=4,
        references=3,
        scope="corpus" if kind == "corpus" else "class",
        depth=(0.25, 0.8),
        clip=0.3,
        backbone=folder,
        **SETTINGS,
    )


def watched(made: AugPe | EpsVec, requests: Sequence[Request]) -> list[World]:
    """Generate in each world with data-free randomness in place of all that is noised."""
    found: list[World] = []

    def noised(counts: Any, sigma: float, rng: np.random.Generator) -> Any:
        found[-1].votes.append(counts)
        found[-1].sigmas.append(sigma)
        return rng.random(len(counts))

    def add_noise(total: Any, owner: Any, scale: Any, requests: Sequence[Request]) -> None:
        found[-1].sums.append((total.clone(), scale[owner]))
        total.copy_(torch.from_numpy(np.random.default_rng(0).normal(size=total.shape)))

    with pytest.MonkeyPatch.context() as swapped:
        swapped.setattr(evolution, "noised", noised)
        swapped.setattr(steering, "noised", noised)
        swapped.setattr(steering, "_add_noise", add_noise)
        # Public texts go by the settings; here they are the same whatever those are.
        swapped.setattr(steering, "identity_of", lambda generator: "same")
        for request in requests:
            found.append(World((), [], [], []))
            found[-1].made = made.generate(request)
    return found


@pytest.fixture(scope="module", params=["augpe", "shared", "class", "corpus"])
def seen(request: pytest.FixtureRequest, folder: str) -> tuple[AugPe | EpsVec, list[World]]:
    made = generator(request.param, folder)
    asked = [ask(4.0, size=12, records=records, side=SIDE) for records in WORLDS]
    return made, watched(made, asked)


def test_nothing_private_gets_past_the_noise(seen: tuple[Any, list[World]]) -> None:
    _, worlds = seen
    for world in worlds[1:]:
        assert world.made == worlds[0].made


def test_noise_is_as_large_as_claimed(seen: tuple[Any, list[World]]) -> None:
    made, worlds = seen
    events = made.claim(ask(4.0, side=SIDE)).events
    for world in worlds:
        assert len(world.sigmas) == (made.rounds if isinstance(made, AugPe) else 3)  # classes
        assert world.sigmas == pytest.approx([events[0].sigma] * len(world.sigmas))
        assert len(world.sums) == len(events) - 1
        for total, _ in world.sums:
            assert total.shape[1] == events[1].count == 3
        # Bounds are of generated texts, so they are the same in all worlds.
        for (_, scale), (_, same) in zip(world.sums, worlds[0].sums, strict=True):
            assert torch.equal(scale, same)


@pytest.mark.parametrize(
    ("near", "event_field"),
    [(1, "sensitivity"), (2, "sensitivity"), (3, "replace_sensitivity")],
)
def test_noised_sums_change_by_at_most_the_claimed_sensitivity(
    seen: tuple[Any, list[World]], near: int, event_field: str
) -> None:
    made, worlds = seen
    events = made.claim(ask(4.0, side=SIDE)).events
    moves = [a - b for a, b in zip(worlds[0].votes, worlds[near].votes, strict=True)]
    if isinstance(made, EpsVec):  # one event over all classes
        moves = [np.concatenate(moves)]
    for move in moves:
        assert 0 < np.linalg.norm(move) <= getattr(events[0], event_field) + 1e-9
    for (total, scale), (other, _) in zip(worlds[0].sums, worlds[near].sums, strict=True):
        bound = scale / events[1].sigma
        moved = ((total - other) / bound[:, :, None]).square().sum(dim=(0, 2)).sqrt()
        assert bool((moved > 0.1).all())
        assert bool((moved <= getattr(events[1], event_field) + 1e-9).all())


def test_clipping_bounds_come_from_generated_texts(folder: str) -> None:
    """Twice the clip, twice the noise: what is claimed is per unit of the bound."""
    scales = []
    for clip in (0.3, 0.6):
        made = generator("class", folder).model_copy(update={"clip": clip})
        (world,) = watched(made, [ask(4.0, size=12, side=SIDE)])
        scales.append(world.sums[0][1])
    torch.testing.assert_close(2 * scales[0], scales[1])


def test_a_corpus_vector_is_the_sum_over_all_classes(folder: str) -> None:
    (apart,) = watched(generator("class", folder), [ask(4.0, size=12, side=SIDE)])
    (together,) = watched(generator("corpus", folder), [ask(4.0, size=12, side=SIDE)])
    torch.testing.assert_close(apart.sums[0][0].sum(dim=0), together.sums[0][0][0])
    assert apart.sums[0][0].shape[0] == 3


def test_votes_are_all_that_depends_on_records(folder: str) -> None:
    """The other way round: with the noise left out, releases do depend on the records."""
    for kind in ("augpe", "class"):
        made = generator(kind, folder)
        whole = made.generate(ask(math.inf, size=12, side=SIDE))
        less = made.generate(ask(math.inf, size=12, side=SIDE, records=RECORDS[:3]))
        assert whole != less


def trained(folder: str, unit: str, *, noise: bool) -> tuple[list[Sequence[Synthetic]], list[Any]]:
    """Return a `dpsgd` release per world, and the sums of all steps; all worlds are one fleet."""
    sums: list[Any] = []

    def instead(self: Trainer, total: Any, generators: Any) -> None:
        sums.append(total.clone())
        if noise:
            same = np.random.default_rng(len(sums)).normal(size=total.shape[1])
            total.copy_(torch.from_numpy(same).expand_as(total))

    made = DpSgd(epochs=2, batch_size=4, rank=2, unit=unit, backbone=folder, **DPSGD)
    asked = [ask(4.0, size=12, records=records, side=SIDE) for records in WORLDS]
    with pytest.MonkeyPatch.context() as swapped:
        swapped.setattr(Trainer, "noise", instead)
        return list(made.generate_many(asked)), sums


DPSGD: dict[str, Any] = {"device": "cpu", "dtype": "float64", "max_tokens": 16}


@pytest.mark.parametrize("unit", ["record", "person"])
def test_nothing_private_gets_past_the_noise_of_training(folder: str, unit: str) -> None:
    """Lengths, labels, order and number of records, and none at all: texts stay the same."""
    releases, sums = trained(folder, unit, noise=True)
    assert all(release == releases[0] for release in releases)
    assert len(sums) == DpSgd(epochs=2, batch_size=4).steps(16)
    different, _ = trained(folder, unit, noise=False)
    assert len({tuple(release) for release in different}) > 3
