"""Synthetic history: realistic, reproducible from a seed, in the form in which the store writes it."""
