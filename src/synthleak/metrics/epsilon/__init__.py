"""Tests of privacy claims by their whole curve, and lower bounds on ε (docs/method.md §8.9)."""
