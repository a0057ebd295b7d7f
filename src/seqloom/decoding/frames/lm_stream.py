"""What streams with a beam share: a decoder that guides them is asked after every frame."""

from abc import abstractmethod
from typing import Any

import numpy as np
import numpy.typing as npt

from seqloom.decoding.frames.aligning_stream import AligningStream, Doubles
from seqloom.decoding.frames.language_models import Language, StepLanguage
from seqloom.decoding.frames.neural_lm import NeuralLMTable
from seqloom.kernels.frame_beam.ngram_scorer import Scorer
from seqloom.kernels.frame_beam.prefix_beam import COMMITTED, Limits


class LMStream(AligningStream):
    """A stream with a tree of what was said, whose nodes have states of the language model."""

    beam: Any

    def __init__(
        self,
        limits: Limits,
        scorer: Scorer,
        *,
        language: Language | None,
        symbols: int,
        best: int,
        separator: int | None = None,
    ) -> None:
        super().__init__(symbols=symbols, blank=limits.blank, best=best, separator=separator)
        self.fusion = NeuralLMTable(language, size=limits.size) if isinstance(language, StepLanguage) else None
        self.limits, self.scorer = limits, scorer if self.fusion is None else scorer._replace(table=self.fusion.table)

    @abstractmethod
    def advance(self, frames: Doubles) -> None:
        """Go on through some frames with the scores that are known."""

    @abstractmethod
    def live(self) -> npt.NDArray[np.int32]:
        """The nodes of all hypotheses that live."""

    @abstractmethod
    def tree(self) -> Any:
        """The tree of these nodes."""

    @abstractmethod
    def labels(self) -> npt.NDArray[np.int32]:
        """The last symbol, or word, of each node."""

    def tell(self, node: int) -> None:
        self.beam.counters[COMMITTED] = node

    def hear(self, frames: Doubles) -> None:
        if self.fusion is None:
            self.advance(frames)
            return
        for frame in frames:
            self.advance(frame[None])
            live, tree = self.live(), self.tree()
            numbers = self.scorer.vocabulary_ids[self.labels()[live]]
            self.fusion.renew(tree.lm_states, live, parents=tree.parents, numbers=numbers)
