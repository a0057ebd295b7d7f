"""Text to token numbers: tokenizers, vocabularies, word counts."""
