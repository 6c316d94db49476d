"""Room 7: figures, with what they are worth (METHOD §7, §8)."""
