"""Prefix beam search: a prefix is the sum of its paths; the best live on (Graves 2012, Hannun et al. 2014)."""

import math
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Literal

from pydantic import Field
from torch import Tensor

from seqloom.decoding.frames.frame_search import FrameSearch, Guide, Stream, Transcript, check_blank, check_lag, rows
from seqloom.decoding.frames.language_models import StepLanguage, scorer
from seqloom.kernels.runtime import parallel_rows

if TYPE_CHECKING:
    from seqloom.decoding.frames.aligning_stream import AligningStream


class PrefixBeam(FrameSearch):
    """Follows the best prefixes, each with the sums of its paths that end in a blank and in its symbol.

    With a lexicon it follows words: hypotheses with the same words so far, the same node of the lexicon and the same
    last symbol are one. A transcript is then a sequence of words, and its probability the sum over all ways to spell
    them, one spelling of each word; with a separator also over an end with and without it. The symbols are those of
    the most probable path of all these ways. Where only the best is asked for (``best`` 1), what the language
    model cannot tell from a better hypothesis any more is pruned before all else.
    """

    name: Literal["prefix_beam"] = "prefix_beam"
    size: int = Field(64, ge=1, description="Prefixes that live on at each frame.")
    per_node: int = Field(0, ge=0, description="At most so many new extensions of a prefix in a frame; 0: all.")
    token_threshold: float = Field(
        0.0, ge=0, lt=1, description="Symbols less probable than this in a frame are impossible there; 0: none is."
    )
    threshold: float = Field(
        0.0, ge=0, description="Drop what is this much below the best at its frame (natural logarithm); 0: nothing."
    )
    nbest: int = Field(1, ge=1, description="Transcripts that are returned.")
    lag: int = Field(
        0, ge=0, description="Frames after which the best of the moment is decided on, for streams; 0: at the end."
    )

    def __call__(
        self,
        log_probabilities: Tensor,  # (B, T, V)
        lengths: Tensor,  # (B,)
        *,
        blank: int = 0,
        guide: Guide | None = None,
    ) -> list[list[Transcript]]:
        """At most ``best`` transcripts of each row."""
        made = rows(log_probabilities, lengths, blank=blank)
        start = self._prepare(symbols=log_probabilities.shape[2], blank=blank, guide=guide)

        def run(row: int) -> list[Transcript]:
            stream = start()
            stream.take(made[row])
            return stream.finish()

        if guide is not None and isinstance(guide.language, StepLanguage):  # has threads of its own
            return [run(row) for row in range(len(made))]
        return parallel_rows.map_rows(run, list(map(len, made)))

    def stream(self, *, symbols: int, blank: int = 0, guide: Guide | None = None, lag: int = 0) -> Stream:
        check_lag(lag)
        return self._prepare(symbols=symbols, blank=blank, guide=guide, lag=lag)()

    def _prepare(
        self, *, symbols: int, blank: int, guide: Guide | None, lag: int = 0
    ) -> Callable[[], "AligningStream"]:
        """What makes streams; all that they share is made once."""
        from seqloom.decoding.frames.prefix_stream import PrefixStream  # numba takes half a second
        from seqloom.decoding.frames.word_stream import LexiconStream, tree
        from seqloom.kernels.frame_beam.prefix_beam import Limits

        check_blank(blank, symbols=symbols)
        limits = Limits(
            size=self.size,
            per_node=self.per_node,
            floor=math.log(self.token_threshold) if self.token_threshold else -math.inf,
            threshold=self.threshold or math.inf,
            blank=blank,
            lag=self.lag or lag,
        )
        lexicon, language, *bonuses = guide or Guide()
        weight, bonus, unknown = bonuses
        count = symbols if lexicon is None else len(lexicon)
        made = scorer(language, count=count, weight=weight, bonus=bonus, unknown=unknown)
        if lexicon is None:
            return partial(PrefixStream, limits, made, language=language, symbols=symbols, best=self.nbest)
        lexicon.check(symbols=symbols, blank=blank)
        words = tree(lexicon, made, language=language)
        make = partial(LexiconStream, limits, made, lexicon=lexicon, tree=words, language=language)
        return partial(make, symbols=symbols, best=self.nbest)
