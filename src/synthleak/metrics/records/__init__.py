"""Leakage record by record: V(x), profiles, origins, exposed members (docs/method.md §10, §11)."""
