"""Fast computations that several proxies share, each held to a slow oracle in the tests."""
