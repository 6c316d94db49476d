"""The Ray engine on three machines: the same units, lost ones done again, nothing left running."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("ray", reason="needs Ray: pip install 'synthleak[ray]'")

from support.bucket import BUCKET, MISSING, bucket, weed
from support.ray_cluster import add_node, machine_of, ray_cluster
from support.ray_units import (
    complain,
    die,
    die_at_first,
    fail_on_three,
    hold_device,
    note_and_wait,
    put,
    wait_long_at_first,
)
from support.specs import tiny_spec
from synthleak.audit.run import run
from synthleak.checks.check import check
from synthleak.core import locations
from synthleak.core.engine import engines, on_ray
from synthleak.core.engine.on_ray import ask_every_node, run_units, session
from synthleak.core.engine.progress import Progress, Silent, Stage
from synthleak.core.errors import GeneratorError, UserError
from synthleak.core.locations import Url
from synthleak.core.runtime import FLEET, Resources, Runtime
from synthleak.core.spec import LoadedSpec, parse_spec
from synthleak.testing import check_engine

pytestmark = pytest.mark.filterwarnings("default")  # Ray's own


class Heard(Progress):
    """Remembers what is said and counted."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.steps = 0

    def say(self, line: str) -> None:
        self.lines.append(line)

    def stage(self, title: str, total: int) -> Stage:
        heard = self

        class Counting(Stage):
            def advance(self, steps: int = 1) -> None:
                heard.steps += steps

        return Counting()


@pytest.fixture(scope="module")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Url | None]:
    """Serve a bucket that machines of the cluster reach too: they inherit the environment."""
    if weed() is None:
        yield None
        return
    with bucket(tmp_path_factory.mktemp("weed")) as access, pytest.MonkeyPatch.context() as patch:
        for name, value in access.items():
            patch.setenv(name, value)
        locations._file_system.cache_clear()
        yield Url(f"s3://{BUCKET}")
    locations._file_system.cache_clear()


@pytest.fixture(scope="module")
def cluster(s3: Url | None) -> Iterator[Any]:
    with ray_cluster([{}, {}, {"num_gpus": 2, "num_cpus": 2}]) as made:
        yield made


@pytest.fixture(scope="module")
def runtime(cluster: Any) -> Iterator[Runtime]:
    """Hold one session for all tests: connecting takes a while."""
    how = Runtime(engine="ray", address=cluster.address)
    with session(how):
        yield how


def do(
    task: Any,
    units: Any,
    runtime: Runtime,
    folder: Path,
    heard: Progress | None = None,
    resources: Resources = Resources(),  # noqa: B008 - frozen
) -> None:
    run_units(
        *(task, folder, units),
        runtime=runtime,
        resources=resources,
        progress=heard or Silent(),
        title="units",
        steps=1,
    )


def test_an_address_where_nobody_listens_is_refused_at_once() -> None:
    assert on_ray._knock("local") is None
    with pytest.raises(ConnectionRefusedError):
        on_ray._knock("127.0.0.1:1")


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_ray_keeps_the_contract_of_engines(runtime: Runtime) -> None:
    check_engine(engines.get("ray").plugin, runtime)


def test_units_are_made_only_as_workers_become_free(runtime: Runtime, tmp_path: Path) -> None:
    asked, heard = [], Heard()

    def units() -> Iterator[int]:
        for number in range(200):
            asked.append(number - heard.steps)  # how many are under way
            yield number

    do(put, units(), runtime, tmp_path, heard)
    assert names(tmp_path) == {str(number) for number in range(200)} and heard.steps == 200
    assert max(asked) <= 16 < len(asked)


def test_a_unit_that_fails_ends_the_run_and_others_are_kept(
    runtime: Runtime, tmp_path: Path
) -> None:
    made = tmp_path / "made"
    made.mkdir()
    with pytest.raises(GeneratorError) as caught:
        do(fail_on_three, iter(range(1000)), runtime, made)
    assert str(caught.value) == "generator x: no such model; install it"
    kept, failed = names(made), (tmp_path / "failed").stat().st_mtime
    # A worker that starts slowly may fail late: what counts is what is done after that.
    after = [name for name in kept if (made / name).stat().st_mtime > failed]
    assert {"0", "1", "2"} <= kept and len(after) < 100
    time.sleep(0.3)
    assert names(made) == kept  # nothing goes on


def test_a_killed_worker_costs_its_unit_only(
    runtime: Runtime, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    heard, folder = Heard(), tmp_path / "made"
    folder.mkdir()
    do(die_at_first, iter(range(8)), runtime, folder, heard)
    assert names(folder) == {str(number) for number in range(8)} and heard.steps == 8
    *said, total = heard.lines
    assert total == "units: 2 units were lost and done again (its worker process died: 2)"
    one = "units: 1 unit was lost (its worker process died); done again"
    both = "units: 2 units were lost (its worker process died); done again"
    assert said in ([one, one], [both])  # on a busy machine both are noticed at one look
    assert capsys.readouterr().out == ""


def test_a_unit_that_is_lost_every_time_fails_the_run(
    runtime: Runtime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(on_ray, "ATTEMPTS", 2)
    with pytest.raises(UserError, match=r"was lost 2 times \(its worker process died\); give"):
        do(die, iter([1]), runtime, tmp_path)


def test_fleets_are_placed_one_per_device(runtime: Runtime, tmp_path: Path) -> None:
    do(hold_device, iter(range(6)), runtime, tmp_path, resources=FLEET)
    done = [name.split("-") for name in names(tmp_path)]
    assert len(done) == 6 and {device for _, _, device, _ in done} == {"0", "1"}
    assert len({process for *_, process in done}) == 2  # a fleet stays on its device


def test_an_interrupted_run_leaves_no_worker(runtime: Runtime, tmp_path: Path) -> None:
    before = signal.getsignal(signal.SIGINT)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            do(note_and_wait, interrupt_after(tmp_path), runtime, tmp_path)
    finally:
        signal.signal(signal.SIGINT, before)
    assert names(tmp_path)
    end = time.monotonic() + 10
    while any(alive(path) for path in tmp_path.iterdir()) and time.monotonic() < end:
        time.sleep(0.05)
    assert not any(alive(path) for path in tmp_path.iterdir())


def interrupt_after(folder: Path) -> Iterator[int]:
    """Yield a unit, and interrupt this process once it is being done."""
    yield 0
    while not names(folder):
        yield len(names(folder)) + 1
        time.sleep(0.05)
    signal.raise_signal(signal.SIGINT)


def alive(path: Path) -> bool:
    try:
        os.kill(int(path.read_text() or 0), 0)
    except ProcessLookupError:
        return False
    return True


def test_a_machine_that_cannot_work_is_named(runtime: Runtime, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"the machine .* of the Ray cluster: it does not see it"):
        ask_every_node(runtime, partial(complain, "it does not see it"), tmp_path)


def tables(folder: Path | Url) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (folder / "results").iterdir()}


def small_spec() -> LoadedSpec:
    game = {"instances": 4, "records": 20, "rounds": 2, "candidates": 3}
    families = {"families": ["cos", "bigram_logprob"]}
    return LoadedSpec(
        parse_spec(tiny_spec(game=game, generator=[{"kind": "ngram"}], evidence=families))
    )


def test_an_audit_on_ray_in_a_bucket_has_the_same_tables(
    s3: Url | None, runtime: Runtime, tmp_path: Path
) -> None:
    if s3 is None:
        pytest.skip(MISSING)
    run(small_spec(), tmp_path / "local", runtime=Runtime(workers=1), progress=Silent())
    run(small_spec(), s3 / "ray", runtime=runtime, progress=Silent())
    assert tables(s3 / "ray") == tables(tmp_path / "local")


def test_a_check_on_ray_has_the_same_tables(runtime: Runtime, tmp_path: Path) -> None:
    texts = [f"record {number} of {number % 7} and {number * 31 % 101}" for number in range(60)]
    given = {"members": texts[:30], "holdout": texts[30:], "release": texts[:12] + texts[45:50]}
    for name, how in (("local", Runtime(workers=1)), ("ray", runtime)):
        check(
            **given,
            out=tmp_path / name,
            random_split=True,
            encoder="hashing",
            runtime=how,
            progress=Silent(),
        )
    assert tables(tmp_path / "ray") == tables(tmp_path / "local")


def test_a_lost_machine_costs_its_units_only(
    cluster: Any, runtime: Runtime, tmp_path: Path
) -> None:
    heard, folder = Heard(), tmp_path / "made"
    folder.mkdir()
    add_node(cluster, num_cpus=2)  # now two machines have room for a unit of two CPUs

    def units() -> Iterator[int]:
        yield 7
        while not (began := [p.read_text() for p in tmp_path.glob("began-*")]) or not began[0]:
            time.sleep(0.05)
        cluster.remove_node(machine_of(cluster, int(began[0])), allow_graceful=False)
        yield 8

    do(wait_long_at_first, units(), runtime, folder, heard, Resources(cpus=2.0))
    assert names(folder) == {"7", "8"}
    assert heard.lines[-1] == "units: 1 units were lost and done again (its machine died: 1)"
