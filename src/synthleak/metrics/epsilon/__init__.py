"""Lower bounds on ε and the claims that they are compared with (docs/method.md §8)."""
