"""CTC compared with other libraries: the loss, and beam search with and without a lexicon and a language model."""

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

from benchmarks import simulated_speech
from benchmarks.measure import Call, Result, compare_rates, compare_times, interleave
from benchmarks.peers import ctc_decoders
from benchmarks.peers.ctc_decoders import Decoded, Decoder
from benchmarks.simulated_speech import BLANK, FLAT, PEAKY, SEPARATOR, AcousticModel, SentenceGenerator, Utterances
from seqloom.decoding.frames.frame_search import Guide
from seqloom.decoding.frames.language_models import NGramLM
from seqloom.decoding.frames.lexicon import Lexicon
from seqloom.decoding.frames.prefix_beam import PrefixBeam
from seqloom.layers.ctc import ctc_loss
from seqloom.models.ngram.arpa import write_arpa
from seqloom.models.ngram.kneser_ney import estimate
from seqloom.models.ngram.ngram import NGram

LOSSES = ((300, 16, 29, 60), (1000, 16, 1000, 100))
"""Frames, batch size, vocabulary size, target length."""
MODELS = (PEAKY, FLAT)
SHAPES = {300: (8, 48), 1000: (3, 16)}
"""Number of utterances that are timed and that are scored, by their number of frames."""
BEAM_SIZE, TOKEN_THRESHOLD, LM_WEIGHT = 64, 0.001, 0.5
SMALL_LEXICON, LARGE_LEXICON, SENTENCES, ORDER = 20_000, 100_000, 20_000, 3

LOSS_GOAL, SEARCH_GOAL, THREADS_GOAL = 4.0, 5.0, 1.8
FRAME_LIMIT, PRUNED_FRAME_LIMIT = 5e5, 1.5e6
"""Estimates of the frames per second that a search without a lexicon could process at best."""


def measure(*, quick: bool) -> Iterator[Result]:
    """The loss with one and two threads, searches with one thread, then our search with two."""
    repetitions = 3 if quick else 7
    several = min(2, os.cpu_count() or 1)
    for threads, shape in product(sorted({1, several}), LOSSES):
        yield loss(shape, threads, repetitions=repetitions)
    torch.set_num_threads(1)
    for case in cases():
        for (frames, (timed, scored)), model in product(list(SHAPES.items())[: 1 if quick else None], MODELS):
            count = timed if quick else scored
            yield from searches(case, model, frames=frames, timed=timed, scored=count, repetitions=repetitions)
    if several > 1:
        yield from threaded_search(several, repetitions=repetitions)


def loss(shape: tuple[int, int, int, int], threads: int, *, repetitions: int) -> Result:
    """From logits to their gradient; each implementation gets its preferred layout (ours batch first)."""
    frames, rows, classes, size = shape
    torch.set_num_threads(threads)
    random = torch.Generator().manual_seed(1)
    logits = torch.randn(rows, frames, classes, generator=random)
    targets = torch.randint(1, classes, (rows, size), generator=random)
    lengths, sizes = torch.full((rows,), frames), torch.full((rows,), size)
    batch_first, time_first = logits.requires_grad_(), logits.detach().transpose(0, 1).contiguous().requires_grad_()

    def ours() -> Tensor:
        return torch.autograd.grad(ctc_loss(batch_first, lengths, targets, sizes).losses.mean(), batch_first)[0]

    def peer() -> Tensor:
        losses = functional.ctc_loss(time_first.log_softmax(dim=2), targets, lengths, sizes, reduction="none")
        return torch.autograd.grad(losses.mean(), time_first)[0]

    # Torch works with logarithms of some thousand in float32.
    if not torch.allclose(ours(), peer().transpose(0, 1), atol=1e-3):
        raise RuntimeError("the gradients of the two losses differ")
    timings = interleave({"ours": ours, "peer": peer}, repetitions=repetitions)
    return compare_times(
        f"loss, forward and backward (T={frames}, B={rows}, V={classes}, S={size})",
        threads,
        ours=timings["ours"],
        peer=timings["peer"],
        peer_name="torch's ctc_loss",
        goal=LOSS_GOAL,
    )


@cache
def vocabulary(count: int) -> list[str]:
    return simulated_speech.make_words(count)


@cache
def ngram() -> NGram:
    """An n-gram of simulated sentences over the small lexicon, followed by <unk>, start and end."""
    words = SMALL_LEXICON
    corpus = SentenceGenerator(words).corpus(SENTENCES)
    return estimate(corpus, order=ORDER, start=words + 1, end=words + 2, vocabulary=words + 3)


@cache
def guide(words: int, *, with_ngram: bool = False) -> Guide:
    """A lexicon with the n-gram, or with a uniform distribution over its words."""
    lexicon = Lexicon(((word, simulated_speech.spell(word)) for word in vocabulary(words)), separator=SEPARATOR)
    language = NGramLM(ngram(), vocabulary_ids=range(words), unknown=SMALL_LEXICON) if with_ngram else None
    return Guide(lexicon, language, weight=LM_WEIGHT, word_score=0.0 if with_ngram else -math.log(words))


def our_decoder(search: PrefixBeam, guide: Guide | None) -> Decoder:
    """Our search, with all utterances in one call."""

    def prepare(logits: NDArray[np.float32]) -> Callable[[], list[Decoded]]:
        log_probabilities = torch.from_numpy(logits).log_softmax(dim=2)
        lengths = torch.full((len(logits),), logits.shape[1])

        def run() -> list[Decoded]:
            nbest = search(log_probabilities, lengths, blank=BLANK, guide=guide)
            return [Decoded(hypotheses[0].tokens, hypotheses[0].words) for hypotheses in nbest]

        return run

    return prepare


class Case(NamedTuple):
    """One kind of search, with the peers that support it."""

    name: str
    ours: Decoder
    peers: dict[str, Decoder]
    words: bool = False  # scored by word errors
    limit: float | None = None  # frames per second


def cases() -> Iterator[Case]:
    plain = PrefixBeam(size=BEAM_SIZE)
    pruned = PrefixBeam(size=BEAM_SIZE, token_threshold=TOKEN_THRESHOLD)
    narrow = PrefixBeam(size=BEAM_SIZE, threshold=ctc_decoders.THRESHOLD)
    fast_ctc_decode = partial(ctc_decoders.fast_ctc_decode, size=BEAM_SIZE)
    flashlight = partial(ctc_decoders.flashlight, size=BEAM_SIZE)
    yield Case("no lexicon", our_decoder(plain, None), fast_ctc_decode(token_threshold=0.0), limit=FRAME_LIMIT)
    yield Case(
        f"no lexicon, token threshold {TOKEN_THRESHOLD}",
        our_decoder(pruned, None),
        fast_ctc_decode(token_threshold=TOKEN_THRESHOLD),
        limit=PRUNED_FRAME_LIMIT,
    )
    yield Case("no lexicon", our_decoder(narrow, None), flashlight(), limit=FRAME_LIMIT)
    for count in (SMALL_LEXICON, LARGE_LEXICON):
        peers = flashlight(lexicon=vocabulary(count), word_score=-math.log(count))
        yield Case(f"{count:,} words", our_decoder(narrow, guide(count)), peers, words=True)
    lexicon = vocabulary(SMALL_LEXICON)
    with tempfile.TemporaryDirectory() as folder:
        arpa = Path(folder) / "language.arpa"
        write_arpa(ngram(), [*lexicon, "<unk>", "<s>", "</s>"], arpa)
        peers = flashlight(lexicon=lexicon, arpa=arpa, weight=LM_WEIGHT)
    with_ngram = our_decoder(narrow, guide(SMALL_LEXICON, with_ngram=True))
    yield Case(f"{SMALL_LEXICON:,} words and {ORDER}-gram", with_ngram, peers, words=True)


def searches(
    case: Case, model: AcousticModel, *, frames: int, timed: int, scored: int, repetitions: int
) -> Iterator[Result]:
    """Speed on the first ``timed`` utterances, and quality on all ``scored`` ones."""
    utterances = _simulate(model, count=scored, frames=frames)
    calls: dict[str, Call] = {"ours": case.ours(utterances.logits[:timed])}
    calls |= {name: peer(utterances.logits[:timed]) for name, peer in case.peers.items()}
    timings = interleave(calls, repetitions=repetitions, warm_up=1)
    ours, name = case.ours(utterances.logits)(), f"{model.name}, T={frames}, beam {BEAM_SIZE}: {case.name}"
    for peer, decoder in case.peers.items():
        yield compare_rates(
            name,
            threads=1,
            items=timed,
            unit="utterances/s",
            ours=timings["ours"],
            peer=timings[peer],
            peer_name=peer,
            goal=SEARCH_GOAL,
            limit=None if case.limit is None else case.limit / frames,
        )
        theirs = decoder(utterances.logits)()
        yield quality(name, utterances, ours=ours, theirs=theirs, peer_name=peer, words=case.words)


def _simulate(model: AcousticModel, *, count: int, frames: int) -> Utterances:
    sentences = SentenceGenerator(SMALL_LEXICON)
    return simulated_speech.simulate(sentences, vocabulary(SMALL_LEXICON), model=model, count=count, frames=frames)


def quality(
    case: str,
    utterances: Utterances,
    *,
    ours: Sequence[Decoded],
    theirs: Sequence[Decoded],
    peer_name: str,
    words: bool,
) -> Result:
    """Word errors where there is a lexicon, otherwise the negative log-likelihood of the output.

    The goal is to be no worse; where there are few errors, a single one can decide.
    """
    own, other = (
        word_errors(utterances, decoded) if words else negative_log_likelihood(utterances, decoded)
        for decoded in (ours, theirs)
    )
    smoothing = int(words)  # there may be no error at all
    return Result(
        case=f"{case}, {'word errors' if words else 'negative log-likelihood'}",
        unit=f"of {sum(map(len, utterances.words))} words" if words else "nats per utterance",
        threads=1,
        ours=own,
        peer=other,
        peer_name=peer_name,
        ratio=(other + smoothing) / (own + smoothing),
        goal=1.0,
        limit=None,
        ours_best=own,
        peer_best=other,
    )


def word_errors(utterances: Utterances, decoded: Sequence[Decoded]) -> float:
    pairs = zip(decoded, utterances.words, strict=True)
    return float(sum(Levenshtein.distance(hypothesis.words, words) for hypothesis, words in pairs))


def negative_log_likelihood(utterances: Utterances, decoded: Sequence[Decoded]) -> float:
    """The mean over utterances, summed over all alignments, rounded to 0.001."""
    logits = torch.from_numpy(utterances.logits).double()
    targets = [torch.tensor(hypothesis.tokens, dtype=torch.int64) for hypothesis in decoded]
    losses = ctc_loss(logits, torch.full((len(logits),), logits.shape[1]), targets, blank=BLANK).losses
    return round(float(losses.mean()), 3)


def threaded_search(threads: int, *, repetitions: int) -> Iterator[Result]:
    """Our search on 16 utterances with several threads, compared with one thread."""
    frames = next(iter(SHAPES))
    utterances = _simulate(PEAKY, count=16, frames=frames)
    with_ngram = guide(SMALL_LEXICON, with_ngram=True)
    for name, known in (("no lexicon", None), (f"{SMALL_LEXICON:,} words and {ORDER}-gram", with_ngram)):
        search = our_decoder(PrefixBeam(size=BEAM_SIZE), known)(utterances.logits)

        def run(count: int, search: Call = search) -> object:
            torch.set_num_threads(count)
            return search()

        calls = {"one": partial(run, 1), "several": partial(run, threads)}
        timings = interleave(calls, repetitions=repetitions, warm_up=1)
        yield compare_times(
            f"{PEAKY.name}, T={frames}, beam {BEAM_SIZE}: {name}, batch of {len(utterances.words)}",
            threads,
            ours=timings["several"],
            peer=timings["one"],
            peer_name="ours, 1 thread",
            goal=THREADS_GOAL,
        )
