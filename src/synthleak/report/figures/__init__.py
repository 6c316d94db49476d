"""Figures: declared once, interactive in the page, SVG, PNG and PDF on paper.

For a page: `shelf.cell_figures(audit, cell)` and `shelf.study_figures(study)` return figures;
`page.runtime_style()` goes into a style element, `page.runtime_script()` into a script element, and
for each figure the page calls `synthleakFigure(element, spec)` with `figure.for_page()`.
"""
