"""Engines: run units of work, report progress, retry.

Plug-in authors import from here: `@engines.place(name, version=1)` registers an engine.
"""

from synthleak.core.engine.engine import Engine, engines

__all__ = ["Engine", "engines"]
