"""Ours side by side with others, in one run."""
