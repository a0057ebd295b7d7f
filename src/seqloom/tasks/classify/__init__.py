"""Classification and regression: one label, or numbers, for a whole sequence."""

from seqloom.tasks.classify.classify import Classify
from seqloom.tasks.classify.settings import Learned

__all__ = ["Classify", "Learned"]
