"""Models in int8 compared with the same models in float32, and with CTranslate2 in int8."""

import copy
import sys
from collections.abc import Iterator
from functools import partial

import torch
from torch import Tensor, nn

from benchmarks.measure import Call, Result, Timing, compare_rates, interleave
from benchmarks.peers import ctranslate2, seqloom_models
from benchmarks.peers.translation import PAD, random_sources
from benchmarks.recurrent import Shape
from benchmarks.translate import HIDDEN, LENGTH, SAMPLED, SEARCHES, SIZES, WORDS
from seqloom.cells.lstm import LSTM
from seqloom.layers.quantization import round_weights, use_int8
from seqloom.layers.recurrent.recurrent import Recurrent

SHAPES = (Shape(100, 1, 256, 256), Shape(100, 32, 256, 256), Shape(50, 1, 512, 1024))
LAYER_GOAL, SAMPLING_GOAL, TRANSFORMER_GOAL, CTRANSLATE2_GOAL = 2.5, 2.2, 1.5, 1.0
TRANSLATIONS = ((1, 1), (5, 32))
"""Beam size and number of rows."""
FLOAT = "our float32"


def measure(*, quick: bool) -> Iterator[Result]:
    """Layers, sampling and translation, with one thread and with all."""
    threads = torch.get_num_threads()
    repetitions = 5 if quick else 15
    for count in [1] if quick else sorted({1, threads}):
        torch.set_num_threads(count)
        for shape in SHAPES:
            yield layer(shape, count, repetitions=repetitions)
        yield sampling(count, repetitions=repetitions)
        for beam_size, rows in TRANSLATIONS:
            yield from translation(beam_size, rows, count, repetitions=repetitions)
    if not ctranslate2.installed():
        print("Not compared with CTranslate2: No module named 'ctranslate2'", file=sys.stderr)


def quantized(module: nn.Module) -> nn.Module:
    """A copy in int8."""
    other = copy.deepcopy(module)
    round_weights(other)
    use_int8(other)
    return other


def layer(shape: Shape, threads: int, *, repetitions: int) -> Result:
    """An LSTM layer without gradients, called again and again."""
    torch.manual_seed(1)
    time, batch, input_size, hidden_size = shape
    in_float = Recurrent(LSTM(input_size, hidden_size)).eval()
    x = torch.randn(batch, time, input_size)
    times = 10 if batch == 1 else 1
    calls: dict[str, Call] = {
        FLOAT: partial(_run, in_float, x, times),
        "int8": partial(_run, quantized(in_float), x, times),
    }
    timings = interleave(calls, repetitions=repetitions)
    return compare_rates(
        f"LSTM in int8 {shape}",
        threads,
        items=times,
        unit="calls/s",
        ours=timings["int8"],
        peer=timings[FLOAT],
        peer_name=FLOAT,
        goal=LAYER_GOAL if batch == 1 else None,
    )


@torch.inference_mode()
def _run(module: nn.Module, x: Tensor, times: int) -> None:
    for _ in range(times):
        module(x)


def sampling(threads: int, *, repetitions: int) -> Result:
    """A language model of two LSTM layers, sampling one text."""
    torch.manual_seed(1)
    in_float = seqloom_models.LanguageModel(WORDS, HIDDEN)
    in_int8 = copy.copy(in_float)
    in_int8.model = quantized(in_float.model)  # type: ignore[assignment]
    calls: dict[str, Call] = {
        FLOAT: partial(in_float.sample, SAMPLED // 5),
        "int8": partial(in_int8.sample, SAMPLED // 5),
    }
    timings = interleave(calls, repetitions=repetitions, warm_up=1)
    case = f"LSTM 2 × {HIDDEN}, {WORDS:,} words: sampling in int8"
    return _rates(case, threads, SAMPLED // 5, timings["int8"], timings[FLOAT], FLOAT, SAMPLING_GOAL)


def translation(beam_size: int, rows: int, threads: int, *, repetitions: int) -> Iterator[Result]:
    """Tokens of the best translations of a Transformer per second, including the encoder."""
    torch.manual_seed(1)
    in_float = seqloom_models.transformer(SIZES)
    in_float.model.eval()
    in_int8 = copy.copy(in_float)
    in_int8.model = quantized(in_float.model)  # type: ignore[assignment]
    source, lengths = random_sources(SIZES, rows=rows)
    calls: dict[str, Call] = {
        name: partial(model.generate, source, lengths, beam_size=beam_size, length=LENGTH)
        for name, model in ((FLOAT, in_float), ("int8", in_int8))
    }
    timings = interleave(calls, repetitions=repetitions)
    case = f"Transformer in int8: {SEARCHES[beam_size]}, batch {rows}"
    tokens = rows * LENGTH
    yield _rates(case, threads, tokens, timings["int8"], timings[FLOAT], FLOAT, TRANSFORMER_GOAL)
    if ctranslate2.installed():
        sentences = [[int(word) for word in row if word != PAD] for row in source]
        theirs = ctranslate2.measure(
            SIZES[:5],
            sentences,
            beam_size=beam_size,
            length=LENGTH,
            threads=threads,
            repetitions=repetitions,
            compute_type="int8",
        )
        name = ctranslate2.name("int8")
        yield _rates(case, threads, tokens, timings["int8"], theirs, name, CTRANSLATE2_GOAL)


def _rates(case: str, threads: int, tokens: int, ours: Timing, peer: Timing, name: str, goal: float) -> Result:
    return compare_rates(case, threads, items=tokens, unit="tokens/s", ours=ours, peer=peer, peer_name=name, goal=goal)
