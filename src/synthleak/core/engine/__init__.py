"""Engines: run units of work, report progress, retry."""
