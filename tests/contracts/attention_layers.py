"""Every layer that attends to a source, and sources for them."""

from functools import cache

from tests.contracts.registry import HIDDEN, INPUT, cells, make_mask, noise, randomize

from seqloom.cells import GRU, LSTM
from seqloom.layers.attention.attention import Attention, AttentionMechanism
from seqloom.layers.attention.decoder_attention import BahdanauAttention, FixedContext, LuongAttention
from seqloom.layers.attention.hard import HardAttention
from seqloom.layers.attention.local import LocalAttention
from seqloom.layers.attention.projected import ProjectedAttention
from seqloom.layers.attention.sliding_window import SlidingWindow
from seqloom.layers.bridge import BridgedLayer
from seqloom.layers.build import recurrent
from seqloom.layers.layer import Layer, Memory
from seqloom.layers.recurrent.recurrent import Recurrent
from seqloom.layers.stack import Stack

SOURCE = 4  # width of the memory
ENCODER = recurrent("lstm", INPUT, SOURCE // 2, bidirectional=True)


def attentions(query_size: int) -> dict[str, AttentionMechanism]:
    mechanisms: dict[str, AttentionMechanism] = {
        score: Attention(query_size, SOURCE, score=score) for score in ("multiplicative", "single_layer", "additive")
    }
    if query_size == SOURCE:
        mechanisms |= {score: Attention(query_size, SOURCE, score=score) for score in ("dot", "scaled", "cosine")}
    return mechanisms | {
        "predictive-heads": ProjectedAttention(
            query_size, SOURCE, attention=LocalAttention(2, 2, window=1, predictive=True), heads=3, value_size=2
        ),
        "cosine-heads": ProjectedAttention(
            query_size, SOURCE, attention=Attention(3, 3, score="cosine"), heads=2, value_size=1
        ),
        "hard": HardAttention(query_size, SOURCE),
        "monotonic": LocalAttention(query_size, SOURCE, window=1),
        "predictive": LocalAttention(query_size, SOURCE, window=1, predictive=True),
    }


@cache
def layers() -> dict[str, Layer]:
    """Every layer that attends to a source: random weights, float64, eval mode; tests must not change them."""
    cases: dict[str, Layer] = {}
    for name, attention in attentions(INPUT).items():
        cases[f"luong-{name}"] = LuongAttention(attention, HIDDEN)
    for name, attention in attentions(HIDDEN).items():
        cases[f"bahdanau-{name}"] = BahdanauAttention(LSTM(INPUT + attention.context_size, HIDDEN), attention)
    cases["luong-plain"] = LuongAttention(
        ProjectedAttention(INPUT, SOURCE, attention=HardAttention(2, 2), value_size=3), 0
    )
    for name, make in cells().items():
        cases[f"bahdanau-{name}"] = BahdanauAttention(make(INPUT + SOURCE, HIDDEN), Attention(HIDDEN, SOURCE))
    cases["sliding-window"] = SlidingWindow(LSTM(INPUT + SOURCE, HIDDEN), SOURCE, components=2)
    for kind in FixedContext.KINDS:
        cases[f"fixed-{kind}"] = Stack([FixedContext(INPUT, SOURCE, kind=kind), Recurrent(GRU(INPUT + SOURCE, HIDDEN))])
    decoder = Stack(
        [
            BahdanauAttention(LSTM(INPUT + SOURCE, SOURCE), Attention(SOURCE, SOURCE, score="dot")),
            Recurrent(GRU(2 * SOURCE, HIDDEN)),
            LuongAttention(Attention(HIDDEN, SOURCE), HIDDEN),
        ]
    )
    cases["bridged-stack"] = BridgedLayer(decoder, ENCODER, memory_size=SOURCE)
    cases["bridged-copy"] = BridgedLayer(
        recurrent("lstm", INPUT, SOURCE, layers=2), ENCODER, memory_size=SOURCE, kind="copy"
    )
    for layer in cases.values():
        randomize(layer.eval())
    return cases


def memory(lengths: list[int], length: int, *, filling: float | None = None, grad: bool = False) -> Memory:
    """A memory with rows of these lengths, padded with zeros or with ``filling``."""
    mask = make_mask(lengths, length)
    values = noise(len(lengths), 20, SOURCE, seed=11)[:, :length]
    values = values.masked_fill(~mask.unsqueeze(-1), 0.0 if filling is None else filling)
    fields = [noise(len(lengths), SOURCE // 2, seed=12 + index) for index in range(4)]
    for tensor in (values, *fields):
        tensor.requires_grad_(grad)
    state = ENCODER.start(len(lengths))
    return Memory(values, mask, type(state)(LSTM.State(*fields[:2]), LSTM.State(*fields[2:])))
