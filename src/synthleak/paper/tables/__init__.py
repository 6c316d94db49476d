"""Tables in the layouts of the study, as CSV, Markdown and LaTeX: `synthleak tables`."""
