"""Transformer blocks: multi-head attention, positions, key-value cache."""
