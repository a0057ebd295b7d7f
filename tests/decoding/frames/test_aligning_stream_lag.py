"""Streams with a lag: tokens are committed in time, stay committed, and a long lag changes nothing."""

import numpy as np
import pytest
import torch
from tests.decoding.frames.test_prefix_beam import GUIDES, emit, guides, search

from benchmarks import simulated_speech
from benchmarks.simulated_speech import AcousticModel, SentenceGenerator
from seqloom.decoding.frames import lm_stream
from seqloom.decoding.frames.best_path import BestPath
from seqloom.decoding.frames.frame_search import FrameSearch, Guide, Transcript
from seqloom.decoding.frames.language_models import NGramLM
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
    "tokens": Guide(),
    "words": Guide(LEXICON),
    "words-n-gram": Guide(LEXICON, NGramLM(NGRAM, vocabulary_ids=np.arange(len(WORDS))), weight=0.8, word_score=1.0),
}


def speech(model: AcousticModel, seed: int) -> torch.Tensor:
    sentences = SentenceGenerator(len(WORDS), seed=seed)
    utterances = simulated_speech.simulate(sentences, WORDS, model=model, count=1, frames=TIME, seed=seed)
    return torch.from_numpy(utterances.logits[0]).log_softmax(-1)


def output(transcript: Transcript) -> list[int]:
    return transcript.words or transcript.tokens


def run_stream(beam: PrefixBeam, frames: torch.Tensor, guide: Guide) -> tuple[list[list[int]], Transcript]:
    """What is committed after each frame, and the final transcript."""
    stream, committed = beam.stream(vocab_size=frames.shape[1], guide=guide), []
    for frame in frames:
        stream.feed(frame[None])
        stable = stream.stable()
        committed.append(stable.words if guide.lexicon else stable.tokens)
    return committed, stream.finish()[0]


@pytest.mark.parametrize("model", [simulated_speech.PEAKY, simulated_speech.FLAT], ids=["peaky", "flat"])
@pytest.mark.parametrize("name", SPEECH)
def test_output_is_committed_in_time_and_stays(name: str, model: AcousticModel) -> None:
    guide, late = SPEECH[name], 0
    for seed in range(3):
        frames = speech(model, seed)
        committed, final = run_stream(PrefixBeam(lag=LAG), frames, guide)
        for before, after in zip(committed, [*committed[1:], output(final)], strict=True):
            assert after[: len(before)] == before
        ends = [end for _, end in final.spans] if guide.lexicon else [start for start, _ in final.frames]
        first = [
            next((time for time, output in enumerate(committed) if len(output) > number), TIME)
            for number in range(len(ends))
        ]
        # A word ends with the separator after it. The position of a token is uncertain by some frames.
        late = max(late, *(time - end for time, end in zip(first, ends, strict=True)))
    assert late <= LAG + 2 * simulated_speech.FRAMES_PER_TOKEN


def test_without_a_lag_most_is_committed_late() -> None:
    committed, final = run_stream(PrefixBeam(), speech(simulated_speech.PEAKY, 0), Guide())
    assert len(committed[TIME - 1]) < len(output(final)) / 2


@pytest.mark.parametrize("kind", [PrefixBeam(), PrefixBeam(lag=5), BestPath()])
def test_a_negative_lag_is_rejected(kind: FrameSearch) -> None:
    with pytest.raises(ValueError, match="lag is -3, expected at least 0"):
        kind.stream(vocab_size=4, lag=-3)


@GUIDES
@pytest.mark.parametrize("best", [1, 3])
def test_a_lag_of_all_frames_changes_nothing(name: str, best: int) -> None:
    frames, guide = emit(4, 60, 4), guides()[name]
    expected = search(PrefixBeam(size=6, nbest=best), frames, guide=guide)
    assert search(PrefixBeam(size=6, nbest=best, lag=60), frames, guide=guide) == expected


@GUIDES
def test_compacting_the_tree_changes_nothing(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    beam, guide = PrefixBeam(size=5, lag=7), guides()[name]
    cases = [emit(seed, 150, 4) for seed in range(3)]
    expected = [search(beam, frames, guide=guide) for frames in cases]
    monkeypatch.setattr(lm_stream, "MIN_NODES", 8)
    assert [search(beam, frames, guide=guide) for frames in cases] == expected


@GUIDES
def test_chunks_do_not_matter(name: str) -> None:
    beam, frames, guide = PrefixBeam(size=6, nbest=3, lag=5), emit(9, 90, 4), guides()[name]
    if guide.rescores:
        with pytest.raises(ValueError, match="a stream cannot reorder its transcripts"):
            beam.stream(vocab_size=4, guide=guide)
        return
    expected = search(beam, frames, guide=guide)
    for size in (1, 7, 40):
        stream = beam.stream(vocab_size=4, guide=guide)
        for chunk in frames.split(size):
            stream.feed(chunk)
        assert stream.finish() == expected
    assert run_stream(beam, frames, guide)[0][-1]
