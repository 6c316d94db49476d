"""Engines: run units of work, report progress, retry.

Plug-in authors import from here: `@engines.place(name, version=1)` registers an engine, in a
package that is installed: a spec is checked before the files that it names are loaded.
"""

from synthleak.core.engine.engine import Engine, engines

__all__ = ["Engine", "engines"]
