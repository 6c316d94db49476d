"""Stage 4: generators make releases, each with its privacy claim (docs/method.md §5)."""
