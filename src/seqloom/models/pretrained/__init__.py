"""Pretrained word vectors and language models as inputs of other tasks."""
