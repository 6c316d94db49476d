"""`command`: any program, in any language (docs/method.md §5.1; docs/generators.md).

An argv list without a shell. The program reads the training file, writes the release, and is told
how many records, which budget and which seed. It works in a private folder that is removed, sees
only the environment that it needs, has limits, and all that it starts ends with it
(docs/security.md). Once it has ended, a second program may score texts with the model that it left.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from sys import executable
from typing import Annotated, Any

import numpy as np
from pydantic import BeforeValidator, Field, ValidationInfo, field_validator, model_validator

from synthleak.core.errors import GeneratorError
from synthleak.core.private_files import note_program, private_folder, write_private
from synthleak.core.runtime import Resources
from synthleak.core.seeds import digest
from synthleak.core.validation import DataPath, listed
from synthleak.core.whole_files import cannot_write, refuse_links
from synthleak.corpus.corpus import Record
from synthleak.releases import supervisor
from synthleak.releases.exchange import (
    budget,
    dump_training,
    file_hash,
    program_seed,
    read_numbers,
    read_release,
    redact,
)
from synthleak.releases.generator import Floats, StatedGenerator, generators
from synthleak.releases.release import Request, Synthetic

_PLACEHOLDER = re.compile(
    r"\{(train|out|n|nominal|epsilon|delta|seed|python|model|score_texts|scores)\}"
)
_TAIL = 64_000
SHOW_STDERR = "SYNTHLEAK_SHOW_STDERR"
"""Set to show the last lines of a failed program's stderr that quote no training record.

A program may print records in a form that is not recognised: tokens, hashes, encodings.
"""
KEEP_FAILED = "SYNTHLEAK_KEEP_FAILED"
"""Set to a folder in which what a failed program was given is kept: private records."""
_RELEASE, _SCORE_TEXTS, _SCORES = "release.jsonl", "score-texts.jsonl", "scores.txt"
_MODEL = "model"
_SHOWN_LINES = 3
_GIB = 2**30
_LOOK_EVERY, _GRACE = 0.25, 5.0
"""Seconds: between looks at what a program has written, and until it is killed without its say."""
PASSED_ON = (
    *("PATH", "HOME", "USER", "LOGNAME", "LANG", "LANGUAGE", "TZ", "SYSTEMROOT"),
    *("LD_LIBRARY_PATH", "CUDA_VISIBLE_DEVICES", "OMP_NUM_THREADS"),
)
"""Variables that a program gets, with all LC_…; `env` adds others by name."""
_SCRIPTS = {".py", ".sh", ".r", ".awk", ".pl", ".jl", ".js", ".rb"}


@generators.register("command", version=1)
class Command(StatedGenerator):
    """Any program: an argv list with {train} {out} {n} {epsilon} {delta} {seed} filled in."""

    argv: tuple[str, ...] = Field(min_length=1, description="the program and its arguments")
    score: tuple[str, ...] = Field(
        default=(),
        description="scores {score_texts} into {scores} by what argv left in {model}",
    )
    timeout: float = Field(default=3600, gt=0, description="seconds that one release may take")
    private: bool = Field(default=False, description="the program says that it honours epsilon")
    version_tag: str = Field(default="", description="change it when the program changes")
    cwd: Annotated[DataPath, Field(validate_default=True)] = Path()
    env: Annotated[tuple[str, ...], BeforeValidator(listed)] = Field(
        default=(), description="names of more environment variables that it gets, as for a key"
    )
    memory: float | None = Field(
        default=None, gt=0, description="GiB that each of its processes may hold"
    )
    output: float = Field(
        default=1.0, gt=0, description="GiB that its release and its stderr may have"
    )

    @field_validator("argv", "score")
    @classmethod
    def _beside_the_spec(cls, argv: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
        base = Path((info.context or {}).get("base") or Path.cwd())
        return tuple(_resolved(base, word, program=not at) for at, word in enumerate(argv))

    @field_validator("env")
    @classmethod
    def _names_only(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        if not all(re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII) for name in names):
            raise ValueError("name variables, never their values")
        return names

    @model_validator(mode="after")
    def _asks_for_what_it_needs(self) -> Command:
        needed = {
            "argv": ["train", "out", *["epsilon"] * self.private, *["model"] * bool(self.score)]
        }
        if self.score:
            needed["score"] = ["model", "score_texts", "scores"]
        for setting, names in needed.items():
            used = {name for word in getattr(self, setting) for name in _PLACEHOLDER.findall(word)}
            for name in names:
                if name not in used:
                    raise ValueError(f"{setting} must pass {{{name}}} to the program")
        return self

    @property
    def score_columns(self) -> tuple[str, ...]:
        """The number that the program `score` gives a text."""
        return ("score",) * bool(self.score)

    def scored_with(self, epsilon: float) -> str:
        return "the scores of its program"

    def identity(self) -> dict[str, Any]:
        """Return argv with every file by its content, so that an edited script is noticed."""
        argv = [_by_content(word) for word in self.argv]
        settings: dict[str, Any] = {**self.stated, "version_tag": self.version_tag}
        if self.score:
            settings["score"] = [_by_content(word) for word in self.score]
        return {"kind": self.kind, "version": self.version, "argv": argv, **settings}

    @property
    def resources(self) -> Resources:
        """One CPU, and the memory that its limit allows."""
        return Resources(memory=round((self.memory or 0) * 2**30))

    @property
    def batch(self) -> int:
        """One at a time: a program may take long, and what is made is kept."""
        return 1

    def seed_name(self, section: str) -> str:
        """Name the seeds by the section, so that `folder` can be given the same ones."""
        return f"program {section}"

    def check(self) -> None:
        """Find the program, and the variables it is promised, before any work starts."""
        for name in self.env:
            if name not in os.environ:
                raise GeneratorError(
                    f"the environment variable {name} is not set",
                    "generator command, env",
                    f"export {name}=… before you run, or take it out of env",
                )
        self._find("argv")
        if self.score:
            self._find("score")

    def _find(self, setting: str) -> None:
        """Find the program that a setting names, and its script."""
        argv: tuple[str, ...] = getattr(self, setting)
        program, script = argv[0], next((w for w in argv[1:] if w[:1] != "-"), "")
        named = Path(script).suffix.lower() in _SCRIPTS and not re.search(r"[\s{]", script)
        if named and not _is(self.cwd / script, "file"):
            raise GeneratorError(
                f"there is no file {script!r}",
                f"generator command, {setting}[{argv.index(script)}]",
                "write it, or name it relative to the spec",
            )
        if shutil.which(executable if program == "{python}" else program) is None:
            there = _is(Path(program), "file")
            raise GeneratorError(
                f"{program!r} {'is not executable' if there else 'is not a known program'}",
                f"generator command, {setting}[0]",
                'chmod +x it, or name what runs it: ["sh", "generate.sh", ...]'
                if there
                else "install it, or name its file relative to the spec",
            )

    def generate(self, request: Request) -> Sequence[Synthetic]:
        ((release, _),) = self.generate_and_score([request], ())
        return release

    def generate_and_score(
        self, requests: Sequence[Request], records: Sequence[Record], *, sample: bool = True
    ) -> Iterator[tuple[Sequence[Synthetic], Floats]]:
        """Run the program for each request, and then the one that scores records, if there are any.

        A release is made before the records are shown to anybody: it cannot depend on them.
        """
        for request in requests:
            release, scores = self._both(request, records)
            yield release if sample else [], scores

    def _both(
        self, request: Request, records: Sequence[Record]
    ) -> tuple[Sequence[Synthetic], Floats]:
        self.check()
        try:
            with private_folder() as name:
                folder = Path(name).absolute()
                try:
                    release = self._generate(request, folder)
                    return release, self._scores(request, folder, records)
                except GeneratorError as error:
                    call = f"epsilon {budget(request.epsilon)}, seed {program_seed(request.seed)}"
                    what = error.what + self._kept(request, folder)
                    raise GeneratorError(what, f"{call}, {error.where}", error.remedy) from None
        except OSError as error:  # a full disk, or a program that removed the folder
            why = f"its private folder cannot be used ({error.strerror})"
            raise self._error(why, "free some space, and let the program keep it") from None

    def _generate(self, request: Request, folder: Path) -> Sequence[Synthetic]:
        write_private(folder / "stderr", b"")
        if self.score:
            (folder / _MODEL).mkdir(mode=0o700)
        training = dump_training(request.records, persons=request.persons)
        self._run(self._filled("argv", request, folder), folder, training, request.records)
        out = self._written(folder / _RELEASE, "out", "JSON Lines")
        return read_release(out, request.size, f"{self._who}, its output")

    def _scores(self, request: Request, folder: Path, records: Sequence[Record]) -> Floats:
        """Let the second program score records: each different one once, in an order of its own."""
        if not records:
            return np.zeros((0, len(self.score_columns)))
        shown = {(record.text, record.labels): record for record in records}
        order = {key: row for row, key in enumerate(sorted(shown, key=digest))}
        write_private(folder / _SCORE_TEXTS, dump_training([shown[key] for key in order]))
        argv = self._filled("score", request, folder)
        self._run(argv, folder, b"", (*request.records, *records))
        scores = self._written(folder / _SCORES, "scores", "a number a line")
        values = read_numbers(scores, len(order), f"{self._who}, its scores")
        rows = [order[record.text, record.labels] for record in records]
        return np.array(values, dtype=np.float64)[rows, None]

    def _written(self, path: Path, name: str, form: str) -> Path:
        """Return what the program wrote, once it is found to be a file of allowed size."""
        if not path.is_file():
            folder_instead = f" but a folder: expected {form}" if path.is_dir() else ""
            raise self._error(
                f"the program succeeded but wrote no file to {{{name}}}{folder_instead}"
            )
        self._check_output(path.parent)
        return path

    def _filled(
        self, setting: str, request: Request, folder: Path, out: str = _RELEASE
    ) -> list[str]:
        """Fill in the placeholders of a setting; other braces (of awk, of JSON) stay."""
        values: dict[str, object] = {
            "train": folder / supervisor.TRAIN,
            "out": folder / out,
            "n": request.size,
            "nominal": request.nominal,
            "epsilon": budget(request.epsilon),
            "delta": repr(request.delta),
            "seed": program_seed(request.seed),
            "python": executable,
        }
        if self.score:
            values["model"] = folder / _MODEL
        if setting == "score":
            values |= {"score_texts": folder / _SCORE_TEXTS, "scores": folder / _SCORES}
        return [
            _PLACEHOLDER.sub(lambda blank: str(values.get(blank[1], blank[0])), word)
            for word in getattr(self, setting)
        ]

    def _kept(self, request: Request, folder: Path) -> str:
        """Keep what a failed call was given and has written, if asked for; say where."""
        if not (kept := os.environ.get(KEEP_FAILED)):
            return ""
        call = f"epsilon-{budget(request.epsilon)}-seed-{program_seed(request.seed)}"
        place = Path(kept, call)
        refuse_links(place, Path(kept).parent)
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        for name in ("stderr", _RELEASE, _SCORE_TEXTS, _SCORES):
            if (folder / name).is_file():
                shutil.copyfile(folder / name, place / name)
        train = place / supervisor.TRAIN
        write_private(train, dump_training(request.records, persons=request.persons))
        calls = [self._filled("argv", request, place, "again.jsonl")]
        if (folder / _SCORE_TEXTS).is_file():
            calls.append(self._filled("score", request, place))
        variables = {**_caches(place), "TMPDIR": str(place)}
        stated = [f"{name}={value}" for name, value in variables.items() if name not in self.env]
        again = [f"cd {shlex.quote(str(self.cwd))}"]
        if self.score:
            again.append(f"mkdir -p {shlex.quote(str(place / _MODEL))}")
        again += [f"env {shlex.join([*stated, *argv])}" for argv in calls]
        write_private(place / "again.sh", f"{' && '.join(again)}\n".encode())
        return f"; confidential: {place} has its training file; again.sh there repeats the call"

    def _run(
        self, argv: Sequence[str], folder: Path, training: bytes, secret: Sequence[Record]
    ) -> None:
        """Run a program to its end; what it complains of is shown without the `secret` records."""
        notes = folder / "stderr"
        with notes.open("ab") as stderr:
            try:
                process = subprocess.Popen(
                    self._supervised(argv, folder),
                    cwd=self.cwd,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=stderr,
                    env=self._environment(folder),
                    start_new_session=True,
                )
            except OSError as error:
                raise self._error(f"the program cannot be started ({error.strerror})") from None
            try:
                note_program(folder, process.pid)
                _send(process, training)
                code = self._await(process, folder)
            finally:
                error_number = _end(process)
        if error_number:
            why = OSError(int(error_number), os.strerror(int(error_number)))
            if why.errno == errno.ENOSPC:
                raise cannot_write(folder, why)
            raise self._error(f"the program cannot be started ({why.strerror})")
        if code:
            raise self._error(f"{_ending(code)}; {_complaint(notes, secret)}", self._hint)

    def _supervised(self, argv: Sequence[str], folder: Path) -> list[str]:
        """Return the words that start the program under a supervisor, which outlives no run."""
        script, memory = str(supervisor.__file__), round((self.memory or 0) * _GIB)
        words = [script, str(os.getpid()), str(folder), str(memory), *argv]
        return [sys.executable, "-I", "-S", *words]

    def _environment(self, folder: Path) -> dict[str, str]:
        """Return what the program may know: a key that it was not promised stays here."""
        passed_on = {
            name: value
            for name, value in os.environ.items()
            if name in PASSED_ON or name in self.env or name.startswith("LC_")
        }
        return {**_caches(folder), **passed_on, "TMPDIR": str(folder)}

    def _await(self, process: subprocess.Popen[bytes], folder: Path) -> int:
        end = time.monotonic() + self.timeout
        while True:
            left = end - time.monotonic()
            with contextlib.suppress(subprocess.TimeoutExpired):
                return process.wait(max(0.0, min(left, _LOOK_EVERY)))
            if time.monotonic() >= end:
                raise self._error(
                    f"no release within {self.timeout:g} s: it was stopped", "raise timeout"
                )
            self._check_output(folder)

    def _check_output(self, folder: Path) -> None:
        for name, what in ((_RELEASE, "release"), ("stderr", "stderr"), (_SCORES, "scores")):
            with contextlib.suppress(FileNotFoundError):
                if (folder / name).stat().st_size > self.output * _GIB:
                    larger = "are" if name == _SCORES else "is"
                    raise self._error(
                        f"its {what} {larger} larger than {self.output:g} GiB", "raise output"
                    )

    @property
    def _hint(self) -> str | None:
        return None if self.memory is None else f"its limit is memory = {self.memory:g} GiB"

    @property
    def _who(self) -> str:
        return f"command {Path(self.argv[0]).name.strip('{}')}"

    def _error(self, what: str, remedy: str | None = None) -> GeneratorError:
        return GeneratorError(what, self._who, remedy)


def _caches(folder: Path) -> dict[str, str]:
    """Return where libraries are to keep what they derive from private records: in its folder.

    Models and tokens are looked for where they were: programs work offline with what was
    downloaded before.
    """
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    hub = Path(os.environ.get("HF_HOME") or cache / "huggingface")
    models = {
        "HF_HUB_CACHE": hub / "hub",
        "HF_TOKEN_PATH": hub / "token",
        "TORCH_HOME": cache / "torch",
    }
    return {
        "XDG_CACHE_HOME": str(folder / "cache"),
        "HF_DATASETS_CACHE": str(folder / "cache/datasets"),
        **{name: os.environ.get(name) or str(path) for name, path in models.items()},
    }


def _resolved(base: Path, word: str, *, program: bool) -> str:
    """Return the path of a word that names something beside the spec, else the word.

    Links are not followed: the Python of a virtual environment is a link, and behind it the
    packages of the environment are gone.
    """
    if not word or word.startswith("-") or _PLACEHOLDER.search(word):
        return word
    path = base / word
    exists = _is(path, "file") or (_is(path, "dir") and not program)
    return str(path.absolute()) if exists else word


def _by_content(word: str) -> str | list[str]:
    """Return what a word means wherever it lies: a file is its content, a folder its name."""
    path = Path(word)
    if content := file_hash(path):
        return [path.name, content]
    return path.name if path.is_absolute() and _is(path, "dir") else word


def _is(path: Path, kind: str) -> bool:
    try:
        return path.is_file() if kind == "file" else path.is_dir()
    except (OSError, ValueError):  # too long for a name, or no name at all: a program text
        return False


def _send(process: subprocess.Popen[bytes], training: bytes) -> None:
    """Give the supervisor the training file; one that has ended already says why."""
    assert process.stdin is not None
    with contextlib.suppress(BrokenPipeError), process.stdin as pipe:
        pipe.write(training)


def _end(process: subprocess.Popen[bytes]) -> bytes:
    """End the program with all that it started; return what its supervisor said."""
    process.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(_GRACE)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    assert process.stdout is not None
    with process:
        return process.stdout.read().strip()


def _ending(code: int) -> str:
    if code > 0:
        return f"the program failed with exit code {code}"
    try:
        return f"the program was killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"the program was killed by signal {-code}"


def _complaint(notes: Path, records: Sequence[Record]) -> str:
    """Say what a program wrote to stderr: how much, and what only if the user asks for it."""
    if not os.environ.get(SHOW_STDERR):
        with notes.open("rb") as file:
            lines = sum(bool(line.strip()) for line in file)
        if not lines:
            return "its stderr is empty"
        return f"its stderr has {lines:,} line{'s' * (lines != 1)} (--show-stderr shows the last)"
    with notes.open("rb") as file:
        file.seek(max(0, notes.stat().st_size - _TAIL))
        stderr_tail = file.read().decode(errors="replace")
    kept, secret = redact(stderr_tail, records)
    held = f" ({secret} lines that quote training text are not shown)" if secret else ""
    if not kept:
        return f"its stderr shows nothing{held}"
    return f"its stderr ends: {' | '.join(kept[-_SHOWN_LINES:])}{held}"
