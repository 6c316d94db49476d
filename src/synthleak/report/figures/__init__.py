"""Figures: declared once, interactive in the page, SVG, PNG and PDF on paper.

For a page, `cell_figures(results, cell)` and `study_figures(tables)` of `all_figures` give figures;
`page.runtime_style()` goes into a style element, `page.runtime_script()` into a script element, and
for each figure the page calls `synthleakFigure(element, spec)` with `figure.for_page()`.
"""
