"""Search over the frames of CTC models: best path, and prefix beam search with or without a lexicon."""
