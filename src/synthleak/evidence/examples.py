"""A look at a handful of texts, for examples and for trying out a new family."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from synthleak.encoders.encoder import Vectors
from synthleak.evidence.family import Look
from synthleak.evidence.observation import Floats, Observation, Targets


def glance(look: Look, targets: Sequence[str], texts: Sequence[str]) -> Floats:
    """Let the function of a family look at a few texts; rounded for reading.

    To a family that needs vectors, a text of numbers is its own vector.

    >>> glance(lambda targets, observation: observation.vectors, [], ["0.5 1"])
    array([[0.5, 1. ]])
    """
    return look(Targets(targets, own_vectors), Observation(texts, own_vectors)).round(3)


def own_vectors(texts: Sequence[str]) -> Vectors:
    """Read each text as the numbers of its vector."""
    return np.array([[float(number) for number in text.split()] for text in texts], np.float32)
