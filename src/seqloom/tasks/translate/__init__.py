"""Translation: one sequence of tokens to another, such as sentences, pronunciations, commands or dates."""

from seqloom.tasks.translate.scoring import Translation
from seqloom.tasks.translate.settings import Learned
from seqloom.tasks.translate.translate import Translate

__all__ = ["Learned", "Translate", "Translation"]
