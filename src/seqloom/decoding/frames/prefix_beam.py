"""Prefix beam search: the probability of a prefix is summed over its paths (Graves 2012, Hannun et al. 2014)."""

import math
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Literal

from pydantic import Field
from torch import Tensor

from seqloom.decoding.frames.frame_search import (
    FrameSearch,
    Guide,
    Stream,
    Transcript,
    check_blank,
    check_lag,
    unpad_frames,
)
from seqloom.decoding.frames.language_models import LM, NeuralLM, build_scorer, word_bonuses
from seqloom.decoding.rescoring import text_log_probabilities
from seqloom.kernels.runtime import threads

if TYPE_CHECKING:
    from seqloom.decoding.frames.aligning_stream import AligningStream, UnalignedTranscript


class PrefixBeam(FrameSearch):
    """Keeps the best prefixes, each with the sums over its paths that end in a blank and in its last token.

    With a lexicon, hypotheses with the same words so far, the same node of the lexicon and the same last token are
    merged. A transcript is then a sequence of words, and its probability the sum over all ways to spell them, one
    spelling per word; with a separator, also over an end with and without it. The tokens are those of the most
    probable path. If only the best transcript is returned (``nbest`` is 1), a hypothesis that the language model
    cannot distinguish from a better one is pruned first.
    """

    name: Literal["prefix_beam"] = "prefix_beam"
    size: int = Field(64, ge=1, le=100_000, description="Prefixes kept at each frame.")
    per_node: int = Field(0, ge=0, description="Maximum new extensions of one prefix per frame (0: no limit).")
    histories: int = Field(
        0,
        ge=0,
        description="With a lexicon: maximum hypotheses with different words so far at one node of its prefix tree "
        "(0: no limit).",
    )
    merge: Literal["sum", "max"] = Field(
        "sum",
        description="How paths of the same text are merged: sum adds their probabilities; max keeps the best path "
        "(Viterbi).",
    )
    token_threshold: float = Field(
        0.0, ge=0, lt=1, description="Skip tokens whose probability in a frame is below this (0: try all tokens)."
    )
    threshold: float = Field(
        0.0, ge=0, description="Prune prefixes whose log-probability is this much below the best one's (0: no pruning)."
    )
    nbest: int = Field(1, ge=1, le=100_000, description="Transcripts returned for each recording.")
    lag: int = Field(
        0, ge=0, description="Frames after which a stream commits to its best hypothesis (0: only at the end)."
    )

    def __call__(
        self,
        log_probabilities: Tensor,  # (B, T, V)
        lengths: Tensor,  # (B,)
        *,
        blank: int = 0,
        guide: Guide | None = None,
    ) -> list[list[Transcript]]:
        """At most ``nbest`` transcripts per row."""
        frames, guide = unpad_frames(log_probabilities, lengths, blank=blank), guide or Guide()
        vocab_size, lm = log_probabilities.shape[2], guide.lm if guide.rescores else None
        open_stream = self._prepare(
            vocab_size=vocab_size,
            blank=blank,
            guide=guide.in_search,
            nbest=self.nbest if lm is None else self.size,
        )
        # One thread at a time runs Python: two that take the GIL from each other between short compiled functions wait
        # for it longer than for their turn. The alignment of many transcripts takes long enough to run beside others.
        turn: AbstractContextManager[object] = Lock() if self.nbest == 1 else nullcontext()

        def run(row: int) -> list[Transcript]:
            with turn:
                stream = open_stream()
            stream.feed_checked(frames[row])
            with turn:
                if lm is None:
                    return stream.finish()
                hypotheses = stream.best_hypotheses(self.size)
                return stream.aligned(_rescored(hypotheses, guide, lm, vocab_size=vocab_size)[: self.nbest])

        if isinstance(guide.lm, NeuralLM):  # runs its own threads
            return [run(row) for row in range(len(frames))]
        return threads.map_rows(run, list(map(len, frames)))

    def stream(self, *, vocab_size: int, blank: int = 0, guide: Guide | None = None, lag: int = 0) -> Stream:
        check_lag(lag)
        guide = guide or Guide()
        if guide.rescores:
            raise ValueError("a stream cannot reorder its transcripts (rescore): use the language model in the search")
        return self._prepare(vocab_size=vocab_size, blank=blank, guide=guide, nbest=self.nbest, lag=lag)()

    def _prepare(
        self, *, vocab_size: int, blank: int, guide: Guide, nbest: int, lag: int = 0
    ) -> Callable[[], "AligningStream"]:
        """A function that opens streams; what they share is built once."""
        from seqloom.decoding.frames.lexicon_stream import LexiconStream, build_tree  # importing numba takes 0.5 s
        from seqloom.decoding.frames.prefix_stream import PrefixStream
        from seqloom.kernels.frame_beam.prefix_beam import Limits

        check_blank(blank, vocab_size=vocab_size)
        limits = Limits(
            size=self.size,
            per_node=self.per_node,
            floor=math.log(self.token_threshold) if self.token_threshold else -math.inf,
            threshold=self.threshold or math.inf,
            blank=blank,
            lag=self.lag or lag,
            viterbi=self.merge == "max",
            histories=self.histories,
        )
        lexicon, lm = guide.lexicon, guide.lm
        scorer = build_scorer(
            lm,
            count=vocab_size if lexicon is None else len(lexicon),
            weight=guide.weight,
            word_score=guide.word_score,
            unk_score=guide.unk_score,
        )
        if lexicon is None:
            return partial(PrefixStream, limits, scorer, lm=lm, vocab_size=vocab_size, nbest=nbest)
        lexicon.check(vocab_size=vocab_size, blank=blank)
        tree = build_tree(lexicon, scorer, lm=lm)
        open_stream = partial(LexiconStream, limits, scorer, lexicon=lexicon, tree=tree, lm=lm)
        return partial(open_stream, vocab_size=vocab_size, nbest=nbest)


def _rescored(
    hypotheses: list["UnalignedTranscript"], guide: Guide, lm: LM, *, vocab_size: int
) -> list["UnalignedTranscript"]:
    """The hypotheses in the order of their scores with the language model and the word scores."""
    lexicon = guide.lexicon
    bonuses = word_bonuses(
        lm,
        count=vocab_size if lexicon is None else len(lexicon),
        word_score=guide.word_score,
        unk_score=guide.unk_score,
    )
    texts = [each.spellings[0][0] if lexicon is None else each.words for each in hypotheses]
    log_probs = text_log_probabilities(lm, texts, ended=[True] * len(texts)).tolist()
    rescored = [
        each._replace(score=each.acoustic + guide.weight * language + float(bonuses[text].sum()), language=language)
        for each, text, language in zip(hypotheses, texts, log_probs, strict=True)
        if language > -math.inf
    ]
    return sorted(rescored, key=lambda each: -each.score)
