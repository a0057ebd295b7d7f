"""Tagging: a label, or numbers, for each word or frame of a sequence."""

from seqloom.tasks.tag.settings import Learned
from seqloom.tasks.tag.tag import Tag

__all__ = ["Learned", "Tag"]
