"""`command`: any program is a generator; what goes wrong is one line without private text."""

from __future__ import annotations

import errno
import json
import math
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from support.shuffle_program import AWK, SHUFFLE
from synthleak.core.errors import GeneratorError, SpecError, StoreError
from synthleak.core.private_files import working_in
from synthleak.core.text import fold
from synthleak.releases import Claim, GaussianEvent, generators
from synthleak.releases.claim import gaussian_delta, gaussian_mu
from synthleak.releases.exchange import dump_training
from synthleak.releases.generators.command import KEEP_FAILED, SHOW_STDERR, Command
from synthleak.testing import check_generator, tiny_request

Make = Callable[..., Command]

SH = ["sh", "program.sh", "{train}", "{out}", "{n}", "{epsilon}", "{delta}", "{seed}"]
GOOD = 'head -n "$3" "$1" > "$2"'


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """Make a generator from a shell program."""

    def build(program: str = GOOD, argv: list[str] | None = None, **settings: Any) -> Command:
        (tmp_path / "program.sh").write_text(program, encoding="utf-8")
        (tmp_path / "shuffle.awk").write_text(SHUFFLE, encoding="utf-8")
        built = generators.build(
            "command",
            {"argv": argv or SH, **settings},
            key="kind",
            where=("generator", 0),
            base=tmp_path,
        )
        assert isinstance(built, Command)
        return built

    return build


def complaint(generator: Command) -> str:
    """Return what the generator says when it fails, which must be one line without records."""
    request = tiny_request()
    with pytest.raises(GeneratorError) as caught:
        generator.generate(request)
    said = str(caught.value)
    assert "\n" not in said
    assert not any(fold(record.text) in fold(said) for record in request.records)
    return said


def test_the_training_file_goes_as_soon_as_the_program_has_ended(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    module, seen = sys.modules[Command.__module__], []
    reading = module.read_release  # type: ignore[attr-defined]

    def look(path: Path, *rest: Any) -> Any:
        seen.extend(sorted(other.name for other in path.parent.iterdir()))
        return reading(path, *rest)

    monkeypatch.setattr(module, "read_release", look)
    make().generate(tiny_request())
    assert "release.jsonl" in seen and "train.jsonl" not in seen


@pytest.mark.skipif(shutil.which("awk") is None, reason="there is no awk")
def test_an_awk_program_keeps_the_contract(make: Make) -> None:
    generator = make(argv=AWK)
    check_generator(generator)
    release = generator.generate(tiny_request())
    assert {r.text for r in release} <= {r.text for r in tiny_request().records}
    assert any(r.labels for r in release)


def test_the_program_gets_what_it_was_promised(make: Make, tmp_path: Path) -> None:
    program = f'echo "$3 $4 $5 $6" > given; stat -c %a "$(dirname "$1")" >> given; {GOOD}'
    generator = make(program, private=True)
    request = tiny_request(epsilon=0.5, seed=2**63 + 11)
    generator.generate(request)
    words, mode = (tmp_path / "given").read_text(encoding="utf-8").splitlines()
    assert words.split() == ["12", "0.5", repr(request.delta), str((2**63 + 11) % (2**31 - 1))]
    assert mode == "700"


def test_nothing_private_is_left_behind(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    make(f'cp "$1" "$TMPDIR/copy"; {GOOD}').generate(tiny_request())
    complaint(make('cp "$1" "$TMPDIR/copy"; exit 1'))
    assert list((tmp_path / "tmp").iterdir()) == []


def test_training_files_break_lines_nowhere_else() -> None:
    record = replace(tiny_request().records[0], text="a\u2028b\x85c\nd\ud800")
    data = dump_training([record])
    assert data.decode().splitlines() == [data.decode().rstrip("\n")]
    assert json.loads(data)["text"] == record.text


def test_other_braces_are_left_alone(make: Make) -> None:
    program = '{ if (NR <= {n}) print > "{out}" }'
    release = make(argv=["awk", program, "{train}"]).generate(tiny_request())
    assert [r.text for r in release] == [r.text for r in tiny_request().records[:12]]


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        (
            "echo boom >&2; exit 3",
            "command sh: the program failed with exit code 3; its stderr has 1 line (--show-stderr",
        ),
        ("exit 1", "failed with exit code 1; its stderr is empty"),
        ("kill -SEGV $$", "SIGSEGV"),
        ("true", "wrote no file to {out}"),
        (': > "$2"', "command sh, its output: the file is empty; write 12"),
        ('head -n 11 "$1" > "$2"', "too few records: 11, not 12; write exactly 12"),
        ('head -n 13 "$1" > "$2"', "too many records: 13, not 12; write exactly 12"),
        (f'{GOOD}; echo "{{" >> "$2"', "its output, line 13: not valid JSON"),
        (f'{GOOD}; echo "[1]" >> "$2"', "line 13: no string 'text'"),
        (f"""{GOOD}; echo '{{"text": 3}}' >> "$2" """, "line 13: no string 'text'"),
        (
            """echo '{"text": "x", "labels": "A"}' > "$2" """,
            "line 1: 'labels'",
        ),
        (r"""printf '{"text": "\351"}' > "$2" """, "line 1: not valid UTF-8"),
        (r"""printf '{"text": "\\ud800"}' > "$2" """, "line 1: 'text' or a label holds invalid"),
        (
            r"""printf '{"text": "x", "labels": ["\\ud800"]}' > "$2" """,
            "line 1: 'text' or a label holds invalid Unicode",
        ),
        ('rm -r "$(dirname "$1")"; exit 3', "private folder cannot be used (No such file"),
        ('sleep 1; rm -r "$(dirname "$1")"', "wrote no file to {out}"),
        ('truncate -s 3G "$2"', "its release is larger than 1 GiB; raise output"),
        ('head -c 5000000 /dev/zero > "$2"', "line 1: the line is larger than the limit of 4 MB"),
        (f"printf '%s' '{'[' * 5000}' > \"$2\"", "line 1: not valid JSON"),
        ("printf 'PAR1\\1\\2' > \"$2\"", "expected JSON Lines, and this is Parquet; write one"),
        ("printf 'ARROW1\\0\\0' > \"$2\"", "expected JSON Lines, and this is Arrow; write one"),
        ('gzip -c "$1" > "$2"', "expected JSON Lines, and this is gzip; write one"),
        ('mkdir "$2"', "wrote no file to {out} but a folder: expected JSON Lines"),
        (f"printf '%s' '{'9' * 5000}' > \"$2\"", "line 1: not valid JSON"),
    ],
)
def test_program_errors_are_one_line(make: Make, program: str, expected: str) -> None:
    assert expected in complaint(make(program))


def test_stderr_is_not_shown_unless_asked_for(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(SHOW_STDERR, raising=False)
    said = complaint(make('head -n 1 "$1" | od -c | tee /dev/stderr >&2; echo odd >&2; exit 1'))
    assert re.search(r"its stderr has \d+ lines \(--show-stderr shows the last\)$", said)


def test_stderr_is_shown_on_request_but_not_the_records_in_it(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(SHOW_STDERR, "1")
    assert complaint(make("exit 1")).endswith("its stderr shows nothing")
    assert complaint(make("echo boom >&2; exit 1")).endswith("its stderr ends: boom")
    said = complaint(make('head -n 4 "$1" >&2; echo "row 5 is odd" >&2; exit 1'))
    assert said.endswith("row 5 is odd (4 lines that quote training text are not shown)")


def test_a_failed_call_is_named_and_kept_only_if_asked_for(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(KEEP_FAILED, raising=False)
    failing = make('echo odd >&2; echo "$XDG_CACHE_HOME" > at; head -n 2 "$1" > "$2"; exit 3')
    seed = tiny_request().seed % (2**31 - 1)
    said = complaint(failing)
    assert said.startswith(f"epsilon inf, seed {seed}, command sh: the program failed")
    assert not list(tmp_path.rglob("train.jsonl"))
    monkeypatch.setenv(KEEP_FAILED, str(tmp_path / "run/failed"))
    place = tmp_path / f"run/failed/epsilon-inf-seed-{seed}"
    assert f"confidential: {place} has its training file" in complaint(failing)
    request = tiny_request()
    assert (place / "train.jsonl").read_bytes() == dump_training(request.records)
    assert (place / "stderr").read_text(encoding="utf-8") == "odd\n"
    assert len((place / "release.jsonl").read_text(encoding="utf-8").splitlines()) == 2
    assert place.stat().st_mode & 0o777 == 0o700
    again = subprocess.run(["sh", place / "again.sh"], check=False, capture_output=True)
    assert again.returncode == 3 and (place / "again.jsonl").is_file()
    assert (tmp_path / "at").read_text(encoding="utf-8") == f"{place}/cache\n", "private still"


def test_caches_of_libraries_go_with_the_call(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    model = home / ".cache/huggingface/hub/model"
    model.parent.mkdir(parents=True)
    model.write_text("weights", encoding="utf-8")
    for name in ("XDG_CACHE_HOME", "HF_HOME", "HF_HUB_CACHE", "TORCH_HOME", "HF_TOKEN_PATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(home))
    copies = (
        'for at in "$HF_DATASETS_CACHE" "${XDG_CACHE_HOME:-$HOME/.cache}/huggingface/assets"; do'
        ' mkdir -p "$at"; cp "$1" "$at"; done; cat "$HF_HUB_CACHE/model" > model.seen'
    )
    make(f"{copies}; {GOOD}").generate(tiny_request())
    assert (tmp_path / "model.seen").read_text(encoding="utf-8") == "weights"
    assert [path.name for path in home.rglob("*") if path.is_file()] == ["model"]
    monkeypatch.setenv("XDG_CACHE_HOME", str(home / "own"))
    said = complaint(make('echo "$XDG_CACHE_HOME" > seen; exit 1', env=["XDG_CACHE_HOME"]))
    assert (tmp_path / "seen").read_text(encoding="utf-8").strip() == str(home / "own"), said


def test_timeout_kills_the_program_and_its_children(make: Make, tmp_path: Path) -> None:
    said = complaint(make("sleep 300 & echo $! > child; sleep 300", timeout=0.5))
    assert "no release within 0.5 s: it was stopped; raise timeout" in said
    child = int((tmp_path / "child").read_text(encoding="utf-8"))
    for _ in range(100):
        if not alive(child):
            break
        time.sleep(0.05)
    assert not alive(child)


def gone(process: int) -> bool:
    for _ in range(100):
        if not alive(process):
            return True
        time.sleep(0.05)
    return False


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="reads /proc")
@pytest.mark.parametrize("how", ["succeeds", "fails", "takes too long"])
def test_what_a_program_left_in_the_background_ends_with_it(
    make: Make, tmp_path: Path, how: str
) -> None:
    rest = {"succeeds": GOOD, "fails": "exit 3", "takes too long": "sleep 300"}[how]
    program = f'setsid sh -c "echo \\$\\$ > child; exec sleep 300" & sleep 0.3; {rest}'
    generator = make(program, timeout=2)
    if how == "succeeds":
        assert len(generator.generate(tiny_request())) == 12
    else:
        complaint(generator)
    assert gone(int((tmp_path / "child").read_text(encoding="utf-8")))


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="reads /proc")
def test_a_program_does_not_outlive_a_killed_run(make: Make, tmp_path: Path) -> None:
    make('setsid sh -c "echo \\$\\$ > child; exec sleep 300" & echo $$ > own; sleep 300')
    (tmp_path / "tmp").mkdir()
    code = f"""
import tempfile
from pathlib import Path
from synthleak.releases import generators
from synthleak.testing import tiny_request
tempfile.tempdir = {str(tmp_path / "tmp")!r}
base, settings = Path({str(tmp_path)!r}), {{"argv": {SH}}}
program = generators.build("command", settings, key="kind", where=(), base=base)
program.generate(tiny_request())
"""
    run = subprocess.Popen([sys.executable, "-c", code])
    files = [tmp_path / "child", tmp_path / "own"]
    while not all(path.is_file() and path.read_text(encoding="utf-8") for path in files):
        assert run.poll() is None
        time.sleep(0.05)
    run.kill()
    run.wait()
    assert all(gone(int(path.read_text(encoding="utf-8"))) for path in files)
    for _ in range(100):
        if not list((tmp_path / "tmp").iterdir()):
            break
        time.sleep(0.05)
    assert list((tmp_path / "tmp").iterdir()) == []


def test_a_program_sees_only_the_environment_it_needs(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_KEY", "secret one")
    monkeypatch.setenv("OTHER_KEY", "secret two")
    program = f"env > seen; {GOOD}"
    make(program).generate(tiny_request())
    seen = (tmp_path / "seen").read_text(encoding="utf-8")
    assert "secret" not in seen and "PATH=" in seen and "TMPDIR=" in seen
    generator = make(program, env=["SOME_KEY"])
    generator.generate(tiny_request())
    seen = (tmp_path / "seen").read_text(encoding="utf-8")
    assert "SOME_KEY=secret one" in seen and "secret two" not in seen
    assert generator.identity() == make(program).identity()
    assert "secret" not in json.dumps(generator.model_dump(mode="json"))
    monkeypatch.delenv("SOME_KEY")
    with pytest.raises(GeneratorError, match="variable SOME_KEY is not set; export SOME_KEY=…"):
        generator.check()
    with pytest.raises(SpecError, match="name variables, never their values"):
        make(env=["SOME_KEY=secret one"])


def test_a_program_has_limits_on_memory_and_output(make: Make) -> None:
    hungry = [sys.executable, "-c", "x = bytearray(600_000_000); open('{out}')", "{train}"]
    said = complaint(make(argv=hungry, memory=0.25))
    assert "failed with exit code 1" in said and said.endswith("its limit is memory = 0.25 GiB")
    said = complaint(make('yes > "$2"', output=0.001))
    assert said.endswith(", command sh: its release is larger than 0.001 GiB; raise output")
    assert "its stderr is larger than 0.001 GiB" in complaint(make("yes >&2", output=0.001))
    sparse = make('truncate -s 3G "$2"', output=1)
    assert "its release is larger than 1 GiB" in complaint(sparse)


def test_a_full_disk_is_one_line(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: Path, data: bytes) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(StoreError, match="the disk is full; free some space"):
        make().generate(tiny_request())


def test_a_program_leaves_no_dump_of_its_memory(make: Make, tmp_path: Path) -> None:
    complaint(make("ulimit -c > limit; exit 1"))
    assert (tmp_path / "limit").read_text(encoding="utf-8").strip() == "0"


def alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    status = Path(f"/proc/{process}/stat")
    return not (status.exists() and status.read_text(encoding="utf-8").split()[2] == "Z")


def test_check_finds_a_missing_program(make: Make, tmp_path: Path) -> None:
    missing = make(argv=["no-such-program", "{train}", "{out}"])
    with pytest.raises(GeneratorError, match=r"argv\[0\]: 'no-such-program'"):
        missing.check()
    make()
    unwritten = make(argv=["{python}", "generate.py", "{train}", "{out}"])
    with pytest.raises(GeneratorError, match=r"argv\[1\]: there is no file 'generate\.py'"):
        unwritten.check()
    flagged = make(argv=["{python}", "-u", "generate.py", "{train}", "{out}"])
    with pytest.raises(GeneratorError, match=r"argv\[2\]: there is no file 'generate\.py'"):
        flagged.check()
    make(argv=["sh", "-c", "cat {train} > {out}; sh generate.sh"]).check()
    make(argv=["sh", "-c", "exec sh generate.sh", "{train}", "{out}"]).check()
    bare = make(argv=["program.sh", "{train}", "{out}"])
    with pytest.raises(GeneratorError, match=r"program\.sh' is not executable; chmod \+x it"):
        bare.check()
    (tmp_path / "program.sh").chmod(0o755)
    bare.check()
    assert "cannot be started (Exec format error)" in complaint(bare)


def test_python_of_a_virtual_environment_is_not_followed(make: Make, tmp_path: Path) -> None:
    (tmp_path / "environment").mkdir()
    (tmp_path / "environment" / "python").symlink_to(sys.executable)
    generator = make(argv=["environment/python", "program.sh", "{train}", "{out}"])
    assert generator.argv[0] == str(tmp_path / "environment" / "python")


def test_argv_must_pass_the_placeholders(make: Make) -> None:
    with pytest.raises(SpecError, match=r"argv must pass \{out\} to the program"):
        make(argv=["sh", "program.sh", "{train}"])
    with pytest.raises(SpecError, match=r"argv must pass \{epsilon\} to the program"):
        make(argv=["sh", "program.sh", "{train}", "{out}"], private=True)
    with pytest.raises(SpecError, match=r"generator\[0\]\.timeout"):
        make(timeout=0)


def test_identity_follows_content_of_the_script_not_its_path(make: Make, tmp_path: Path) -> None:
    before = make().identity()
    assert make(timeout=5).identity() == before
    assert make(f"{GOOD} # edited").identity() != before
    assert make(version_tag="2").identity() != before
    moved = tmp_path / "moved"
    moved.mkdir()
    (moved / "program.sh").write_text(GOOD, encoding="utf-8")
    there = generators.build("command", {"argv": SH}, key="kind", where=(), base=moved)
    assert there.identity() == before
    assert str(tmp_path) not in json.dumps(before)


def test_stated_claim_is_one_point(make: Make) -> None:
    generator = make(private=True)
    assert generator.private_by_design and not make().private_by_design
    assert not generator.claim(tiny_request()).promises
    claim = generator.claim(tiny_request(epsilon=2.0))
    delta = tiny_request().delta
    assert claim.promises and claim.stated and claim.loose and claim.events == ()
    assert claim.accountant == "stated by the program, not accounted here"
    assert claim.delta_at(2.0) == claim.delta_at(5.0) == delta
    assert claim.epsilon_at(delta) == 2.0
    assert claim.epsilon_at(delta / 2) == math.inf
    assert delta < claim.delta_at(1.0) < 1
    assert claim.epsilon_at(claim.delta_at(1.0)) == pytest.approx(1.0)
    # Replacing is removing and adding: (2ε, (1 + e^ε) δ).
    assert claim.delta_at(4.0, "replace") == pytest.approx((1 + math.exp(2)) * delta)
    assert claim.epsilon_at((1 + math.exp(2)) * delta, "replace") == pytest.approx(4.0)
    assert type(claim).from_json(claim.to_json()) == claim


def test_a_stated_point_is_as_tight_as_randomised_response(make: Make) -> None:
    # Two outcomes with odds e^ε: the hockey-stick divergence at ε' is p - e^ε' (1 - p).
    claim = replace(make(private=True).claim(tiny_request(epsilon=1.5)), delta=0.0)
    p = math.exp(1.5) / (1 + math.exp(1.5))
    for epsilon in (0.0, 0.4, 1.0, 1.5, 3.0):
        assert claim.delta_at(epsilon) == pytest.approx(max(0.0, p - math.exp(epsilon) * (1 - p)))


def test_a_stated_mechanism_is_accounted(make: Make) -> None:
    """The Gaussian mechanism has a closed form; DP-SGD is what the accountant says of it."""
    delta = tiny_request().delta
    exact = gaussian_mu(4.0, delta)
    claim = make(private=True, mechanism={"mu": exact}).claim(tiny_request(epsilon=4.0))
    assert claim.promises and not claim.stated and "accounted here" in claim.accountant
    assert claim.epsilon_at(delta) == pytest.approx(4.0, rel=1e-3)
    assert claim.delta_at(1.0) == pytest.approx(gaussian_delta(exact, 1.0), rel=1e-2)
    steps = {"sigma": 1.1, "rate": 0.03, "steps": 300}
    sgd = make(private=True, mechanism=steps).claim(tiny_request(epsilon=50.0))
    event = GaussianEvent("step", 1.1, 1.0, 2.0, 300, 0.03)
    assert sgd.epsilon_at(1e-5) == Claim(4.0, 1e-5, (event,)).epsilon_at(1e-5)
    both = make(private=True, mechanism=[steps, {"mu": 0.5}]).claim(tiny_request(epsilon=50.0))
    assert both.epsilon_at(1e-5) > sgd.epsilon_at(1e-5)
    assert not make(private=True, mechanism=steps).claim(tiny_request()).promises


def test_a_mechanism_enters_the_key_and_nothing_does_without_one(make: Make) -> None:
    plain, stated = make(private=True), make(private=True, mechanism={"mu": 1.0})
    assert "mechanism" not in plain.identity() and plain.identity() != stated.identity()


@pytest.mark.parametrize(
    ("mechanism", "said"),
    [
        ({"mu": 1.0, "sigma": 2.0}, "write mu, or sigma with rate and steps"),
        ({"rate": 0.1}, "write mu, or sigma with rate and steps"),
        ({"mu": 1.0, "steps": 5}, "mu is that of all steps"),
        ({"sigma": -1.0}, "sigma"),
        ({"sigma": 1.0, "rate": 1.5}, "rate"),
        ({"sigma": 1.0, "q": 0.1}, "q"),
    ],
)
def test_a_wrong_mechanism_is_named_in_one_line(
    make: Make, mechanism: dict[str, float], said: str
) -> None:
    with pytest.raises(SpecError, match="mechanism") as caught:
        make(private=True, mechanism=mechanism)
    assert said in str(caught.value) and "\n" not in str(caught.value)


def test_a_mechanism_must_keep_the_epsilon_that_is_stated(make: Make) -> None:
    generator = make(private=True, mechanism={"mu": 3.0})
    with pytest.raises(
        GeneratorError, match=r"has ε = .* more than epsilon = 1.*set generator.epsilon"
    ):
        generator.claim(tiny_request(epsilon=1.0))
    with pytest.raises(SpecError, match="private = true is not"):
        make(mechanism={"mu": 3.0})


def test_paths_of_a_program_are_absolute(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    (tmp_path / "program.sh").write_text(GOOD, encoding="utf-8")
    Path("run").mkdir()
    with working_in(Path("run")):
        assert len(make(cwd="elsewhere").generate(tiny_request())) == 12


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="reads /proc")
def test_a_killed_run_leaves_no_training_file_of_a_short_program(
    make: Make, tmp_path: Path
) -> None:
    make(f"{GOOD}; sleep 0.03")
    code = f"""
import tempfile
from pathlib import Path
from synthleak.releases import generators
from synthleak.testing import tiny_request
tempfile.tempdir = {str(tmp_path / "tmp")!r}
base, settings = Path({str(tmp_path)!r}), {{"argv": {SH}}}
program = generators.build("command", settings, key="kind", where=(), base=base)
print(flush=True)
while True:
    program.generate(tiny_request())
"""
    (tmp_path / "tmp").mkdir()
    for number in range(6):
        run = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
        assert run.stdout is not None
        run.stdout.readline()
        time.sleep(0.05 + 0.037 * number)
        run.kill()
        run.communicate()
        for _ in range(100):
            left = list((tmp_path / "tmp").rglob("train.jsonl"))
            if not left:
                break
            time.sleep(0.05)
        assert not left
