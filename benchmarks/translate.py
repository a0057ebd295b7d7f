"""Translation models compared with other libraries: training, generation, sampling, and the memory of beam search."""

import importlib
import sys
from collections.abc import Iterator, Mapping
from functools import partial
from importlib.metadata import version
from itertools import pairwise
from typing import NamedTuple

import torch

from benchmarks import child_process
from benchmarks.measure import Call, Result, Timing, compare_costs, compare_rates, interleave
from benchmarks.peers import ctranslate2, seqloom_models, torch_nn
from benchmarks.peers.translation import PAD, Batch, Peer, Sizes, random_batches, random_sources, updates
from benchmarks.recurrent import peak
from benchmarks.report import count_threads
from seqloom.comparison import trial

SIZES = Sizes()
ARCHITECTURES = {"transformer": "Transformer", "recurrent": "bi-LSTM and LSTM with attention"}
SEARCHES = {1: "greedy", 5: "beam 5"}
ROWS = (1, 32)
LENGTH = 40
SAMPLED, WORDS, HIDDEN = 500, 10_000, 650
BEAM_SIZES = (1, 2, 4, 8, 16, 32)

TRAINING_GOAL, GENERATION_GOAL, CTRANSLATE2_GOAL, SAMPLING_GOAL = 1.3, 1.5, 1.0, 3.0
LINEAR_GOAL = 0.9
"""Memory extrapolated linearly from half the beam size, divided by the memory measured: 1 where growth is linear."""

SLOW = 3.0
"""A peer that takes this many times as long as the fastest peer is timed only once."""

MEMORY = "import sys; from benchmarks import translate; print(translate.beam_memory(int(sys.argv[1])))"


class Library(NamedTuple):
    """An optional peer library."""

    name: str
    package: str  # name of its distribution


LIBRARIES = {
    "transformers": Library("HF transformers", "transformers"),
    "opennmt": Library("OpenNMT-py", "OpenNMT-py"),
    "joeynmt": Library("JoeyNMT", "joeynmt"),
}
"""By the file in benchmarks/peers that defines its ``transformer`` and ``recurrent`` models."""


def installed_peers(architecture: str, sizes: Sizes) -> dict[str, Peer]:
    """Models of the peers that can be imported; the others are reported on stderr."""
    torch.manual_seed(1)
    peers: dict[str, Peer] = {"plain PyTorch": getattr(torch_nn, architecture)(sizes)}
    for file, library in LIBRARIES.items():
        try:
            module = importlib.import_module(f"benchmarks.peers.{file}")
        except ImportError as error:
            print(f"Not compared with {library.name}: {error}", file=sys.stderr)
            continue
        torch.manual_seed(1)
        if hasattr(module, architecture):
            peers[f"{library.name} {version(library.package)}"] = getattr(module, architecture)(sizes)
    return peers


def measure(*, quick: bool) -> Iterator[Result]:
    """Training with all threads; generation and sampling with one thread and with all."""
    threads = torch.get_num_threads()
    repetitions = 3 if quick else 9
    for architecture in ARCHITECTURES:
        torch.manual_seed(1)
        models: dict[str, Peer] = {
            "ours": getattr(seqloom_models, architecture)(SIZES),
            **installed_peers(architecture, SIZES),
        }
        batches = random_batches(SIZES, count=1 if quick else 3)
        yield from training(architecture, models, batches=batches, threads=threads, repetitions=repetitions)
        thread_counts = [threads] if quick else sorted({1, threads})
        yield from generation(architecture, models, thread_counts=thread_counts, repetitions=repetitions)
    for count in sorted({1, threads}):
        yield from sampling(count, repetitions=repetitions)
    if not quick:
        yield from memory()


def training(
    architecture: str, models: Mapping[str, Peer], *, batches: list[Batch], threads: int, repetitions: int
) -> Iterator[Result]:
    """Target tokens per second; each call makes one update per batch."""
    loops = {name: updates(model, batches) for name, model in models.items()}
    limit = peak(threads) / operations(architecture, SIZES, batches)
    torch.set_num_threads(threads)
    timings = time_models({name: partial(next, loop) for name, loop in loops.items()}, repetitions=repetitions)
    tokens = sum(batch.tokens for batch in batches)
    case = f"{ARCHITECTURES[architecture]}: training"
    yield from compare_peers(case, tokens, timings=timings, threads=threads, goal=TRAINING_GOAL, limit=limit)


def operations(architecture: str, sizes: Sizes, batches: list[Batch]) -> float:
    """Floating-point operations per target token in the matrix products of training, without padding."""
    _, width, _, layers, inner, *_ = sizes
    square = width * width
    if architecture == "transformer":
        source = layers * (4 * square + 2 * width * inner + 2 * square)  # self-attention, feed-forward, cross-attention
        target = layers * (4 * square + 2 * square + 2 * width * inner)
    else:
        source = 2 * 4 * 2 * square
        target = 4 * 2 * square + 2 * square + 3 * square  # cell, query, output of attention
    target += width * sizes.vocabulary
    share = sum(int(batch.lengths.sum()) for batch in batches) / sum(batch.tokens for batch in batches)
    return 3 * 2 * (share * source + target)  # forward, and backward to inputs and weights


def generation(
    architecture: str, models: Mapping[str, Peer], *, thread_counts: list[int], repetitions: int
) -> Iterator[Result]:
    """Tokens of the best translations per second, including the encoder."""
    with_ctranslate2 = architecture == "transformer" and ctranslate2.installed()
    for rows in ROWS:
        source, lengths = random_sources(SIZES, rows=rows)
        for beam_size, search in SEARCHES.items():
            case = f"{ARCHITECTURES[architecture]}: {search}, batch {rows}"
            calls = {
                name: partial(model.generate, source, lengths, beam_size=beam_size, length=LENGTH)
                for name, model in models.items()
            }
            ours: dict[int, Timing] = {}
            for threads in thread_counts:
                torch.set_num_threads(threads)
                timings = time_models(calls, repetitions=repetitions)
                ours[threads] = timings["ours"]
                yield from compare_peers(case, rows * LENGTH, timings=timings, threads=threads, goal=GENERATION_GOAL)
            if with_ctranslate2:
                sentences = [[int(word) for word in row if word != PAD] for row in source]
                yield compare_ctranslate2(case, ours, sentences=sentences, beam_size=beam_size, repetitions=repetitions)
    if architecture == "transformer" and not with_ctranslate2:
        print("Not compared with CTranslate2: No module named 'ctranslate2'", file=sys.stderr)


def compare_ctranslate2(
    case: str, ours: Mapping[int, Timing], *, sentences: list[list[int]], beam_size: int, repetitions: int
) -> Result:
    """Compare with CTranslate2, each with the number of threads that is fastest for it."""
    theirs = {
        count: ctranslate2.measure(
            SIZES[:5], sentences, beam_size=beam_size, length=LENGTH, threads=count, repetitions=repetitions
        )
        for count in sorted({1, max(ours)})
    }
    our_threads, their_threads = (min(timings, key=lambda count: timings[count].median) for timings in (ours, theirs))
    name = f"{ctranslate2.name()}, {count_threads(their_threads)}"
    timings = {"ours": ours[our_threads], name: theirs[their_threads]}
    tokens = len(sentences) * LENGTH
    (result,) = compare_peers(case, tokens, timings=timings, threads=our_threads, goal=CTRANSLATE2_GOAL)
    return result


def sampling(threads: int, *, repetitions: int) -> Iterator[Result]:
    """A language model of two LSTM layers, sampling one text."""
    torch.set_num_threads(threads)
    torch.manual_seed(1)
    calls: dict[str, Call] = {
        "ours": partial(seqloom_models.LanguageModel(WORDS, HIDDEN).sample, SAMPLED),
        "a loop over nn.LSTM": partial(torch_nn.LanguageModel(WORDS, HIDDEN).eval().sample, SAMPLED),
    }
    timings = interleave(calls, repetitions=repetitions, warm_up=1)
    case = f"LSTM 2 × {HIDDEN}, {WORDS:,} words: sampling {SAMPLED} tokens"
    yield from compare_peers(case, SAMPLED, timings=timings, threads=threads, goal=SAMPLING_GOAL)


def memory() -> Iterator[Result]:
    """Memory that beam search adds at its peak, compared with linear growth; each size in a process of its own."""
    measured = {size: child_process.run(MEMORY, size) for size in BEAM_SIZES}
    for small, large in pairwise(BEAM_SIZES):
        yield compare_costs(
            f"Transformer: memory at beam size {large}, batch {ROWS[-1]}",
            threads=1,
            unit="MB",
            ours=measured[large],
            peer=measured[small] * large / small,
            peer_name=f"{large // small} × beam size {small}",
            goal=LINEAR_GOAL,
        )


def beam_memory(size: int) -> float:
    """Megabytes that a beam search adds to a process after a greedy search."""
    torch.set_num_threads(1)
    torch.manual_seed(1)
    model = seqloom_models.transformer(SIZES)
    model.generate(*random_sources(SIZES, rows=1), beam_size=1, length=LENGTH)
    before = trial.peak_memory()
    model.generate(*random_sources(SIZES, rows=ROWS[-1]), beam_size=size, length=LENGTH)
    return trial.peak_memory() - before


def time_models(calls: Mapping[str, Call], *, repetitions: int) -> dict[str, Timing]:
    """Interleaved timings; peers that are slow in the first round are not timed again."""
    first = interleave(calls, repetitions=1, warm_up=1)
    fastest = min(timing.median for name, timing in first.items() if name != "ours")
    repeated = {name: call for name, call in calls.items() if name == "ours" or first[name].median <= SLOW * fastest}
    return first | interleave(repeated, repetitions=repetitions, warm_up=0)


def compare_peers(
    case: str,
    tokens: int,
    *,
    timings: Mapping[str, Timing],
    threads: int,
    goal: float,
    limit: float | None = None,
) -> Iterator[Result]:
    """Tokens per second compared with each peer; the goal applies to the fastest of them."""
    peers = {name: timing for name, timing in timings.items() if name != "ours"}
    fastest = min(peers, key=lambda name: peers[name].median)
    for name, timing in peers.items():
        yield compare_rates(
            case,
            threads,
            items=tokens,
            unit="tokens/s",
            ours=timings["ours"],
            peer=timing,
            peer_name=name,
            goal=goal if name == fastest else None,
            limit=limit,
        )
