"""Text to token ids: tokenizers, vocabularies, word counts."""
