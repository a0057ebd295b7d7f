"""Joint n-gram models of short monotonic pairs, such as words and their pronunciations."""
