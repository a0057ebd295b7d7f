"""What it costs to decide before the end: word errors of a stream on simulated speech (python -m seqloom.bench.lag)."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch

from seqloom import terminal
from seqloom.bench import emissions
from seqloom.decoding.frames.frame_search import Guide
from seqloom.decoding.frames.language_models import NGramLanguage
from seqloom.decoding.frames.lexicon import Lexicon
from seqloom.decoding.frames.prefix_beam import PrefixBeam
from seqloom.metrics.transcripts import error_rate
from seqloom.models.ngram.kneser_ney import estimate

LAGS = (0, 100, 50, 30, 20, 10)


class Scene(NamedTuple):
    """Words, who says them, and what is known of them."""

    words: list[str]
    speaker: emissions.Speaker
    guides: dict[str, Guide]


def scene(*, words: int, sentences: int) -> Scene:
    names, speaker = emissions.words(words), emissions.Speaker(words)
    lexicon = Lexicon([(name, emissions.spell(name)) for name in names], separator=emissions.SEPARATOR)
    ngram = estimate(speaker.corpus(sentences), order=3, start=words, end=words + 1, vocabulary=words + 2)
    fluent = Guide(lexicon, NGramLanguage(ngram, numbers=np.arange(words)), weight=0.8, bonus=1.0)
    return Scene(names, speaker, {"lexicon": Guide(lexicon), "lexicon and 3-gram": fluent})


def errors(
    scene: Scene, guide: Guide, kind: emissions.Kind, *, lags: Sequence[int], count: int, frames: int
) -> list[float]:
    """The word error rate with each lag, on the same utterances."""
    said = emissions.utter(scene.speaker, scene.words, kind, count=count, frames=frames)
    heard, lengths = torch.from_numpy(said.logits).log_softmax(dim=-1), torch.full((count,), frames)
    found = []
    for lag in lags:
        best = [rows[0].words if rows else [] for rows in PrefixBeam(lag=lag)(heard, lengths, guide=guide)]
        told = error_rate(*([[scene.words[word] for word in one] for one in each] for each in (best, said.words)))
        found.append(float(told.errors.sum() / told.symbols.sum()))
    return found


def main() -> None:
    made, rows = scene(words=5000, sentences=20000), []
    for kind in (emissions.PEAKY, emissions.FLAT):
        for name, guide in made.guides.items():
            rates = errors(made, guide, kind, lags=LAGS, count=40, frames=1000)
            rows.append((f"{kind.name}, {name}", *(f"{100 * value:.1f}" for value in rates)))
    terminal.table(("word errors in %, by the lag in frames", *map(str, LAGS)), rows)


if __name__ == "__main__":
    main()
