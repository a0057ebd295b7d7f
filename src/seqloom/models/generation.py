"""Generation with a decoder: search, sampling of text, and teacher forcing."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from seqloom.data.batch import Padded
from seqloom.data.text.tokenizers import Tokenizer
from seqloom.data.text.vocabulary import END
from seqloom.decoding.tokens.fusion import Scorer, fuse
from seqloom.decoding.tokens.prefix_tree import PrefixTree
from seqloom.decoding.tokens.sample import Sample
from seqloom.decoding.tokens.search import Hypothesis, Search, Step, unrestricted
from seqloom.layers.attention.hard import HardAttention
from seqloom.layers.embedding import PADDING, UNKNOWN
from seqloom.layers.layer import Memory, coverage
from seqloom.models.decoder import Decoder, DecoderStep, step
from seqloom.state import apply, select

SUPPRESSED = (PADDING, UNKNOWN)  # tokens that are never generated


@dataclass(frozen=True, slots=True)
class Candidate:
    """One of the n-best outputs."""

    text: str
    score: float  # what candidates are ranked by
    log_probability: float
    tokens: list[str]
    log_probabilities: list[float]  # of each token, and of the end token if it ended

    @property
    def score_parts(self) -> list[tuple[str, float]]:
        """The parts of the log-probability with their names; none if it has only one."""
        return []


def format_nbest(candidates: Sequence[Any]) -> str:
    """One text per line; several candidates with their scores, and with an empty line after the last one."""
    if len(candidates) <= 1:
        return "".join(candidate.text for candidate in candidates)
    return "".join(f"{candidate.text}\t{candidate.score:.4f}\n" for candidate in candidates)


def nbest_candidates(hypotheses: Sequence[Hypothesis], tokenizer: Tokenizer) -> list[Candidate]:
    """The hypotheses of a search as texts."""
    if not hypotheses:
        raise ValueError(
            "the search found no output that its settings allow: relax min_length, no_repeat_ngram or the constraints"
        )
    return [
        Candidate(
            tokenizer.decode(hypothesis.tokens),
            hypothesis.score,
            hypothesis.log_probability,
            tokenizer.vocabulary.decode(hypothesis.tokens),
            hypothesis.log_probabilities,
        )
        for hypothesis in hypotheses
    ]


def generate(
    decoder: Decoder,
    memory: Memory,
    search: Search,
    *,
    end: int,  # end token, which also precedes the first token
    lengths: Tensor | int,  # (B,), maximum tokens of each row, the end token included
    suppress: tuple[int, ...] = (),  # tokens that are never generated
    tree: PrefixTree | None = None,  # the only outputs that are allowed
    weight: float = 1.0,  # of the decoder
    scorers: Sequence[Scorer] = (),  # of further scores for the rows of the memory
) -> list[list[Hypothesis]]:
    """The hypotheses for each row of the memory, the best first."""
    mask = memory.mask
    start = mask.new_full((len(mask),), end, dtype=torch.int64)
    decoder_state = decoder.start(memory, len(mask), coverage=search.needs_coverage)
    fused = fuse([Scorer(DecoderStep(decoder), decoder_state, weight), *scorers])
    run_search = partial(search, lengths=lengths, suppress=suppress, tree=tree, max_gain=fused.max_gain)
    if not search.needs_coverage:
        return run_search(fused.step, fused.state, start, end)

    def masked_coverage(state: Any) -> Tensor | None:
        attention = coverage(state[0])
        return None if attention is None else attention.masked_fill(~state[1], 1)

    return run_search(_MaskedStep(fused.step), (fused.state, mask), start, end, coverage=masked_coverage)


class _MaskedStep:
    """A step whose state is accompanied by the mask of the source, since padding need not be covered."""

    def __init__(self, step: Step) -> None:
        self.step = step

    def __call__(self, tokens: Tensor, state: tuple[Any, Tensor]) -> tuple[Tensor, tuple[Any, Tensor]]:
        scores, inner = self.step(tokens, state[0])
        return scores, (inner, state[1])

    def unrestricted(self, tokens: Tensor, state: tuple[Any, Tensor]) -> Tensor | None:
        return unrestricted(self.step, tokens, state[0])


class GeneratedToken(NamedTuple):
    """A token that was sampled from a language model."""

    text: str  # what it adds to the text; empty within a character of several bytes
    token: str  # empty: the rest of a text that ended within such a character
    log_probability: float = 0.0  # by the model, before temperature and truncation
    alternatives: tuple[tuple[str, float], ...] = ()  # the most probable tokens


class GivenTokens(Sample):
    """Follows given tokens instead of sampling, so that ``generate_tokens`` tells how probable they are."""

    tokens: tuple[int, ...]

    def stream(
        self,
        step: Step,
        state: Any,
        start: Tensor,
        *,
        length: int,  # noqa: ARG002  of Sample
        end: int | None = None,  # noqa: ARG002
        suppress: tuple[int, ...] = (),  # noqa: ARG002
    ) -> Iterator[Tensor]:
        last = start
        for token in self.tokens:
            _, state = step(last, state)
            last = torch.full_like(start, token)
            yield last


def text_tokens(tokenizer: Tokenizer, text: str) -> tuple[int, ...]:
    """The tokens of the lines of a text, with the end token between them."""
    first, *others = map(tokenizer.encode, text.split("\n"))
    end = tokenizer.vocabulary.index(END)
    return (*first, *(token for line in others for token in (end, *line)))


def generate_tokens(
    decoder: nn.Module,
    tokenizer: Tokenizer,
    prompt: str,
    *,
    length: int,
    sample: Sample,
    alternatives: int = 0,  # most probable tokens to return with each
) -> Iterator[GeneratedToken]:
    """Sample a continuation of the prompt from a language model, and yield it as it grows."""
    module: Any = decoder
    end = tokenizer.vocabulary.index(END)
    *lines, line = ([*tokenizer.encode(text)] for text in prompt.split("\n"))
    *context, last = [end, *(token for text in lines for token in (*text, end)), *line]
    scores = torch.zeros(1, 0)  # (1, V), of the latest step

    @torch.no_grad()
    def decoder_step(tokens: Tensor, state: Any) -> tuple[Tensor, Any]:
        nonlocal scores
        scores, state = step(decoder, tokens, state)
        return scores, state

    def described(text: str, token: int) -> GeneratedToken:
        best = scores[0].topk(min(alternatives, scores.shape[1])) if alternatives else None
        pairs = zip(best.indices.tolist(), best.values.tolist(), strict=True) if best else ()
        names = tokenizer.vocabulary.tokens
        return GeneratedToken(
            text,
            tokenizer.readable(names[token]),
            float(scores[0, token]),
            tuple((tokenizer.readable(names[index]), value) for index, value in pairs),
        )

    with torch.no_grad():
        state = module.start(None, 1)
        if context:
            _, state = module(torch.tensor([context]), state)
    printed = tokenizer.decode(line)
    for token in map(int, sample.stream(decoder_step, state, torch.tensor([last]), length=length, suppress=(PADDING,))):
        if token == end:
            yield described(tokenizer.decode(line)[len(printed) :] + "\n", token)
            line, printed = [], ""
            continue
        line.append(token)
        text = tokenizer.decode(line).rstrip("\ufffd")  # an incomplete multi-byte character
        yield described(text[len(printed) :], token)
        printed += text[len(printed) :]
    if rest := tokenizer.decode(line)[len(printed) :]:
        yield GeneratedToken(rest, "")


def shift_right(target: Padded, end: int) -> Tensor:  # (B, T)
    """The decoder inputs for a target: the end token, then the target without its last token."""
    return torch.cat([torch.full_like(target.values[:, :1], end), target.values[:, :-1]], dim=1)


def start_state(
    decoder: Any,
    memory: Memory,  # of R rows
    rows: Tensor | None = None,  # (B,), the row of the memory for each sequence; None: B = R, in order
) -> Any:
    """The state of the decoder before the first token of each of B sequences."""
    if rows is None:
        return decoder.start(memory, len(memory.mask))
    if any(isinstance(module, HardAttention) for module in decoder.modules()):  # samples for each sequence
        memory = Memory(select(memory.values, rows), select(memory.mask, rows), select(memory.state, rows))
        return decoder.start(memory, len(rows))
    return select(decoder.start(memory, len(memory.mask)), rows)


def teacher_forcing_loss(
    model: Any,  # an EncoderDecoder, with a TokenMixer for scheduled sampling
    state: Any,  # of its decoder before the first token
    target: Padded,  # (B, T)
    *,
    end: int,
    smoothing: float = 0.0,
) -> Tensor:  # ()
    """The loss of a decoder that reads the target tokens, or some of its own with scheduled sampling."""
    labels, mask = target
    tokens = shift_right(target, end)
    if model.training and hasattr(model, "mixer"):
        tokens = model.mixer(model.decoder, apply(Tensor.detach, state), tokens, suppress=SUPPRESSED)
    features, _ = model.decoder.features(tokens, state, mask=mask)
    loss: Tensor = model.loss(features[mask], labels, mask, smoothing=smoothing)
    return loss


def teacher_forced_scores(
    decoder: Decoder,
    memory: Memory,
    target: Padded,
    *,
    end: int,
    rows: Tensor | None = None,  # as in ``start_state``
) -> list[tuple[list[float], list[bool]]]:
    """The log-probabilities of the target tokens of each row, and whether each is the most probable token."""
    labels, mask = target
    features, _ = decoder.features(shift_right(target, end), start_state(decoder, memory, rows), mask=mask)
    log_probs, correct = decoder.score_tokens(features[mask], labels[mask])
    counts = mask.sum(dim=1).tolist()
    return [
        (row.tolist(), hits.tolist()) for row, hits in zip(log_probs.split(counts), correct.split(counts), strict=True)
    ]
