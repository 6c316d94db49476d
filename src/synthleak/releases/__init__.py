"""Stage 4: generators make releases, each with its privacy claim (METHOD §5)."""
