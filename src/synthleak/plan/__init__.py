"""Stage 3: the game is drawn, once, before anything is spent (docs/method.md §4)."""
