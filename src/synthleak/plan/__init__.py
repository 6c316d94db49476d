"""Stage 3: the game is drawn, once, before anything is spent (METHOD §4)."""
