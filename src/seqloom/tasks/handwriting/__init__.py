"""Handwriting and drawings: pen strokes, which a model continues point by point."""

from seqloom.tasks.handwriting.handwriting import Handwriting

__all__ = ["Handwriting"]
