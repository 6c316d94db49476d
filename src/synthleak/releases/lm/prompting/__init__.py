"""Asking a language model for texts: prompts, drawing, votes, and what is not a text at all."""
