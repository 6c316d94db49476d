"""Encoders: text in, vectors out (METHOD §2)."""
