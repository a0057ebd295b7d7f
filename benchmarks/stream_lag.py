"""Word error rate of a CTC stream that commits to words after a fixed lag: ``python -m benchmarks.stream_lag``."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch

from benchmarks import simulated_speech
from benchmarks.simulated_speech import AcousticModel, SentenceGenerator
from seqloom import terminal
from seqloom.decoding.frames.frame_search import Guide
from seqloom.decoding.frames.language_models import NGramLM
from seqloom.decoding.frames.lexicon import Lexicon
from seqloom.decoding.frames.prefix_beam import PrefixBeam
from seqloom.metrics.transcripts import error_rate
from seqloom.models.ngram.kneser_ney import estimate

LAGS = (0, 100, 50, 30, 20, 10)
"""In frames; 0 decides at the end only."""


class Setup(NamedTuple):
    """A vocabulary, a source of sentences, and what the search knows about them."""

    words: list[str]
    sentences: SentenceGenerator
    guides: dict[str, Guide]


def set_up(*, words: int, sentences: int) -> Setup:
    names, generator = simulated_speech.make_words(words), SentenceGenerator(words)
    lexicon = Lexicon([(name, simulated_speech.spell(name)) for name in names], separator=simulated_speech.SEPARATOR)
    ngram = estimate(generator.corpus(sentences), order=3, start=words, end=words + 1, vocabulary=words + 2)
    with_ngram = Guide(lexicon, NGramLM(ngram, vocabulary_ids=np.arange(words)), weight=0.8, word_score=1.0)
    return Setup(names, generator, {"lexicon": Guide(lexicon), "lexicon and 3-gram": with_ngram})


def error_rates(
    setup: Setup, guide: Guide, *, model: AcousticModel, lags: Sequence[int], count: int, frames: int
) -> list[float]:
    """The word error rate for each lag, on the same utterances."""
    utterances = simulated_speech.simulate(setup.sentences, setup.words, model=model, count=count, frames=frames)
    log_probabilities = torch.from_numpy(utterances.logits).log_softmax(dim=-1)
    lengths = torch.full((count,), frames)
    rates = []
    for lag in lags:
        nbest = PrefixBeam(lag=lag)(log_probabilities, lengths, guide=guide)
        decoded = [hypotheses[0].words if hypotheses else [] for hypotheses in nbest]
        texts = ([[setup.words[word] for word in words] for words in each] for each in (decoded, utterances.words))
        counts = error_rate(*texts)
        rates.append(float(counts.errors.sum() / counts.tokens.sum()))
    return rates


def main() -> None:
    setup, rows = set_up(words=5000, sentences=20000), []
    for model in (simulated_speech.PEAKY, simulated_speech.FLAT):
        for name, guide in setup.guides.items():
            rates = error_rates(setup, guide, model=model, lags=LAGS, count=40, frames=1000)
            rows.append((f"{model.name}, {name}", *(f"{100 * value:.1f}" for value in rates)))
    terminal.table(("WER in %, by lag in frames", *map(str, LAGS)), rows)


if __name__ == "__main__":
    main()
