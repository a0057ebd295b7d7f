"""What streams with a beam share: a decoder that guides them is asked after every frame."""

from abc import abstractmethod
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from seqloom.decoding.frames.aligning_stream import AligningStream, Doubles
from seqloom.decoding.frames.language_models import Language, StepLanguage
from seqloom.decoding.frames.neural_lm import NeuralLMTable
from seqloom.kernels.language import Scorer
from seqloom.kernels.prefix_beam import TOLD, Limits


class LMStream(AligningStream):
    """A stream with a tree of what was said, whose nodes have states of the language model."""

    label: ClassVar[str]  # the field of the beam that tells the last of each node, a symbol or a word
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

    def tell(self, node: int) -> None:
        self.beam.counts[TOLD] = node

    def hear(self, frames: Doubles) -> None:
        if self.fusion is None:
            self.advance(frames)
            return
        for frame in frames:
            self.advance(frame[None])
            live = self.live()
            numbers = self.scorer.numbers[getattr(self.beam, self.label)[live]]
            self.fusion.renew(self.beam.states, live, parents=self.beam.parents, numbers=numbers)
