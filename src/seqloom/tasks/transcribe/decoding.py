"""Transcripts by a decoder that attends to the recording, alone or with CTC."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from seqloom.data.batch import Padded
from seqloom.decoding.frames.frame_search import Transcript
from seqloom.decoding.tokens.ctc_prefix import ctc_prefix_scorer
from seqloom.decoding.tokens.search import Hypothesis, Search
from seqloom.layers.ctc import align, frames_needed
from seqloom.layers.embedding import PADDING as BLANK
from seqloom.layers.layer import Memory
from seqloom.models.generation import SUPPRESSED, generate, start_state, teacher_forced_scores, teacher_forcing_loss

MARGIN = 1.5  # maximum length relative to what 99.9 % of the training transcripts need
OFFSET = 10  # tokens that are allowed in addition


@dataclass(frozen=True)
class TranscriptDecoder:
    """How the decoder of an "attention" or "joint" model is trained and searched."""

    end: int
    tokens_per_frame: float
    smoothing: float
    ctc_weight: float  # 0: without CTC

    def loss(self, model: Any, memory: Memory, target: Padded, rows: Tensor) -> Tensor:  # ()
        """The loss of the decoder, summed over some rows."""
        ended = self._with_end(target)
        chosen = Padded(ended.values[rows], ended.mask[rows])
        state = start_state(model.decoder, memory, None if len(rows) == len(memory.mask) else rows)
        return teacher_forcing_loss(model, state, chosen, end=self.end, smoothing=self.smoothing)

    def reference_losses(self, model: Any, memory: Memory, target: Padded) -> Tensor:  # (B,)
        """-log p of each reference transcript by the decoder."""
        scores = teacher_forced_scores(model.decoder, memory, self._with_end(target), end=self.end)
        return torch.tensor([-sum(values) for values, _ in scores], dtype=torch.float64)

    def _with_end(self, target: Padded) -> Padded:
        lengths = target.lengths.unsqueeze(1)
        values = nn.functional.pad(target.values, (0, 1)).scatter(1, lengths, self.end)
        return Padded(values, torch.arange(values.shape[1], device=lengths.device) <= lengths)

    def search(
        self,
        model: Any,
        memory: Memory,
        search: Search,
        *,
        logits: Tensor | None,  # (B, T', V), of CTC; None: the model has none
    ) -> list[list[Hypothesis]]:
        frames = memory.mask.sum(dim=1)
        lengths = (MARGIN * self.tokens_per_frame * frames).ceil().long() + OFFSET
        scorers = []
        if logits is not None:
            log_probs = logits.log_softmax(dim=-1)
            scorers = [ctc_prefix_scorer(log_probs, frames, blank=BLANK, end=self.end, weight=self.ctc_weight)]
        return generate(
            model.decoder,
            memory,
            search,
            end=self.end,
            lengths=lengths,
            suppress=SUPPRESSED,
            weight=1 - self.ctc_weight,
            scorers=scorers,
        )


def to_transcripts(
    hypotheses: Sequence[Hypothesis],
    frames: Tensor | None,  # (T, V), log-probabilities of CTC; None: the model has none
) -> list[Transcript]:
    """The hypotheses of a decoder, with the frames of their tokens on the best path of CTC."""
    table = None if frames is None else frames.float().cpu().numpy()
    transcripts = []
    for hypothesis in hypotheses:
        fits = table is not None and frames_needed(hypothesis.tokens) <= len(table)
        places = align(table, hypothesis.tokens, blank=BLANK) if table is not None and fits else []
        log_probability = hypothesis.log_probability
        transcripts.append(Transcript(hypothesis.tokens, [], hypothesis.score, log_probability, 0.0, places, []))
    return transcripts
