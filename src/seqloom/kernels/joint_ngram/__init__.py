"""Joint n-gram models: the alignment of their training pairs, and the lattice of all outputs of a source."""
