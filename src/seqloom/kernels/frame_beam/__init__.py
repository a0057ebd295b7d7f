"""Beam search over CTC frames, with or without a lexicon, and n-gram look-up."""
