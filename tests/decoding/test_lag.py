"""What a stream decides on before its end: it is told in time, stays told, and costs nothing where there is time."""

import numpy as np
import pytest
import torch
from tests.decoding.frames.test_prefix_beam import GUIDES, emit, guides, search

from benchmarks import simulated_speech
from benchmarks.simulated_speech import AcousticModel, SentenceGenerator
from seqloom.decoding.frames import node_arrays
from seqloom.decoding.frames.best_path import BestPath
from seqloom.decoding.frames.frame_search import FrameSearch, Guide, Transcript
from seqloom.decoding.frames.language_models import NGramLanguage
from seqloom.decoding.frames.lexicon import Lexicon
from seqloom.decoding.frames.prefix_beam import PrefixBeam
from seqloom.models.ngram.kneser_ney import estimate

TIME, LAG = 300, 20
WORDS = simulated_speech.make_words(300)
LEXICON = Lexicon([(word, simulated_speech.spell(word)) for word in WORDS], separator=simulated_speech.SEPARATOR)
NGRAM = estimate(
    SentenceGenerator(len(WORDS)).corpus(300), order=3, start=len(WORDS), end=len(WORDS) + 1, vocabulary=len(WORDS) + 2
)
SPEECH = {
    "symbols": Guide(),
    "words": Guide(LEXICON),
    "words-n-gram": Guide(LEXICON, NGramLanguage(NGRAM, numbers=np.arange(len(WORDS))), weight=0.8, bonus=1.0),
}


def speech(model: AcousticModel, seed: int) -> torch.Tensor:
    sentences = SentenceGenerator(len(WORDS), seed=seed)
    utterances = simulated_speech.simulate(sentences, WORDS, model=model, count=1, frames=TIME, seed=seed)
    return torch.from_numpy(utterances.logits[0]).log_softmax(-1)


def said(one: Transcript) -> list[int]:
    return one.words or one.symbols


def listen(beam: PrefixBeam, frames: torch.Tensor, guide: Guide) -> tuple[list[list[int]], Transcript]:
    """What was told after each frame, and in the end."""
    stream, told = beam.stream(symbols=frames.shape[1], guide=guide), []
    for frame in frames:
        stream.feed(frame[None])
        stable = stream.stable()
        told.append(stable.words if guide.lexicon else stable.symbols)
    return told, stream.finish()[0]


@pytest.mark.parametrize("model", [simulated_speech.PEAKY, simulated_speech.FLAT], ids=["peaky", "flat"])
@pytest.mark.parametrize("name", SPEECH)
def test_everything_is_told_in_time_and_stays_told(name: str, model: AcousticModel) -> None:
    guide, late = SPEECH[name], 0
    for seed in range(3):
        frames = speech(model, seed)
        told, final = listen(PrefixBeam(lag=LAG), frames, guide)
        for before, after in zip(told, [*told[1:], said(final)], strict=True):
            assert after[: len(before)] == before
        over = [end for _, end in final.spans] if guide.lexicon else [start for start, _ in final.frames]
        first = [
            next((time for time, some in enumerate(told) if len(some) > number), TIME) for number in range(len(over))
        ]
        # A word is over with the separator behind it. Where a symbol stands is not known better than by some frames.
        late = max(late, *(time - end for time, end in zip(first, over, strict=True)))
    assert late <= LAG + 2 * simulated_speech.FRAMES_PER_TOKEN


def test_without_a_lag_most_is_told_late() -> None:
    told, final = listen(PrefixBeam(), speech(simulated_speech.PEAKY, 0), Guide())
    assert len(told[TIME - 1]) < len(said(final)) / 2


@pytest.mark.parametrize("kind", [PrefixBeam(), PrefixBeam(lag=5), BestPath()])
def test_a_lag_below_zero_is_refused(kind: FrameSearch) -> None:
    with pytest.raises(ValueError, match="lag is -3, wanted 0 or more"):
        kind.stream(symbols=4, lag=-3)


@GUIDES
@pytest.mark.parametrize("best", [1, 3])
def test_a_lag_of_all_frames_changes_nothing(name: str, best: int) -> None:
    frames, guide = emit(4, 60, 4), guides()[name]
    wanted = search(PrefixBeam(size=6, nbest=best), frames, guide=guide)
    assert search(PrefixBeam(size=6, nbest=best, lag=60), frames, guide=guide) == wanted


@GUIDES
def test_forgetting_changes_nothing_that_is_decided(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    beam, guide = PrefixBeam(size=5, lag=7), guides()[name]
    cases = [emit(seed, 150, 4) for seed in range(3)]
    wanted = [search(beam, frames, guide=guide) for frames in cases]
    monkeypatch.setattr(node_arrays, "MIN_NODES", 8)
    assert [search(beam, frames, guide=guide) for frames in cases] == wanted


@GUIDES
def test_pieces_do_not_matter(name: str) -> None:
    beam, frames, guide = PrefixBeam(size=6, nbest=3, lag=5), emit(9, 90, 4), guides()[name]
    wanted = search(beam, frames, guide=guide)
    for size in (1, 7, 40):
        stream = beam.stream(symbols=4, guide=guide)
        for piece in frames.split(size):
            stream.feed(piece)
        assert stream.finish() == wanted
    assert listen(beam, frames, guide)[0][-1]
