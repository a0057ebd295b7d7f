"""n-gram language models: estimation, look-up, ARPA files."""
