"""Language modelling: the probability of the next token and of whole texts, text generation, hidden tokens."""

from seqloom.tasks.language_model.language_model import LanguageModel
from seqloom.tasks.language_model.loading import load_language_model
from seqloom.tasks.language_model.settings import Learned

__all__ = ["LanguageModel", "Learned", "load_language_model"]
