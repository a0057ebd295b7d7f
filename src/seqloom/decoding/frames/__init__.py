"""Search over CTC frames: best path, prefix beam, lexicon."""
