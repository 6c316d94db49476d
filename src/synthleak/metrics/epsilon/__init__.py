"""Lower bounds on ε and the claims that they are compared with (METHOD §8)."""
