"""Steering: a frozen model is steered towards the private texts by noised vectors (EPSVec)."""
