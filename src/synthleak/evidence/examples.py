"""Proxies on a few texts, for examples and for trying out a new family."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from synthleak.encoders.encoder import Vectors
from synthleak.evidence.family import Look
from synthleak.evidence.observation import Floats, Observation, Targets


def observe_texts(look: Look, targets: Sequence[str], texts: Sequence[str]) -> Floats:
    """Return the values of a family's function on a few texts, rounded for reading.

    A family that needs vectors reads a text of numbers as its vector.

    >>> observe_texts(lambda targets, observation: observation.vectors, [], ["0.5 1"])
    array([[0.5, 1. ]])
    """
    return look(Targets(targets, read_vectors), Observation(texts, read_vectors)).round(3)


def read_vectors(texts: Sequence[str]) -> Vectors:
    """Read each text as the numbers of its vector."""
    return np.array([[float(number) for number in text.split()] for text in texts], np.float32)
