"""CTC beside other programs: the loss, and searches without and with a lexicon and a language model."""

import math
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from rapidfuzz.distance import Levenshtein
from torch import Tensor
from torch.nn import functional

from seqloom.bench import emissions, peers_ctc
from seqloom.bench.emissions import BLANK, FLAT, PEAKY, SEPARATOR, Kind, Speaker, Utterances
from seqloom.bench.measure import Contestant, Result, compare_times, take_turns
from seqloom.bench.peers_ctc import Found, Searcher
from seqloom.bench.show import show
from seqloom.decoding.frames.frame_search import Guide
from seqloom.decoding.frames.language_models import NGramLanguage
from seqloom.decoding.frames.lexicon import Lexicon
from seqloom.decoding.frames.prefix_beam import PrefixBeam
from seqloom.layers.ctc import ctc_loss
from seqloom.models.ngram.arpa import write_arpa
from seqloom.models.ngram.kneser_ney import estimate
from seqloom.models.ngram.ngram import NGram

LOSSES = ((300, 16, 29, 60), (1000, 16, 1000, 100))
"""Frames, rows, symbols, and symbols of the targets."""
KINDS = (PEAKY, FLAT)
SHAPES = {300: (8, 48), 1000: (3, 16)}
"""For each number of frames, how many utterances are timed, and how many are judged."""
SIZE, CUT, WEIGHT = 64, 0.001, 0.5
FEW, MANY, SENTENCES, ORDER = 20_000, 100_000, 20_000, 3

LOSS_GOAL, SEARCH_GOAL, THREADS_GOAL = 4.0, 5.0, 1.8
FRAMES, CUT_FRAMES = 5e5, 1.5e6
"""Frames in a second that a search without a lexicon could do at best: estimates."""


def main(*, quick: bool, as_json: bool) -> None:
    """Measure, and print a table or JSON."""
    show(measure(quick=quick), as_json=as_json)


def measure(*, quick: bool) -> Iterator[Result]:
    """Losses with one thread and with two, searches with one, then ours with two."""
    repetitions = 3 if quick else 7
    several = min(2, os.cpu_count() or 1)
    for threads, shape in product(sorted({1, several}), LOSSES):
        yield loss(shape, threads, repetitions=repetitions)
    torch.set_num_threads(1)
    for case in cases():
        for (frames, (timed, judged)), kind in product(list(SHAPES.items())[: 1 if quick else None], KINDS):
            count = timed if quick else judged
            yield from searches(case, kind, frames, timed=timed, judged=count, repetitions=repetitions)
    if several > 1:
        yield from side_by_side(several, repetitions=repetitions)


def loss(shape: tuple[int, int, int, int], threads: int, *, repetitions: int) -> Result:
    """From logits to their gradient, each contestant with its frames in the order that it wants."""
    frames, rows, symbols, size = shape
    torch.set_num_threads(threads)
    random = torch.Generator().manual_seed(1)
    logits = torch.randn(rows, frames, symbols, generator=random)
    targets = torch.randint(1, symbols, (rows, size), generator=random)
    lengths, sizes = torch.full((rows,), frames), torch.full((rows,), size)
    own, other = logits.requires_grad_(), logits.detach().transpose(0, 1).contiguous().requires_grad_()

    def ours() -> Tensor:
        return torch.autograd.grad(ctc_loss(own, lengths, targets, sizes).losses.mean(), own)[0]

    def peer() -> Tensor:
        losses = functional.ctc_loss(other.log_softmax(dim=2), targets, lengths, sizes, reduction="none")
        return torch.autograd.grad(losses.mean(), other)[0]

    if not torch.allclose(ours(), peer().transpose(0, 1), atol=1e-3):  # torch's comes from logarithms of some thousand
        raise RuntimeError("the gradients of the two losses differ")
    timings = take_turns({"ours": ours, "peer": peer}, repetitions=repetitions)
    case = f"loss, forward and backward, T {frames}, N {rows}, V {symbols}, S {size}"
    return compare_times(case, threads, timings["ours"], timings["peer"], "torch's ctc_loss", goal=LOSS_GOAL)


@cache
def vocabulary(count: int) -> list[str]:
    return emissions.words(count)


@cache
def language() -> NGram:
    """Of what a speaker says, as words of the smaller lexicon; behind them <unk>, start and end."""
    corpus = Speaker(FEW).corpus(SENTENCES)
    return estimate(corpus, order=ORDER, start=FEW + 1, end=FEW + 2, vocabulary=FEW + 3)


@cache
def guide(words: int, *, fluent: bool = False) -> Guide:
    """What ours knows: a lexicon, and a language model or that all words are alike."""
    lexicon = Lexicon(((word, emissions.spell(word)) for word in vocabulary(words)), separator=SEPARATOR)
    spoken = NGramLanguage(language(), numbers=range(words), unknown=FEW) if fluent else None
    return Guide(lexicon, spoken, weight=WEIGHT, bonus=0.0 if fluent else -math.log(words))


def ours(search: PrefixBeam, known: Guide | None) -> Searcher:
    """Our search, all utterances in one call."""

    def prepare(logits: NDArray[np.float32]) -> Callable[[], list[Found]]:
        log_probabilities = torch.from_numpy(logits).log_softmax(dim=2)
        lengths = torch.full((len(logits),), logits.shape[1])

        def run() -> list[Found]:
            found = search(log_probabilities, lengths, blank=BLANK, guide=known)
            return [Found(best[0].symbols, best[0].words) for best in found]

        return run

    return prepare


class Case(NamedTuple):
    """One setting of a search, with those who can do it."""

    name: str
    ours: Searcher
    peers: dict[str, Searcher]
    words: bool = False  # are found, and judged
    limit: float | None = None  # frames in a second


def cases() -> Iterator[Case]:
    """All settings, one after the other."""
    plain, cut = PrefixBeam(size=SIZE), PrefixBeam(size=SIZE, token_threshold=CUT)
    near = PrefixBeam(size=SIZE, threshold=peers_ctc.THRESHOLD)
    fast, flashlight = partial(peers_ctc.fast_ctc_decode, size=SIZE), partial(peers_ctc.flashlight, size=SIZE)
    few = vocabulary(FEW)
    yield Case("no lexicon", ours(plain, None), fast(cut=0.0), limit=FRAMES)
    yield Case(f"no lexicon, symbols above {CUT}", ours(cut, None), fast(cut=CUT), limit=CUT_FRAMES)
    yield Case("no lexicon", ours(near, None), flashlight(), limit=FRAMES)
    for count in (FEW, MANY):
        peers = flashlight(lexicon=vocabulary(count), bonus=-math.log(count))
        yield Case(f"{count:,} words", ours(near, guide(count)), peers, words=True)
    with tempfile.TemporaryDirectory() as folder:
        arpa = Path(folder) / "language.arpa"
        write_arpa(language(), [*few, "<unk>", "<s>", "</s>"], arpa)
        peers = flashlight(lexicon=few, arpa=arpa, weight=WEIGHT)
    yield Case(f"{FEW:,} words and {ORDER}-gram", ours(near, guide(FEW, fluent=True)), peers, words=True)


def searches(case: Case, kind: Kind, frames: int, *, timed: int, judged: int, repetitions: int) -> Iterator[Result]:
    """Utterances in a second, and how good what is found is; so many of them are timed and judged."""
    heard = emissions.utter(Speaker(FEW), vocabulary(FEW), kind, count=judged, frames=frames)
    contestants: dict[str, Contestant] = {"ours": case.ours(heard.logits[:timed])}
    contestants |= {name: peer(heard.logits[:timed]) for name, peer in case.peers.items()}
    timings = take_turns(contestants, repetitions=repetitions, warm_up=1)
    own, name = case.ours(heard.logits)(), f"{kind.name}, T {frames}, beam {SIZE}: {case.name}"
    for peer, search in case.peers.items():
        yield Result(
            case=name,
            unit="utterances/s",
            threads=1,
            ours=timed / timings["ours"].median,
            peer=timed / timings[peer].median,
            peer_name=peer,
            ratio=timings[peer].median / timings["ours"].median,
            goal=SEARCH_GOAL,
            limit=None if case.limit is None else case.limit / frames,
            ours_best=timed / timings["ours"].minimum,
            peer_best=timed / timings[peer].minimum,
        )
        yield quality(name, heard, own, search(heard.logits)(), peer, words=case.words)


def quality(
    case: str, heard: Utterances, own: Sequence[Found], other: Sequence[Found], peer: str, *, words: bool
) -> Result:
    """Wrong words where there is a lexicon, otherwise how improbable what was found is: the less the better.

    The goal is no worse; where there are few errors, a single one can tip it.
    """
    found = [word_errors(heard, each) if words else surprise(heard, each) for each in (own, other)]
    added = int(words)  # there may be no error at all
    return Result(
        case=f"{case}, {'word errors' if words else 'improbability'}",
        unit=f"of {sum(map(len, heard.words))} words" if words else "nats, all paths summed",
        threads=1,
        ours=found[0],
        peer=found[1],
        peer_name=peer,
        ratio=(found[1] + added) / (found[0] + added),
        goal=1.0,
        limit=None,
        ours_best=found[0],
        peer_best=found[1],
    )


def word_errors(heard: Utterances, found: Sequence[Found]) -> float:
    pairs = zip(found, heard.words, strict=True)
    return float(sum(Levenshtein.distance(each.words, words) for each, words in pairs))


def surprise(heard: Utterances, found: Sequence[Found]) -> float:
    """The mean over utterances, to a thousandth."""
    logits = torch.from_numpy(heard.logits).double()
    targets = [torch.tensor(each.symbols, dtype=torch.int64) for each in found]
    losses = ctc_loss(logits, torch.full((len(logits),), logits.shape[1]), targets, blank=BLANK).losses
    return round(float(losses.mean()), 3)


def side_by_side(threads: int, *, repetitions: int) -> Iterator[Result]:
    """Ours with several threads over ours with one, 16 utterances."""
    frames = next(iter(SHAPES))
    heard = emissions.utter(Speaker(FEW), vocabulary(FEW), PEAKY, count=16, frames=frames)
    for name, known in (("no lexicon", None), (f"{FEW:,} words and {ORDER}-gram", guide(FEW, fluent=True))):
        search = ours(PrefixBeam(size=SIZE), known)(heard.logits)

        def run(count: int, search: Contestant = search) -> object:
            torch.set_num_threads(count)
            return search()

        timings = take_turns(
            {"one": partial(run, 1), "several": partial(run, threads)}, repetitions=repetitions, warm_up=1
        )
        case = f"{PEAKY.name}, T {frames}, beam {SIZE}: {name}, batch of {len(heard.words)}"
        yield compare_times(case, threads, timings["several"], timings["one"], "ours, 1 thread", goal=THREADS_GOAL)
