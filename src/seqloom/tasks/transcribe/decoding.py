"""Transcripts by a decoder that attends to the recording, alone or with CTC."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from seqloom.data.batch import Padded
from seqloom.decoding.frames.frame_search import Guide, Transcript
from seqloom.decoding.tokens.ctc_prefix import ctc_prefix_scorer
from seqloom.decoding.tokens.search import Search
from seqloom.layers.ctc import align, frames_needed
from seqloom.layers.embedding import PADDING as BLANK
from seqloom.layers.layer import Memory
from seqloom.models.generation import SUPPRESSED, start_state, teacher_forced_scores, teacher_forcing_loss
from seqloom.models.guided_generation import GuidedHypothesis, generate_guided

MARGIN = 1.5  # maximum length relative to what 99.9 % of the training transcripts need
OFFSET = 10  # tokens that are allowed in addition


@dataclass(frozen=True)
class TranscriptDecoder:
    """How the decoder of an "attention" or "joint" model is trained and searched."""

    vocab_size: int
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

    def limits(self, frames: Tensor) -> Tensor:  # (B,) → (B,)
        """The maximum length of each transcript, the end token included."""
        return (MARGIN * self.tokens_per_frame * frames).ceil().long() + OFFSET

    def search(
        self,
        model: Any,
        memory: Memory,
        search: Search,
        *,
        logits: Sequence[Tensor],  # of the CTC of each model, (B, T', V); empty: there is none
        guide: Guide,
    ) -> list[list[GuidedHypothesis]]:
        """The n-best hypotheses of each row."""
        frames = memory.mask.sum(dim=1)
        weight = self.ctc_weight / max(len(logits), 1)
        scorers = [
            ctc_prefix_scorer(table.log_softmax(dim=-1), frames, blank=BLANK, end=self.end, weight=weight)
            for table in logits
        ]
        return generate_guided(
            model.decoder,
            memory,
            search,
            guide=guide,
            vocab_size=self.vocab_size,
            end=self.end,
            lengths=self.limits(frames),
            suppress=SUPPRESSED,
            weight=1 - self.ctc_weight,
            scorers=scorers,
        )


def to_transcripts(
    nbest: Sequence[GuidedHypothesis],
    frames: Tensor | None,  # (T, V), log-probabilities of CTC; None: the model has none
) -> list[Transcript]:
    """The hypotheses of a decoder, with the frames of their tokens on the best path of CTC."""
    table = None if frames is None else frames.float().cpu().numpy()
    transcripts = []
    for hypothesis, words, spans, language, _, model in nbest:
        places: list[tuple[int, int]] = []
        if table is not None and frames_needed(hypothesis.tokens) <= len(table):
            places = align(table, hypothesis.tokens, blank=BLANK)
        transcripts.append(
            Transcript(
                hypothesis.tokens,
                words,
                hypothesis.score,
                acoustic=model,
                language=language,
                frames=places,
                spans=[(places[first][0], places[last][1]) for first, last in spans] if places else [],
            )
        )
    return transcripts
