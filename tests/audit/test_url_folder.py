"""A run folder at a URL: the same tables as on disk, by put, get, exists and list only."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from joblib.externals.loky import get_reusable_executor

from support.bucket import BUCKET, MISSING, bucket, weed
from support.specs import tiny_spec
from synthleak.audit.finished import status, write_report
from synthleak.audit.folder import MANIFEST, REPORT
from synthleak.audit.purge import purge
from synthleak.audit.result import open_run
from synthleak.audit.run import run
from synthleak.audit.verify import verify
from synthleak.cli.main import cli
from synthleak.core import locations, private_files
from synthleak.core.engine.progress import Progress, Silent, Stage
from synthleak.core.errors import Damaged, StoreError, UserError
from synthleak.core.locations import Url, locate
from synthleak.core.private_files import working_in
from synthleak.core.runtime import Runtime
from synthleak.core.spec import LoadedSpec, parse_spec
from synthleak.core.store import UrlStore

ONE = Runtime(workers=1)


@pytest.fixture
def tiny() -> Callable[..., LoadedSpec]:
    """Make a spec that runs in a second."""

    def make(**changes: Any) -> LoadedSpec:
        game = {"instances": 4, "records": 20, "rounds": 2, "candidates": 3}
        few = {"game": game, "generator": [{"kind": "echo"}], "evidence": {"families": ["cos"]}}
        return LoadedSpec(parse_spec(tiny_spec(**few, **changes)))

    return make


@pytest.fixture(autouse=True)
def _quick_leases(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(private_files, "SETTLED_AFTER", 0.0)


@pytest.fixture(scope="module")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Url]:
    """Serve a bucket by SeaweedFS, and let this process and its workers reach it."""
    if weed() is None:
        pytest.skip(MISSING)
    with bucket(tmp_path_factory.mktemp("weed")) as access, pytest.MonkeyPatch.context() as patch:
        for name, value in access.items():
            patch.setenv(name, value)
        locations._file_system.cache_clear()
        get_reusable_executor().shutdown()  # workers of earlier tests know no bucket
        yield Url(f"s3://{BUCKET}")
    locations._file_system.cache_clear()


def tables(folder: Path | Url) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (folder / "results").iterdir()}


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> Callable[[LoadedSpec], dict[str, bytes]]:
    made: list[dict[str, bytes]] = []

    def of(spec: LoadedSpec) -> dict[str, bytes]:
        if not made:
            out = tmp_path_factory.mktemp("local") / "run"
            run(spec, out, runtime=ONE, progress=Silent())
            made.append(tables(out))
        return made[0]

    return of


def test_urls_are_told_from_paths() -> None:
    assert locate("runs/audit") == Path("runs/audit")
    assert locate("S3://bucket/a/b/") == Url("s3://bucket/a/b")
    assert str(Url("s3://bucket/a") / "b") == "s3://bucket/a/b"
    assert Url("s3://bucket/a/b").parent == Url("s3://bucket/a")
    for wrong in ("s3://", "s3://bucket/../other", "s3://key:secret@bucket/a"):
        with pytest.raises(UserError) as caught:
            locate(wrong)
        assert "secret" not in str(caught.value)


def test_an_unknown_protocol_gives_one_line(tiny: Callable[..., LoadedSpec]) -> None:
    with pytest.raises(UserError, match="no file system for nosuch://"):
        run(tiny(), "nosuch://bucket/run", runtime=ONE, progress=Silent())


def test_an_audit_at_a_url_has_the_same_tables(
    tiny: Callable[..., LoadedSpec], expected: Callable[[LoadedSpec], dict[str, bytes]]
) -> None:
    out = Url("memory://same/run")
    run(tiny(), out, runtime=ONE, progress=Silent())
    assert tables(out) == expected(tiny())
    assert status(out).finished and verify(out).verified
    before = (out / REPORT).read_bytes()
    assert write_report(out) == out / REPORT and (out / REPORT).read_bytes() == before
    said: list[str] = []

    class Heard(Silent):
        def say(self, line: str) -> None:
            said.append(line)

    run(tiny(), str(out), runtime=ONE, progress=Heard())
    assert said == ["nothing to do: memory://same/run is up to date (1 cell)"]
    with pytest.raises(StoreError, match="belongs to another spec"):
        run(tiny(seed=4), out, runtime=ONE, progress=Silent())
    with pytest.raises(UserError, match="`purge` works on folders of this machine only") as told:
        purge(out)
    assert "delete store/text, store/answers, store/vectors, store/written" in str(told.value)


def test_damage_at_a_url_is_noticed_and_made_again(
    tiny: Callable[..., LoadedSpec], expected: Callable[[LoadedSpec], dict[str, bytes]]
) -> None:
    out = Url("memory://damaged/run")
    run(tiny(), out, runtime=ONE, progress=Silent())
    store = UrlStore(out / "store")
    for kind in ("text/", "figures/"):
        path = out / "store" / next(store.list(kind))
        path.write_bytes(path.read_bytes().replace(path.read_bytes()[:1], b"\x00", 1))
        with pytest.raises(Damaged):
            store.get(str(path).partition("/store/")[2])
    (out / "store" / next(store.list("evidence/"))).write_bytes(b"cut")
    (out / MANIFEST).write_bytes(b"{}")
    run(tiny(), out, runtime=ONE, progress=Silent())
    assert tables(out) == expected(tiny())


def test_one_run_at_a_time_works_at_a_url(
    tiny: Callable[..., LoadedSpec], monkeypatch: pytest.MonkeyPatch
) -> None:
    out = Url("memory://held/run")
    with working_in(out), monkeypatch.context() as other:
        other.setattr(private_files, "own_name", lambda: "elsewhere-1")
        refused = pytest.raises(StoreError, match=r"another run works .*\(process \d+ ")
        with refused, working_in(out):
            pass
        other.setattr(private_files, "LEASE_SECONDS", -1.0)  # it was not renewed for too long
        with working_in(out):
            assert (out / ".lease").read_text() == "elsewhere-1"
    assert (out / ".lease").read_text() == ""


def test_private_files_of_a_killed_run_go_with_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    with private_files.private_home() as home:
        left = home.with_name(f"{private_files.HOME}x")  # no process holds it
        left.mkdir()
        (left / "train.jsonl").write_text("private")
        private_files.sweep_homes()
        assert not left.exists() and home.exists()
    assert not home.exists()


def test_a_bucket_holds_an_audit_while_and_after_it_runs(
    s3: Url, tiny: Callable[..., LoadedSpec], expected: Callable[[LoadedSpec], dict[str, bytes]]
) -> None:
    out, looks = s3 / "teams/privacy/run", []

    class Looking(Progress):
        """Asks for the status while units are made."""

        def stage(self, title: str, total: int) -> Stage:
            if title == "observations":
                looks.append(status(str(out)))
            return Stage()

    run(tiny(), out, runtime=Runtime(workers=2), progress=Looking())
    assert tables(out) == expected(tiny())
    (during,) = looks
    assert not during.finished and all(row["releases"] == row["of"] for row in during.cells)
    assert not any(row["looked_at"] for row in during.cells)
    said = CliRunner().invoke(cli, ["status", str(out)]).output
    assert "finished" in said
    said = CliRunner().invoke(cli, ["report", str(out)]).output
    assert said.startswith(f"{out}/report.html (")
    assert open_run(str(out)).cells


def test_a_bucket_that_is_not_there_gives_one_line(
    s3: Url, tiny: Callable[..., LoadedSpec]
) -> None:
    with pytest.raises(StoreError, match="check the bucket, the endpoint and the credentials"):
        run(tiny(), "s3://no-such-bucket/run", runtime=ONE, progress=Silent())
