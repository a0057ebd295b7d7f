"""Experiments about claims of the literature, one per file."""
