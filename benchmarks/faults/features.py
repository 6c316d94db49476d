"""Malformed settings, options and files of what is newer than readers and specs.

Lists of release sizes and looks, stated mechanisms, kinds of canaries, shares and series of a
check, commitments, cards, sign-offs and SARIF, and what else is typed about a finished audit.
"""

from __future__ import annotations

import json
import random
import tempfile
from collections.abc import Callable
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from malformed import (
    BYTES,
    DATA,
    RUN,
    TOML,
    Case,
    Files,
    Surface,
    _changed,
    json_value,
    jsonl,
    rows,
    sides,
    spec,
)

NUMBERS = (
    *("1", "2", "3", "5", "10", "100", "0", "-1", "0.5", "0.0625", "0.25", "0.999", "1.0", "1e-9"),
    *("1e308", "nan", "inf", "-inf", "9" * 19, "9" * 4000, "true", '"auto"', '"3"', '""', "[]"),
    *("[3]", "{}", "0x7", "1_0", "'half'", '"\\u001b[2J"'),
)
KEYS = (
    *("mu", "sigma", "rate", "steps", "noise", "epsilon", "kind", "name", "\x1b[2J", "", "a.b"),
    *("size", "prefix", "words", "marks", "path", "seed", "n", "min", "weight"),
)
SETTINGS = (
    *("release_size", "looks", "instances", "records", "rounds", "candidates", "adjacency", "unit"),
    *("max_records", "share_releases", "auxiliary", "references", "design"),
)
PLACES = (
    *("out/page{}", "out/results/page{}", "out/store/page{}", "out", ".", "", "/dev/null"),
    *("/dev/full{}", "/proc/page{}", "out/cells.csv", "out/manifest.json", "x" * 300 + "{}"),
    *("s.toml", "d.jsonl", "out/a\nb{}", "out/\x1b[2J{}", "out/é 日{}"),
    *("out/results/cells.csv", "out/report.html", "out/page", "out/page.exe"),
)
WORDS = (
    *(
        "r0",
        "r7",
        "some",
        "some/echo",
        "some/echo/inf",
        "all",
        "",
        "nothing",
        "\x1b[2J",
        "r" * 5000,
    ),
    *("-1", "0", "3", "9" * 30, "nan", "1e999", "inf", "[", "*", "..", "/", "a\nb", "日本", "0.5"),
    *(
        "auc",
        "cos",
        "ngram/8",
        "../../etc",
        "cells",
        "some/echo/nan",
        "main",
        "roc",
        "A. O\nfficer",
    ),
    *("<script>", "=1+1", "|", "0" * 64, "-x", "--", "@file", "svg", "leak_found", "auc > 0.5"),
)


def table(rng: random.Random) -> str:
    """Return a TOML table of few settings."""
    return ", ".join(
        f"{json.dumps(rng.choice(KEYS))} = {rng.choice(NUMBERS)}" for _ in range(rng.randint(0, 4))
    )


def listed(rng: random.Random) -> str:
    """Return a TOML list of numbers that rise, or of what looks like them."""
    if rng.random() < 0.5:
        values = [str(n) for n in sorted(rng.sample(range(1, 30), rng.randint(1, 3)))]
        if rng.random() < 0.3:
            values[rng.randrange(len(values))] = rng.choice(NUMBERS)
        return f"[{', '.join(values)}]"
    some = rng.choice([NUMBERS[:14], NUMBERS])
    return f"[{', '.join(rng.choice(some) for _ in range(rng.choice([0, 1, 2, 3, 3, 40, 2000])))}]"


def game_case(rng: random.Random) -> Case:
    """Set the lists of a game, what a program states of its noise, or further families."""
    generator = rng.choice(['kind = "echo"', 'kind = "ngram"\nepsilon = [inf, 2]'])
    data = spec(DATA.format("jsonl", "d.jsonl"), generator).decode()
    what = rng.choice(["game", "game", "game", "mechanism", "also", "analyses", "model", "canary"])
    if what == "game":
        for key in rng.choice([["release_size"], ["looks", "instances"], rng.sample(SETTINGS, 2)]):
            value = listed(rng) if rng.random() < 0.7 else rng.choice(TOML)
            value = rng.choice(["8", "20", value]) if key == "instances" else value
            lines = [line for line in data.split("\n") if not line.startswith(f"{key} ")]
            lines.insert(lines.index("[game]") + 1, f"{key} = {value}")
            data = "\n".join(lines)
    elif what == "mechanism":
        events = ", ".join(f"{{{table(rng)}}}" for _ in range(rng.choice([1, 1, 2, 50])))
        stated = rng.choice([f"[{events}]", f"{{{table(rng)}}}", listed(rng)])
        program = 'kind = "command"\nargv = ["sh", "-c", "head -n 10 {train} > {out}"]'
        generator = f"{program}\nprivate = true\nepsilon = [{rng.choice(['2', '9', *NUMBERS])}]"
        if rng.random() < 0.5:
            stated = f"{{{rng.choice(['mu', 'sigma'])} = {rng.choice(NUMBERS)}, {table(rng)}}}"
            stated = rng.choice(["{mu = 0.5}", stated]).replace(", }", "}")
        data = spec(DATA.format("jsonl", "d.jsonl"), f"{generator}\nmechanism = {stated}").decode()
    elif what == "also":
        kinds = ["coverage", "rates", "style", "marker", "lm", "nothing", "cos"]
        also = f'{{kind = "{rng.choice(kinds)}", {table(rng)}}}'.replace(", }", "}")
        data = data.replace('families = ["cos"]', f'families = ["cos"]\nalso = [{also}]')
    elif what == "analyses":
        data += f"\n[analyses]\nredraws = {rng.choice([*NUMBERS, *TOML])}\n"
    elif what == "model":
        data = data.replace("[evidence]", f"[evidence]\nmodel = {rng.choice(NUMBERS)}")
    else:
        pool = f'name = "c"\nrule = "canary"\nsize = 4\n{rng.choice(CANARY)} = '
        pool += rng.choice([listed(rng), rng.choice(NUMBERS), f"{{{table(rng)}}}"])
        data = spec(DATA.format("jsonl", "d.jsonl"), generator, pool).decode()
    argv = rng.choice([RUN, RUN, ["plan", "show", "s.toml"], ["corpus", "s.toml"]])
    files: Files = {
        "s.toml": data.encode("utf-8", "surrogatepass"),
        "d.jsonl": jsonl(rows(60)),
    }
    return Case(f"new: {argv[0]}: {what}", files, argv)


CANARY = ("mark", "marks", "kind", "kinds", "prefix", "words", "size", "auxiliary", "seed")


def share_case(rng: random.Random) -> Case:
    """Check parts of a release, a series, or a stated mechanism."""
    parts = sides()
    files: Files = {f"{side}.jsonl": jsonl(records) for side, records in parts.items()}
    argv = ["check", "--members", "members.jsonl", "--holdout", "holdout.jsonl"]
    many = rng.choice([1, 1, 2, 3, 9])
    for number in range(many):
        data = jsonl(parts["release"][number:])
        if rng.random() < 0.2:
            _, data = _changed(rng, data, [json_value, *BYTES])
        files[f"r{number}.jsonl"] = data
        argv += ["--release", rng.choice([f"r{number}.jsonl"] * 9 + ["r0.jsonl"])]
    argv += ["--random-split", "--out", "out", "--encoder", "hashing", "--workers", "1", "-q"]
    if rng.random() < 0.5:
        shares = rng.choice([",", ", ", ";", " "]).join(rng.choices(NUMBERS, k=rng.randint(1, 4)))
        argv += ["--sizes", rng.choice([shares, "0.5", "0.25,0.5", "0.3,0.6,0.9", "1", "1,1", ","])]
    if rng.random() < 0.5:
        argv += ["--series"]
    if rng.random() < 0.4:
        stated = "; ".join(
            f"{rng.choice(KEYS)}={rng.choice(NUMBERS)}" for _ in range(rng.randint(1, 3))
        )
        epsilon = rng.choice(["3", "9", rng.choice(NUMBERS)])
        argv += ["--epsilon", epsilon, "--mechanism", rng.choice([stated, "mu=1", "mu=0.5"])]
    if rng.random() < 0.4:
        argv += ["--summary", _place(rng, rng.choice([".sarif", ".xml", ".md", ".json"]))]
    if rng.random() < 0.3:
        argv += ["--pool", f"all: {rng.choice(KEYS)}={rng.choice(NUMBERS)}"]
    return Case(f"new: check of {many}", files, _typed(argv))


def mark_case(rng: random.Random) -> Case:
    """Write canaries of kinds that there are, and of others."""
    argv = ["canaries", "--data", "d.jsonl", "--out", "out", "--size", rng.choice(["4", "6", "60"])]
    kinds = (*("text", "character", "words", "style", "labels", "length") * 3, *WORDS)
    for _ in range(rng.choice([1, 1, 2, 5])):
        argv += ["--kind", rng.choice(kinds)]
    made = rows(rng.choice([8, 60, 150]))
    if rng.random() < 0.3:
        for row in made:
            row["text"] = rng.choice(["", " ", "日本語", "\u202e", "a" * 5000]) + row["text"][:30]
    return Case("new: canaries", {"d.jsonl": jsonl(made)}, _typed(argv))


@cache
def finished() -> Files:
    """Return a finished audit that was committed to; its records stay where the spec says."""
    import synthleak
    from synthleak.core.runtime import Runtime

    home = Path(tempfile.mkdtemp(prefix="audit-", dir=Path(tempfile.gettempdir()).parent))
    (home / "d.jsonl").write_bytes(jsonl(rows(60)))
    (home / "s.toml").write_bytes(spec(DATA.format("jsonl", "d.jsonl")))
    synthleak.commit(home / "s.toml", home / "filed.json", gate="auc > 2")
    run = {"committed": home / "filed.json", "runtime": Runtime(workers=1)}
    synthleak.run(home / "s.toml", home / "out", **run, progress=False)
    return {
        **{
            path.relative_to(home).as_posix(): path.read_bytes()
            for path in sorted(home.rglob("*"))
            if path.is_file()
        },
        "where": str(home).encode(),
    }


def commitment_case(rng: random.Random) -> Case:
    """Change a commitment, with the hash of what it says or without."""
    files = dict(finished())
    filed = files["filed.json"]
    assert isinstance(filed, bytes)
    how, data = _changed(rng, filed.replace(b"\n", b""), [json_value] * 8 + BYTES)
    forged = rng.random() < 0.5
    if forged:
        content = json.loads(filed)
        key = rng.choice([*content, "more"])
        values: list[Any] = [None, True, 0, -1, 2**70, 1e308, "", "x", "0" * 64, [], {}, [[]]]
        values += ["\x1b[2J", "auc > 3", "leak_found", "nothing < 1", "(" * 4000 + "auc", "\ud800"]
        values += ["2026-11-19T00:00:00Z", "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-12:00"]
        content[key] = rng.choice(values)
        how, data = f"{key} forged", _hashed(content)
    place = rng.choice(["filed.json", "out/commitment.json"])
    given = rng.choice([["--committed", "filed.json"], ["--committed", rng.choice(WORDS)], []])
    argv = rng.choice(
        [
            *([["verify", "out", *given]] * 3),
            ["run", "s.toml", "--out", "out", "--workers", "1", "-q", "--committed", "filed.json"],
            ["report", "out", "--sign-off", "out/signed.md"],
            ["verify", "out", "--signed", "filed.json"],
        ]
    )
    return Case(f"new: {argv[0]}: {how}", {**files, place: data}, _typed(argv), gate=True)


def _hashed(content: dict[str, Any]) -> bytes:
    """Return a commitment with the hash of what it says now."""
    said = {key: value for key, value in content.items() if key != "hash"}
    if isinstance(time := said.get("committed"), str):
        said["committed"] = time.replace("Z", "+00:00")
    written = json.dumps(["commitment", said], sort_keys=True, separators=(",", ":"))
    digest = sha256(written.encode("utf-8", "surrogatepass")).hexdigest()
    return json.dumps({"hash": digest, **content} | {"hash": digest}).encode()


def reading_case(rng: random.Random) -> Case:
    """Type odd words and places after commands that read a finished audit."""
    word, place = partial_of(rng, WORDS), lambda *ends: _place(rng, rng.choice(ends))
    argv = rng.choice(
        [
            ["report", "out", "--card", place(".md", ".json", ".txt")],
            ["report", "out", "--card", place(".md", ".json", ".json")],
            ["report", "out", "--summary", place(".sarif", ".xml", ".md", ".SARIF")],
            ["report", "out", "--sign-off", place(".html", ".md", ".pdf"), "--by", word()],
            ["report", "out", "--fail-if", word(), "--summary", place(".sarif")],
            ["report", "out", "--out", place(".html")],
            ["explain", "out", word(), "--cell", word()],
            ["explain", "out", "r7", "--cell", word(), "--json"],
            ["analyse", "out", "--only", word(), "--workers", "1", "-q"],
            ["tables", "out", "--only", word(), "--format", rng.choice(["csv", "md", "latex"])],
            ["figures", "out", "--list", "--width", word()],
            ["compare", "out", "out", "--out", place(".html", ".txt")],
            ["verify", "out", "--replay", word(), "--draw", word()],
            ["verify", "out", "--signed", word()],
            ["plan", "power", "s.toml", "--auc", word(), "--power", word(), "-q"],
            ["plan", "commit", "s.toml", "--fail-if", word(), "--out", place(".json")],
            ["split", "d.jsonl", "--out", "out/split", "--holdout", word(), "--reference", word()],
            ["adjudicate", "out", "--list"],
            ["status", "out", "--json"],
            ["status", word()],
        ]
    )
    files = dict(finished())
    if rng.random() < 0.25:
        name = rng.choice([name for name in files if name.startswith("out/results/")])
        content = files[name]
        assert isinstance(content, bytes)
        _, files[name] = _changed(rng, content, BYTES)
    return Case(f"new: {' '.join(argv[:3])[:40]!r}", files, _typed(argv), gate=True)


def partial_of(rng: random.Random, words: tuple[str, ...]) -> Callable[[], str]:
    """Return what draws a word."""
    return lambda: rng.choice(words)


def _place(rng: random.Random, ending: str) -> str:
    return rng.choice(PLACES).replace("{}", ending)


def _typed(argv: list[str]) -> list[str]:
    """Return words that a shell could pass on: without NUL, and encoded."""
    return [word.replace("\0", "").encode("utf-8", "replace").decode() for word in argv]


SURFACES: list[Surface] = [
    *((game_case, 0.3), (share_case, 0.2), (mark_case, 0.1)),
    *((commitment_case, 0.2), (reading_case, 0.2)),
]
