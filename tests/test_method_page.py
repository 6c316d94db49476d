"""The pages on the method and its words: cited sections exist, tables agree with the code."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from synthleak.evidence import families

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGE = (DOCS / "method.md").read_text(encoding="utf-8")
GLOSSARY = (DOCS / "glossary.md").read_text(encoding="utf-8")

_NUMBER = r"\d+(?:\.\d+)?"
_RANGE = rf"§{_NUMBER}(?:\s*(?:–|-|to)\s*§?{_NUMBER})?"
CITATION = re.compile(
    # Line breaks within a docstring, a comment or a list stand between the words.
    rf"\bMETHOD(?:\.md)?[)\]]?[\s#>]*(?P<cited>{_RANGE}(?:[\s#>]*(?:,|;|and|or)[\s#>]*{_RANGE})*)",
    re.IGNORECASE,
)


def headings(text: str) -> list[str]:
    """Return the numbers of the sections of a page, in its order."""
    return re.findall(rf"^#+ §({_NUMBER}) ", text, flags=re.MULTILINE)


def cited(text: str) -> Iterator[str]:
    """Yield every section that a text cites; a range of whole sections stands for all of them."""
    for citation in CITATION.finditer(text):
        for part in re.findall(_RANGE, citation["cited"]):
            ends = re.findall(_NUMBER, part)
            yield from ends
            if len(ends) == 2 and all(end.isdigit() for end in ends):
                yield from map(str, range(int(ends[0]), int(ends[1])))


def sources() -> list[Path]:
    """Return the files that may cite the method, without this one."""
    found = [
        path
        for folder in ("src", "tests", "benchmarks", "docs", "studies")
        for path in (ROOT / folder).rglob("*")
        if path.suffix in (".py", ".md", ".toml", ".html")
    ]
    return sorted({*found, *ROOT.glob("*.md")} - {Path(__file__)})


def slug(heading: str) -> str:
    """Return the anchor that renderers of Markdown give a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


@pytest.mark.parametrize(
    ("text", "sections"),
    [
        ("(METHOD §8).", ["8"]),
        ("(METHOD §7, §8; design `cohort`)", ["7", "8"]),
        ("(METHOD\n    §6). A bigram", ["6"]),
        ("# METHOD\n# §5.1 and §5.2", ["5.1", "5.2"]),
        ("see docs/method.md §4.5", ["4.5"]),
        ("[the method](method.md) §3–§5", ["3", "5", "3", "4"]),
        ("method §1 to 3", ["1", "3", "1", "2"]),
        ("METHOD §8: 2.57 at 50/50, METHOD §10, k of S10", ["8", "10"]),
        ("the paper's §3, a method without a number", []),
    ],
)
def test_citations_are_recognised(text: str, sections: list[str]) -> None:
    assert list(cited(text)) == sections


def test_every_cited_section_exists() -> None:
    there = set(headings(PAGE))
    found = {
        path: sections
        for path in sources()
        if (sections := set(cited(path.read_text(encoding="utf-8"))))
    }
    missing = {
        str(path.relative_to(ROOT)): sorted(sections - there)
        for path, sections in found.items()
        if sections - there
    }
    assert not missing
    assert len(found) > 50, "the citations of the code are not recognised"


def test_sections_are_ordered_and_references_resolve() -> None:
    numbers = [tuple(map(int, number.split("."))) for number in headings(PAGE)]
    assert numbers == sorted(set(numbers))
    assert {(n,) for n in range(1, 13)} <= set(numbers)
    assert set(re.findall(rf"§({_NUMBER})", PAGE)) <= set(headings(PAGE))


def test_proxy_table_agrees_with_the_catalogue() -> None:
    section = PAGE.partition("\n## §6 ")[2].partition("\n## §7 ")[0]
    rows = [line.split("|") for line in section.splitlines() if line.startswith("| `")]
    written = [
        (proxy, family.strip(" `"), view.strip(), scale.strip())
        for _, family, proxies, view, scale, *_ in rows
        for proxy in re.findall(r"`(\w+)`", proxies)
    ]
    shipped = [
        (proxy.name, proxy.family, proxy.view, proxy.scale)
        for entry in families
        for proxy in entry.plugin.proxies
        if entry.plugin.order < 1000
    ]
    assert written == shipped
    assert len(written) == 32


def test_glossary_is_sorted_and_unique() -> None:
    words = re.findall(r"^### (.+)$", GLOSSARY, flags=re.MULTILINE)
    keys = [re.sub(r"\W+", " ", word).casefold() for word in words]
    assert len(words) > 40
    assert keys == sorted(set(keys))
    entries = re.split(r"^### .+$", GLOSSARY, flags=re.MULTILINE)[1:]
    assert all(entry.strip() for entry in entries)


@pytest.mark.parametrize("page", ["method.md", "glossary.md"])
def test_links_lead_somewhere(page: str) -> None:
    text = (DOCS / page).read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        path, _, anchor = target.partition("#")
        file = DOCS / path if path else DOCS / page
        assert file.exists(), target
        if anchor:
            titles = re.findall(r"^#+ (.+)$", file.read_text(encoding="utf-8"), flags=re.MULTILINE)
            assert anchor in map(slug, titles), target
