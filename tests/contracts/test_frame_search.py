"""The contract of every search over frames with every guide: chunks, padding, batching, full width, invalid input."""

import math
from importlib import import_module
from inspect import isabstract
from pkgutil import iter_modules

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.decoding.frames.test_prefix_beam import emit, guides

import seqloom.decoding.frames
from seqloom.decoding.frames.best_path import BestPath
from seqloom.decoding.frames.frame_search import FrameSearch, Guide, Transcript
from seqloom.decoding.frames.prefix_beam import PrefixBeam
from seqloom.kernels.ctc.naive import sequence_log_probs

pytestmark = pytest.mark.sampled(3)

V = 4
EVERY_SEARCH: list[FrameSearch] = [
    BestPath(),
    PrefixBeam(),
    PrefixBeam(size=1),
    PrefixBeam(size=6, nbest=3),
    PrefixBeam(size=8, nbest=8, per_node=2, token_threshold=0.05, threshold=6.0),
    PrefixBeam(size=6, nbest=2, lag=4),
]
CASES = [
    pytest.param(search, name, id=f"{search.name}{number}-{name}")  # type: ignore[attr-defined]
    for number, search in enumerate(EVERY_SEARCH)
    for name in (guides() if not isinstance(search, BestPath) else ["none"])
]
EVERY_CASE = pytest.mark.parametrize(("search", "name"), CASES)
STREAMS = pytest.mark.parametrize(("search", "name"), [case for case in CASES if case.values[1] != "rescored"])


def classes() -> set[type[FrameSearch]]:
    modules = [
        import_module(f"seqloom.decoding.frames.{entry.name}")
        for entry in iter_modules(seqloom.decoding.frames.__path__)
    ]
    values = [value for module in modules for value in vars(module).values() if isinstance(value, type)]
    return {value for value in values if issubclass(value, FrameSearch) and not isabstract(value)}


def test_every_search_is_tested() -> None:
    assert classes() == {type(search) for search in EVERY_SEARCH}


def whole(search: FrameSearch, frames: torch.Tensor, guide: Guide) -> list[Transcript]:
    return search(frames[None], torch.tensor([len(frames)]), guide=guide)[0]


@STREAMS
@settings(deadline=None, max_examples=5)
@given(data=st.data())
def test_chunks_match_the_whole(search: FrameSearch, name: str, data: st.DataObject) -> None:
    guide = guides()[name]
    frames = emit(
        data.draw(st.integers(0, 99)), data.draw(st.integers(0, 40)), V, data.draw(st.sampled_from([0.3, 2.0]))
    )
    cuts = sorted(data.draw(st.lists(st.integers(0, len(frames)), max_size=6)))
    stream = search.stream(vocab_size=V, guide=guide)
    before = stream.stable()
    for start, end in zip([0, *cuts], [*cuts, len(frames)], strict=True):
        stream.feed(frames[start:end] if start % 2 else frames[start:end].numpy())
        stable, best = stream.stable(), stream.best()
        assert stable.tokens[: len(before.tokens)] == before.tokens
        assert stable.words[: len(before.words)] == before.words
        for transcript in filter(None, (stable, best)):
            check_alignment(transcript, end)
        assert ([best] if best else []) == whole(search, frames[:end], guide)[:1]
        before = stable
    hypotheses = stream.finish()
    assert hypotheses == whole(search, frames, guide)
    for one in hypotheses:
        assert one.tokens[: len(before.tokens)] == before.tokens or one.words[: len(before.words)] == before.words
    with pytest.raises(ValueError, match="finished"):
        stream.feed(frames)


def check_alignment(one: Transcript, length: int) -> None:
    """Every token has its frames, in order and without overlap."""
    assert len(one.frames) == len(one.tokens)
    assert len(one.spans) == len(one.words)
    last = -1
    for token, before, (start, end) in zip(one.tokens, [-1, *one.tokens], one.frames, strict=False):
        assert last + (token == before) < start <= end < length
        last = end
    starts, ends = {start for start, _ in one.frames}, {end for _, end in one.frames}
    assert all(start in starts and end in ends for start, end in one.spans)


@EVERY_CASE
def test_padding_and_the_batch_do_not_matter(search: FrameSearch, name: str) -> None:
    guide = guides()[name]
    rows = [emit(seed, length, V) for seed, length in enumerate([9, 0, 30, 17, 1])]
    padded = torch.full((5, 33, V), math.nan, dtype=torch.float64)
    for row, frames in zip(padded, rows, strict=True):
        row[: len(frames)] = frames
    lengths = torch.tensor([len(frames) for frames in rows])
    alone = [whole(search, frames, guide) for frames in rows]
    assert search(padded, lengths, guide=guide) == alone
    assert search(padded.flip(0), lengths.flip(0), guide=guide) == alone[::-1]
    assert search(padded[:0], lengths[:0], guide=guide) == []


@STREAMS
def test_edge_cases(search: FrameSearch, name: str) -> None:
    guide = guides()[name]
    (nothing,) = whole(search, torch.empty(0, V), guide)  # the empty transcript is the only one
    assert not nothing.tokens
    assert nothing.acoustic == 0
    assert whole(search, torch.full((3, V), -math.inf), guide) == []
    for wrong in (math.nan, math.inf):
        frames = emit(0, 5, V)
        frames[3, 2] = wrong
        with pytest.raises(ValueError, match=r"row 0, frame 3: token 2 has log-probability"):
            whole(search, frames, guide)
        stream = search.stream(vocab_size=V, guide=guide)
        stream.feed(frames[:2])
        with pytest.raises(ValueError, match=r"stream, frame 3: token 2 has log-probability"):
            stream.feed(frames[2:])
        stream.feed(emit(0, 5, V)[2:])
        assert stream.finish() == whole(search, emit(0, 5, V), guide)
    certain = torch.full((6, V), -math.inf)
    certain[torch.arange(6), torch.tensor([1, 0, 0, 1, 1, 0])] = 0
    hypotheses = whole(search, certain, guide)
    if name == "none":
        assert [one.tokens for one in hypotheses] == [[1, 1]]
        assert hypotheses[0].acoustic == 0
        assert hypotheses[0].frames == [(0, 0), (3, 4)]
    stream = search.stream(vocab_size=V, guide=guide)
    stream.feed(torch.full((2, V), -math.inf))
    assert stream.best() is None
    assert stream.stable().tokens == []
    assert stream.finish() == []


@pytest.mark.parametrize("search", EVERY_SEARCH, ids=lambda one: type(one).__name__)
def test_acoustic_scores_do_not_exceed_the_exact_ones(search: FrameSearch) -> None:
    for seed in range(6):
        frames = emit(seed, 5, V)
        truth = sequence_log_probs(frames.numpy())
        for one in whole(search, frames, Guide()):
            assert one.acoustic <= truth[tuple(one.tokens)] + 1e-10


@pytest.mark.parametrize("search", EVERY_SEARCH, ids=lambda one: type(one).__name__)
def test_invalid_arguments_are_explained(search: FrameSearch) -> None:
    frames, lengths = torch.zeros(2, 5, V), torch.tensor([5, 5])
    for wrong, sizes, message in (
        (frames[0], lengths, r"shape \(5, 4\)"),
        (frames.long(), lengths, "int64"),
        (frames, torch.tensor([5]), r"shape \(1,\)"),
        (frames, torch.tensor([5, 6]), "expected 0 to 5"),
        (frames, torch.tensor([-1, 5]), "from -1"),
        (frames, torch.tensor([1.0, 5.0]), "expected 2 integers"),
    ):
        with pytest.raises(ValueError, match=message):
            search(wrong, sizes)
    for blank in (-1, V):
        with pytest.raises(ValueError, match=f"blank is {blank}"):
            search(frames, lengths, blank=blank)
        with pytest.raises(ValueError, match=f"blank is {blank}"):
            search.stream(vocab_size=V, blank=blank)
    with pytest.raises(ValueError, match=r"shape \(5, 4\), expected \(T, 7\)"):
        search.stream(vocab_size=7).feed(frames[0])
