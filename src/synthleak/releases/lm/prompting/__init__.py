"""Prompting a language model: prompts, sampling, cleaning of answers, and noised votes."""
