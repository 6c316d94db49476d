"""What a notebook shows of an audit."""

from __future__ import annotations

from synthleak import Audit
from synthleak.corpus import Record


def test_notebook_shows_verdict_and_map_without_text(audit: Audit, private: list[Record]) -> None:
    html = audit._repr_html_()
    assert audit.results.cells[0].judged.words in html
    for row in audit.cells:
        assert f"<td>{row.auc:.3f}</td>" in html
    for figures in (one.measurements for one in audit.results.cells):
        assert figures.crossfit is not None and f"{figures.crossfit.value:.3f}" in html
    assert len(html) < 20_000
    assert "<img" not in html and "<script" not in html
    assert not [record.id for record in private if record.text in html]
