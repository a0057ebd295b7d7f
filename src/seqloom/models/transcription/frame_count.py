"""How many output frames a recording has, which limits the length of its transcript."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from seqloom.layers.audio.spectrum import Spectrum
from seqloom.layers.ctc import frames_needed
from seqloom.models.signals.frame_encoder import TimeReductionConfig


@dataclass(frozen=True)
class FrameCount:
    """The output frames of recordings."""

    spectrum: Spectrum | None  # of audio; None if the inputs are already features
    reduction: TimeReductionConfig

    @property
    def duration(self) -> float:
        """The duration of an output frame, in seconds for audio, otherwise in input frames."""
        hop = self.spectrum.hop / self.spectrum.sample_rate if self.spectrum else 1
        return self.reduction.total_factor * hop

    @property
    def timing(self) -> tuple[int, int, int]:
        """Window and hop of a frame in samples, and the input frames of an output frame: all that matters."""
        window, hop = (self.spectrum.window, self.spectrum.hop) if self.spectrum else (1, 1)
        return window, hop, self.reduction.total_factor

    def of(self, length: int, *, tempo: Fraction | int = 1) -> int:
        """The frames of a recording of some samples or features."""
        features = self.spectrum.length(length) if self.spectrum else length
        return self.reduction.frames(math.ceil(features / tempo))

    def too_short(self, length: int, target: Sequence[int], *, tempo: Fraction | int = 1) -> str:
        """Why a recording of this length is too short for its target; empty if it is not."""
        frames, needed = self.of(length, tempo=tempo), frames_needed(target)
        return f"its {len(target)} tokens need {needed} frames, but it has {frames}" if needed > frames else ""
