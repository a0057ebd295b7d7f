"""Translation beside other programs: training, generation, sampling, and the memory of a beam."""

import sys
from collections.abc import Iterator, Mapping
from functools import partial
from itertools import pairwise

import torch

from seqloom.bench import peers_ctranslate2, peers_seqloom, peers_torch, process
from seqloom.bench.measure import Contestant, Result, Timing, take_turns
from seqloom.bench.peers import PAD, Pairs, Peer, Sizes, find, pairs, sources, updates
from seqloom.bench.recurrent import peak
from seqloom.bench.show import show
from seqloom.compare import trial

SIZES = Sizes()
KINDS = {"transformer": "Transformer", "recurrent": "bi-LSTM and LSTM with attention"}
SEARCHES = {1: "greedy", 5: "beam 5"}
ROWS = (1, 32)
LENGTH = 40
SAMPLED, WORDS, HIDDEN = 500, 10_000, 650
WIDTHS = (1, 2, 4, 8, 16, 32)

TRAINING_GOAL, GENERATION_GOAL, CTRANSLATE2_GOAL, SAMPLING_GOAL = 1.3, 1.5, 1.0, 3.0
LINEAR_GOAL = 0.9
"""Twice the memory at half the width, over the memory: 1 where memory is proportional, more where it grows less."""

FAR_BEHIND = 3.0
"""Who takes so many times as long as the fastest peer is timed once only."""

MEMORY = "import sys; from seqloom.bench import translate; print(translate.beam_memory(int(sys.argv[1])))"


def main(*, quick: bool, as_json: bool) -> None:
    """Measure, and print a table or JSON."""
    show(measure(quick=quick), as_json=as_json)


def measure(*, quick: bool) -> Iterator[Result]:
    """Training with all threads; generation with one, and with all."""
    threads = torch.get_num_threads()
    repetitions = 3 if quick else 9
    for kind, title in KINDS.items():
        torch.manual_seed(1)
        contestants: dict[str, Peer] = {"ours": getattr(peers_seqloom, kind)(SIZES), **find(kind, SIZES)}
        batches = pairs(SIZES, count=1 if quick else 3)
        yield from training(kind, title, contestants, batches, threads=threads, repetitions=repetitions)
        counts = [threads] if quick else sorted({1, threads})
        yield from generation(kind, title, contestants, counts=counts, repetitions=repetitions)
    for count in sorted({1, threads}):
        yield from sampling(count, repetitions=repetitions)
    if not quick:
        yield from memory()


def training(
    kind: str, title: str, contestants: Mapping[str, Peer], batches: list[Pairs], *, threads: int, repetitions: int
) -> Iterator[Result]:
    """Symbols of the target in a second; each call is an update with each batch."""
    loops = {name: updates(peer, batches) for name, peer in contestants.items()}
    limit = peak(threads) / operations(kind, SIZES, batches)
    torch.set_num_threads(threads)
    timings = race({name: partial(next, loop) for name, loop in loops.items()}, repetitions=repetitions)
    tokens = sum(batch.tokens for batch in batches)
    yield from rates(f"{title}: training", tokens, timings, threads=threads, goal=TRAINING_GOAL, limit=limit)


def operations(kind: str, sizes: Sizes, batches: list[Pairs]) -> float:
    """Of the products that training cannot do without, for each symbol of the target; padding costs nothing."""
    _, width, _, layers, inner, *_ = sizes
    square = width * width
    if kind == "transformer":
        source = layers * (4 * square + 2 * width * inner + 2 * square)  # itself, the network, keys and values of it
        target = layers * (4 * square + 2 * square + 2 * width * inner)
    else:
        source = 2 * 4 * 2 * square
        target = 4 * 2 * square + 2 * square + 3 * square  # the cell, the query, the output of attention
    target += width * sizes.vocabulary
    share = sum(int(batch.lengths.sum()) for batch in batches) / sum(batch.tokens for batch in batches)
    return 3 * 2 * (share * source + target)  # forward, and backward to input and weights


def generation(
    kind: str, title: str, contestants: Mapping[str, Peer], *, counts: list[int], repetitions: int
) -> Iterator[Result]:
    """Symbols of the best translations in a second, the encoder included."""
    for rows in ROWS:
        source, lengths = sources(SIZES, rows=rows)
        for width, search in SEARCHES.items():
            case = f"{title}: {search}, batch {rows}"
            calls = {
                name: partial(peer.generate, source, lengths, width=width, length=LENGTH)
                for name, peer in contestants.items()
            }
            ours: dict[int, Timing] = {}
            for threads in counts:
                torch.set_num_threads(threads)
                timings = race(calls, repetitions=repetitions)
                ours[threads] = timings["ours"]
                yield from rates(case, rows * LENGTH, timings, threads=threads, goal=GENERATION_GOAL)
            if kind == "transformer" and peers_ctranslate2.installed():
                sentences = [[int(word) for word in row if word != PAD] for row in source]
                yield ctranslate2(case, sentences, width, ours, repetitions=repetitions)
    if kind == "transformer" and not peers_ctranslate2.installed():
        print("Not compared with CTranslate2: No module named 'ctranslate2'", file=sys.stderr)


def ctranslate2(
    case: str, sentences: list[list[int]], width: int, ours: Mapping[int, Timing], *, repetitions: int
) -> Result:
    """Each with the number of threads that suits it best."""
    shape, theirs = SIZES[:5], {}
    for count in sorted({1, max(ours)}):
        theirs[count] = peers_ctranslate2.measure(
            shape, sentences, width=width, length=LENGTH, threads=count, repetitions=repetitions
        )
    best, other = (min(timings, key=lambda count: timings[count].median) for timings in (ours, theirs))
    name = f"{peers_ctranslate2.name()}, {other} thread{'s' * (other > 1)}"
    timings = {"ours": ours[best], name: theirs[other]}
    (result,) = rates(case, len(sentences) * LENGTH, timings, threads=best, goal=CTRANSLATE2_GOAL)
    return result


def sampling(threads: int, *, repetitions: int) -> Iterator[Result]:
    """A language model of two LSTM layers, one text."""
    torch.set_num_threads(threads)
    torch.manual_seed(1)
    contestants: dict[str, Contestant] = {
        "ours": partial(peers_seqloom.LanguageModel(WORDS, HIDDEN).sample, SAMPLED),
        "a loop over nn.LSTM": partial(peers_torch.LanguageModel(WORDS, HIDDEN).eval().sample, SAMPLED),
    }
    timings = take_turns(contestants, repetitions=repetitions, warm_up=1)
    case = f"LSTM 2 × {HIDDEN}, {WORDS:,} words: sampling {SAMPLED}"
    yield from rates(case, SAMPLED, timings, threads=threads, goal=SAMPLING_GOAL)


def memory() -> Iterator[Result]:
    """How much a beam adds at its peak, from width to width; each in a process of its own."""
    found = {width: process.child(MEMORY, width) for width in WIDTHS}
    for narrow, wide in pairwise(WIDTHS):
        twice = found[narrow] * wide / narrow
        yield Result(
            case=f"Transformer: memory of a beam of {wide}, batch {ROWS[-1]}",
            unit="MB",
            threads=1,
            ours=found[wide],
            peer=twice,
            peer_name=f"{wide // narrow} × a beam of {narrow}",
            ratio=twice / found[wide],
            goal=LINEAR_GOAL,
            limit=None,
            ours_best=found[wide],
            peer_best=twice,
        )


def beam_memory(width: int) -> float:
    """Megabytes that a search adds to a process which has searched before, greedily."""
    torch.set_num_threads(1)
    torch.manual_seed(1)
    ours = peers_seqloom.transformer(SIZES)
    ours.generate(*sources(SIZES, rows=1), width=1, length=LENGTH)
    before = trial.peak()
    ours.generate(*sources(SIZES, rows=ROWS[-1]), width=width, length=LENGTH)
    return trial.peak() - before


def race(contestants: Mapping[str, Contestant], *, repetitions: int) -> dict[str, Timing]:
    """Contestants take turns; peers that are far behind after the first one go home."""
    first = take_turns(contestants, repetitions=1, warm_up=1)
    fastest = min(timing.median for name, timing in first.items() if name != "ours")
    staying = {
        name: contestant
        for name, contestant in contestants.items()
        if name == "ours" or first[name].median <= FAR_BEHIND * fastest
    }
    return first | take_turns(staying, repetitions=repetitions, warm_up=0)


def rates(
    case: str,
    tokens: int,
    timings: Mapping[str, Timing],
    *,
    threads: int,
    goal: float,
    limit: float | None = None,
) -> Iterator[Result]:
    """Symbols in a second against each peer; the goal is to beat the best of them."""
    own = timings["ours"]
    theirs = {name: timing for name, timing in timings.items() if name != "ours"}
    best = min(theirs, key=lambda name: theirs[name].median)
    for name, timing in theirs.items():
        yield Result(
            case=case,
            unit="tokens/s",
            threads=threads,
            ours=tokens / own.median,
            peer=tokens / timing.median,
            peer_name=name,
            ratio=timing.median / own.median,
            goal=goal if name == best else None,
            limit=limit,
            ours_best=tokens / own.minimum,
            peer_best=tokens / timing.minimum,
        )
