"""What every search over frames promises, with every guide: pieces, padding, rows, full width, odd input."""

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


@EVERY_CASE
@settings(deadline=None, max_examples=5)
@given(data=st.data())
def test_pieces_are_the_whole(search: FrameSearch, name: str, data: st.DataObject) -> None:
    guide = guides()[name]
    frames = emit(
        data.draw(st.integers(0, 99)), data.draw(st.integers(0, 40)), V, data.draw(st.sampled_from([0.3, 2.0]))
    )
    cuts = sorted(data.draw(st.lists(st.integers(0, len(frames)), max_size=6)))
    stream = search.stream(symbols=V, guide=guide)
    before = stream.stable()
    for start, end in zip([0, *cuts], [*cuts, len(frames)], strict=True):
        stream.feed(frames[start:end] if start % 2 else frames[start:end].numpy())
        stable, best = stream.stable(), stream.best()
        assert stable.symbols[: len(before.symbols)] == before.symbols
        assert stable.words[: len(before.words)] == before.words
        for transcript in filter(None, (stable, best)):
            check_places(transcript, end)
        assert ([best] if best else []) == whole(search, frames[:end], guide)[:1]
        before = stable
    found = stream.finish()
    assert found == whole(search, frames, guide)
    for one in found:
        assert one.symbols[: len(before.symbols)] == before.symbols or one.words[: len(before.words)] == before.words
    with pytest.raises(ValueError, match="finished"):
        stream.feed(frames)


def check_places(one: Transcript, length: int) -> None:
    """Every symbol has its frames, one behind the other."""
    assert len(one.frames) == len(one.symbols)
    assert len(one.spans) == len(one.words)
    last = -1
    for symbol, before, (start, end) in zip(one.symbols, [-1, *one.symbols], one.frames, strict=False):
        assert last + (symbol == before) < start <= end < length
        last = end
    starts, ends = {start for start, _ in one.frames}, {end for _, end in one.frames}
    assert all(start in starts and end in ends for start, end in one.spans)


@EVERY_CASE
def test_padding_and_batch_mates_are_invisible(search: FrameSearch, name: str) -> None:
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


@EVERY_CASE
def test_a_search_is_defined_everywhere(search: FrameSearch, name: str) -> None:
    guide = guides()[name]
    (nothing,) = whole(search, torch.empty(0, V), guide)  # the empty transcript is the only one
    assert not nothing.symbols
    assert nothing.acoustic == 0
    assert whole(search, torch.full((3, V), -math.inf), guide) == []
    for wrong in (math.nan, math.inf):
        frames = emit(0, 5, V)
        frames[3, 2] = wrong
        with pytest.raises(ValueError, match=r"row 0, frame 3: symbol 2 has the log-probability"):
            whole(search, frames, guide)
        stream = search.stream(symbols=V, guide=guide)
        stream.feed(frames[:2])
        with pytest.raises(ValueError, match=r"stream, frame 3: symbol 2 has the log-probability"):
            stream.feed(frames[2:])
        stream.feed(emit(0, 5, V)[2:])
        assert stream.finish() == whole(search, emit(0, 5, V), guide)
    certain = torch.full((6, V), -math.inf)
    certain[torch.arange(6), torch.tensor([1, 0, 0, 1, 1, 0])] = 0
    found = whole(search, certain, guide)
    if name == "none":
        assert [one.symbols for one in found] == [[1, 1]]
        assert found[0].acoustic == 0
        assert found[0].frames == [(0, 0), (3, 4)]
    stream = search.stream(symbols=V, guide=guide)
    stream.feed(torch.full((2, V), -math.inf))
    assert stream.best() is None
    assert stream.stable().symbols == []
    assert stream.finish() == []


@pytest.mark.parametrize("search", EVERY_SEARCH, ids=lambda one: type(one).__name__)
def test_what_is_found_has_the_probability_that_it_says(search: FrameSearch) -> None:
    for seed in range(6):
        frames = emit(seed, 5, V)
        truth = sequence_log_probs(frames.numpy())
        for one in whole(search, frames, Guide()):
            assert one.acoustic <= truth[tuple(one.symbols)] + 1e-10


@pytest.mark.parametrize("search", EVERY_SEARCH, ids=lambda one: type(one).__name__)
def test_errors_say_what_was_found(search: FrameSearch) -> None:
    frames, lengths = torch.zeros(2, 5, V), torch.tensor([5, 5])
    for wrong, sizes, message in (
        (frames[0], lengths, r"shape \(5, 4\)"),
        (frames.long(), lengths, "int64"),
        (frames, torch.tensor([5]), r"shape \(1,\)"),
        (frames, torch.tensor([5, 6]), "wanted 0 to 5"),
        (frames, torch.tensor([-1, 5]), "from -1"),
        (frames, torch.tensor([1.0, 5.0]), "wanted 2 whole numbers"),
    ):
        with pytest.raises(ValueError, match=message):
            search(wrong, sizes)
    for blank in (-1, V):
        with pytest.raises(ValueError, match=f"blank is {blank}"):
            search(frames, lengths, blank=blank)
        with pytest.raises(ValueError, match=f"blank is {blank}"):
            search.stream(symbols=V, blank=blank)
    with pytest.raises(ValueError, match=r"shape \(5, 4\), wanted \(T, 7\)"):
        search.stream(symbols=7).feed(frames[0])
