"""Steering: a frozen model is moved towards the private texts by noised vectors (EPSVec)."""
