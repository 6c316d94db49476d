"""Steering: a frozen model pushed towards the private texts by noised vectors (EPSVec)."""
