"""Attention for recurrent decoders: scores, soft, hard and local attention."""
