"""Generation guided by a lexicon and a language model: in the search (shallow fusion), or by reordering its n-best."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from seqloom.data.text.tokenizers import Tokenizer
from seqloom.decoding.frames.frame_search import Guide
from seqloom.decoding.frames.language_models import LM, word_bonuses
from seqloom.decoding.rescoring import text_log_probabilities
from seqloom.decoding.tokens.beam import Beam
from seqloom.decoding.tokens.fusion import Scorer, bonus_scorer
from seqloom.decoding.tokens.lexicon_scorer import LexiconReader, lexicon_scorer
from seqloom.decoding.tokens.lm_scorer import lm_scorer
from seqloom.decoding.tokens.search import Hypothesis, Search
from seqloom.layers.layer import Memory
from seqloom.models.generation import Candidate, generate, nbest_candidates


class GuidedHypothesis(NamedTuple):
    """A hypothesis, and what the guide says about it."""

    hypothesis: Hypothesis
    words: list[int]  # of the lexicon
    spans: list[tuple[int, int]]  # first and last token of each word
    language: float = 0.0  # log-probability by the language model, without its weight
    bonus: float = 0.0  # word scores
    model: float = 0.0  # log-probability by the decoder (and CTC) alone


@dataclass(frozen=True, slots=True)
class GuidedCandidate(Candidate):
    """One of the n-best outputs of a search with a language model."""

    model: float  # log-probability by the model alone
    language: float  # log-probability by the language model, without its weight

    @property
    def score_parts(self) -> list[tuple[str, float]]:
        return [("model", self.model), ("language model", self.language)]


def guided_candidates(nbest: Sequence[GuidedHypothesis], tokenizer: Tokenizer, guide: Guide) -> list[Candidate]:
    """The hypotheses of a search as texts; with a language model, also with the parts of their scores."""
    candidates = nbest_candidates([guided.hypothesis for guided in nbest], tokenizer)
    if guide.lm is None:
        return candidates
    return [
        GuidedCandidate(
            each.text,
            each.score,
            each.log_probability,
            each.tokens,
            each.log_probabilities,
            model=guided.model,
            language=guided.language,
        )
        for each, guided in zip(candidates, nbest, strict=True)
    ]


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
    bonuses = word_bonuses(
        guide.lm,
        count=vocab_size if lexicon is None else len(lexicon),
        word_score=guide.word_score,
        unk_score=guide.unk_score,
    )
    if lexicon is None:
        bonuses[end] = 0.0  # not a word
    reader = None if lexicon is None else LexiconReader(lexicon, lm, weight=guide.weight, bonuses=bonuses)
    rescore, parts, batch = guide.rescores, [*scorers], len(memory.mask)
    if lexicon is not None and reader is not None:
        in_search = LexiconReader(lexicon, None) if rescore else reader
        parts.append(lexicon_scorer(in_search, batch=batch, vocab_size=vocab_size, end=end))
    elif not rescore:
        if lm is not None:
            parts.append(lm_scorer(lm, batch=batch, end=end, weight=guide.weight))
        if bonuses.any():
            parts.append(bonus_scorer(bonuses))
    nbest = getattr(search, "nbest", 1)
    if rescore and isinstance(search, Beam):
        search = search.model_copy(update={"nbest": search.size})
    rows = []
    for hypotheses in generate(decoder, memory, search, end=end, scorers=parts, **options):
        row = []
        language = _log_probabilities(None if reader else lm, hypotheses)
        for candidate, log_prob in zip(hypotheses, language, strict=True):
            if reader is None:
                guided = GuidedHypothesis(candidate, [], [], log_prob, float(bonuses[candidate.tokens].sum()))
            else:
                hypothesis = _without_partial_word(candidate, reader)
                reading = reader.read(hypothesis.tokens)
                if reading is None:  # impossible for the language model
                    continue
                words = [word for word, _ in reading.words]
                bonus = float(bonuses[words].sum())
                guided = GuidedHypothesis(hypothesis, words, reader.spans(reading), reading.language, bonus)
            added, total = guide.weight * guided.language + guided.bonus, guided.hypothesis.log_probability
            if rescore:
                divisor = search.length_divisor(len(guided.hypothesis.log_probabilities))
                hypothesis = replace(guided.hypothesis, score=guided.hypothesis.score + added / divisor)
                row.append(guided._replace(hypothesis=hypothesis, model=total))
            else:
                row.append(guided._replace(model=total - added))
        if rescore:
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


def _log_probabilities(lm: LM | None, hypotheses: Sequence[Hypothesis]) -> list[float]:
    """log p of the tokens of each hypothesis, and of the end if it has ended; 0 without a language model."""
    if lm is None:
        return [0.0] * len(hypotheses)
    texts, ended = [each.tokens for each in hypotheses], [each.ended for each in hypotheses]
    log_probs: list[float] = text_log_probabilities(lm, texts, ended=ended).tolist()
    return log_probs
