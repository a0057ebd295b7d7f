"""Joint n-gram models: the alignment of their training pairs, and the lattice of all outputs of a source."""

EPSILON = -1
"""Stands for no target token: as the label of an arc, and behind the tokens of a short chunk."""
