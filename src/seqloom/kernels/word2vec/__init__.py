"""Training of word vectors, and word counts."""
