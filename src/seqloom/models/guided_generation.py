"""Generation guided by a lexicon and a language model: in the search (shallow fusion), or by reordering its n-best."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import torch

from seqloom.decoding.frames.frame_search import Guide
from seqloom.decoding.frames.language_models import LM
from seqloom.decoding.tokens.beam import Beam
from seqloom.decoding.tokens.fusion import Scorer
from seqloom.decoding.tokens.lexicon_scorer import LexiconReader, lexicon_scorer
from seqloom.decoding.tokens.lm_scorer import lm_scorer
from seqloom.decoding.tokens.search import Hypothesis, Search
from seqloom.layers.layer import Memory
from seqloom.models.generation import generate


class GuidedHypothesis(NamedTuple):
    """A hypothesis, and what the guide says about it."""

    hypothesis: Hypothesis
    words: list[int]  # of the lexicon
    spans: list[tuple[int, int]]  # first and last token of each word
    language: float  # log-probability by the language model, without its weight


def generate_guided(
    decoder: Any,
    memory: Memory,
    search: Search,
    *,
    guide: Guide,
    vocab_size: int,
    end: int,
    scorers: Sequence[Scorer] = (),
    **options: Any,  # of ``generate``
) -> list[list[GuidedHypothesis]]:
    """The hypotheses for each row of the memory, the best first."""
    lexicon, lm = guide.lexicon, guide.lm if guide.weight else None
    if lexicon is None and lm is None:
        plain = generate(decoder, memory, search, end=end, scorers=scorers, **options)
        return [[GuidedHypothesis(hypothesis, [], [], 0.0) for hypothesis in row] for row in plain]
    in_search = None if guide.rescore else lm
    parts, batch = [*scorers], len(memory.mask)
    if lexicon is not None:
        weight = guide.weight if in_search else 1.0
        parts.append(lexicon_scorer(lexicon, in_search, batch=batch, vocab_size=vocab_size, end=end, weight=weight))
    elif in_search is not None:
        parts.append(lm_scorer(in_search, batch=batch, end=end, weight=guide.weight))
    nbest = getattr(search, "nbest", 1)
    if guide.rescore and isinstance(search, Beam):
        search = search.model_copy(update={"nbest": search.size})
    reader = None if lexicon is None else LexiconReader(lexicon, lm)
    rows = []
    for hypotheses in generate(decoder, memory, search, end=end, scorers=parts, **options):
        row = []
        for candidate in hypotheses:
            hypothesis = candidate if reader is None else _without_partial_word(candidate, reader)
            language, words, spans = 0.0, list[int](), list[tuple[int, int]]()
            if reader is not None:
                reading = reader.read(hypothesis.tokens)
                if reading is None:  # impossible for the language model
                    continue
                language, words, spans = reading.score, [word for word, _ in reading.words], reader.spans(reading)
            elif lm is not None:
                language = _log_probability(lm, hypothesis, end)
            added = guide.weight * language / search.length_divisor(len(hypothesis.log_probabilities))
            rescored = replace(hypothesis, score=hypothesis.score + added) if guide.rescore else hypothesis
            row.append(GuidedHypothesis(rescored, words, spans, language))
        if guide.rescore:
            row.sort(key=lambda guided: (not guided.hypothesis.ended, -guided.hypothesis.score))
        rows.append(row[:nbest])
    return rows


def _without_partial_word(hypothesis: Hypothesis, reader: LexiconReader) -> Hypothesis:
    """The complete words of a hypothesis that the maximum length cuts within a word."""
    length = len(hypothesis.tokens)
    while length and not hypothesis.ended and reader.read(hypothesis.tokens[:length]) is None:
        length -= 1
    if length == len(hypothesis.tokens):
        return hypothesis
    return replace(
        hypothesis, tokens=hypothesis.tokens[:length], log_probabilities=hypothesis.log_probabilities[:length]
    )


def _log_probability(lm: LM, hypothesis: Hypothesis, end: int) -> float:
    """log p of the tokens of a hypothesis, and of the end if it has ended."""
    scorer, total = lm_scorer(lm, batch=1, end=end), 0.0
    state, last = scorer.state, end
    for token in (*hypothesis.tokens, end) if hypothesis.ended else hypothesis.tokens:
        scores, state = scorer.step(torch.tensor([last]), state)
        total, last = total + float(scores[0, token]), token
    return total
