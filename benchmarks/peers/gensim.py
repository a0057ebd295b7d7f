"""word2vec of gensim."""

from importlib.util import find_spec
from pathlib import Path
from typing import Any


def installed() -> bool:
    return find_spec("gensim") is not None


def build(
    text: Path,
    *,
    skip_gram: bool,
    size: int,
    window: int,
    negative: int,
    min_count: int,
    sample: float,
    learning_rate: float,
    min_learning_rate: float,
    threads: int,
    seed: int,
) -> Any:
    """A model with the vocabulary of a text, not trained yet."""
    from gensim.models import Word2Vec

    model = Word2Vec(
        vector_size=size,
        window=window,
        negative=negative,
        min_count=min_count,
        sample=sample,
        sg=int(skip_gram),
        workers=threads,
        alpha=learning_rate,
        min_alpha=min_learning_rate,
        seed=seed,
    )
    model.build_vocab(corpus_file=str(text))
    return model


def train(model: Any, epochs: int, **corpus: Any) -> None:
    """Train on ``corpus_file=`` or ``corpus_iterable=``."""
    model.train(total_words=model.corpus_total_words, total_examples=model.corpus_count, epochs=epochs, **corpus)
