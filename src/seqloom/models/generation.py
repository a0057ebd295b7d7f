"""What a decoder says of a memory: by a search of its own, and where it is told the true symbols one by one."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from seqloom.data.batch import Padded
from seqloom.data.text.tokenizers import Tokenizer
from seqloom.data.text.vocabulary import END
from seqloom.decoding.tokens.beam import Beam
from seqloom.decoding.tokens.prefix_tree import PrefixTree
from seqloom.decoding.tokens.sample import Sample
from seqloom.decoding.tokens.search import Hypothesis, Search
from seqloom.layers.attention.hard import HardAttention
from seqloom.layers.embedding import PADDING, UNKNOWN
from seqloom.layers.layer import Memory, coverage
from seqloom.models.decoder import Decoder, step
from seqloom.state import apply, select

SUPPRESSED = (PADDING, UNKNOWN)  # tokens that are never generated


@dataclass(frozen=True, slots=True)
class Candidate:
    """An answer among several."""

    text: str
    score: float  # what they are ranked by
    log_probability: float
    symbols: list[str]
    log_probabilities: list[float]  # of each symbol, and of the end where it ended


def nbest_candidates(found: Sequence[Hypothesis], said: Tokenizer) -> list[Candidate]:
    """What a search has found, as texts."""
    if not found:
        raise ValueError(
            "the search found no answer that its settings allow: loosen minimum, no_repeat or the allowed answers"
        )
    return [
        Candidate(
            said.decode(each.tokens),
            each.score,
            each.log_probability,
            said.vocabulary.decode(each.tokens),
            each.log_probabilities,
        )
        for each in found
    ]


def generate(
    decoder: Decoder,
    memory: Memory,
    search: Search,
    *,
    end: int,  # also the symbol before the first one
    lengths: Tensor | int,  # (B,), the most symbols of each row, the end symbol included
    suppress: tuple[int, ...] = (),  # symbols that are not chosen
    tree: PrefixTree | None = None,  # of the answers that there may be
) -> list[list[Hypothesis]]:
    """The hypotheses of each row of the memory, the best first."""
    mask = memory.mask
    start = mask.new_full((len(mask),), end, dtype=torch.int64)
    follow = partial(step, decoder)
    if not (isinstance(search, Beam) and search.coverage_penalty):
        begin = decoder.start(memory, len(mask))
        return search(follow, begin, start, end, lengths=lengths, suppress=suppress, tree=tree)

    def beside(tokens: Tensor, state: Any) -> tuple[Tensor, Any]:
        """The mask of the source goes with the state, since padding is not to be covered."""
        scores, inner = follow(tokens, state[0])
        return scores, (inner, state[1])

    def covered(state: Any) -> Tensor | None:
        found = coverage(state[0])
        return None if found is None else found.masked_fill(~state[1], 1)

    begin = (decoder.start(memory, len(mask), coverage=True), mask)
    return search(beside, begin, start, end, lengths=lengths, suppress=suppress, tree=tree, coverage=covered)


def generate_text(
    decoder: nn.Module, encoding: Tokenizer, prompt: str, *, length: int, sample: Sample
) -> Iterator[str]:
    """Text that a language model draws to continue the prompt, piece by piece."""
    module: Any = decoder
    end = encoding.vocabulary.index(END)
    *lines, line = ([*encoding.encode(text)] for text in prompt.split("\n"))
    *context, last = [end, *(symbol for text in lines for symbol in (*text, end)), *line]

    @torch.no_grad()
    def follow(tokens: Tensor, state: Any) -> tuple[Tensor, Any]:
        return step(decoder, tokens, state)

    with torch.no_grad():
        state = module.start(None, 1)
        if context:
            _, state = module(torch.tensor([context]), state)
    printed = encoding.decode(line)
    for symbol in map(int, sample.stream(follow, state, torch.tensor([last]), length=length, suppress=(PADDING,))):
        if symbol == end:
            yield encoding.decode(line)[len(printed) :] + "\n"
            line, printed = [], ""
            continue
        line.append(symbol)
        text = encoding.decode(line).rstrip("\ufffd")  # an incomplete character of several bytes
        yield text[len(printed) :]
        printed += text[len(printed) :]
    yield encoding.decode(line)[len(printed) :]


def shift_right(target: Padded, end: int) -> Tensor:  # (B, T)
    """The symbol before each of the target's: the end of what came before, then the target itself."""
    return torch.cat([torch.full_like(target.values[:, :1], end), target.values[:, :-1]], dim=1)


def begin(
    decoder: Any,
    memory: Memory,  # of R rows
    rows: Tensor
    | None = None,  # (B,), the row of the memory that each sequence is about; None: B = R, one after the other
) -> Any:
    """The state of the decoder before the first symbol of each of B sequences."""
    if rows is None:
        return decoder.start(memory, len(memory.mask))
    if any(
        isinstance(part, HardAttention) for part in decoder.modules()
    ):  # each of its samples belongs to one sequence
        memory = Memory(select(memory.values, rows), select(memory.mask, rows), select(memory.state, rows))
        return decoder.start(memory, len(rows))
    return select(decoder.start(memory, len(memory.mask)), rows)


def teacher_forcing_loss(
    model: Any,  # an EncoderDecoder; with a Mixer, if there is scheduled sampling
    state: Any,  # of its decoder before the first symbol
    target: Padded,  # (B, T)
    *,
    end: int,
    smoothing: float = 0.0,
) -> Tensor:  # ()
    """The loss of a decoder that is told the true symbols, or in scheduled sampling some of its own."""
    said, real = target
    tokens = shift_right(target, end)
    if model.training and hasattr(model, "mixer"):
        tokens = model.mixer(model.decoder, apply(Tensor.detach, state), tokens, suppress=SUPPRESSED)
    features, _ = model.decoder.features(tokens, state, mask=real)
    loss: Tensor = model.loss(features[real], said, real, smoothing=smoothing)
    return loss


def teacher_forced_scores(
    decoder: Decoder,
    memory: Memory,
    target: Padded,
    *,
    end: int,
    rows: Tensor | None = None,  # as in begin
) -> list[tuple[list[float], list[bool]]]:
    """Of each row, the log-probabilities of the true symbols, and whether they are the most probable ones."""
    said, real = target
    features, _ = decoder.features(shift_right(target, end), begin(decoder, memory, rows), mask=real)
    values, right = decoder.judge(features[real], said[real])
    counts = real.sum(dim=1).tolist()
    return [
        (own.tolist(), found.tolist()) for own, found in zip(values.split(counts), right.split(counts), strict=True)
    ]
