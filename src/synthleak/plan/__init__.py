"""Stage 3: the game is drawn once, before any release is made (docs/method.md §4).

Plug-in authors import from here: `@designs.place(name, version=1)` registers a design.
"""

from synthleak.plan.plan import Baseline, Design, Plan, RecordSet, Trials, designs, draw_plan

__all__ = ["Baseline", "Design", "Plan", "RecordSet", "Trials", "designs", "draw_plan"]
