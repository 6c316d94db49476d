"""Figures: declared once, interactive in the page, SVG, PNG and PDF on paper.

`all_figures` gives them. In a page `runtime_style()` goes into a style element, `runtime_script()`
into a script element, and for each figure the page calls `synthleakFigure(element, spec)` with
`figure.for_page()`.
"""
