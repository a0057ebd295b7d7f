"""Compiled loops over arrays: recurrent layers, decoder steps, CTC, beam search, word vectors."""
