"""Search with several CTC models: the transcript with the fewest expected errors (minimum Bayes risk).

Models that were trained apart place the same token in different frames, so that the mean of their probabilities at each
frame spells a token twice, or not at all. Their transcripts can be compared instead (Goel & Byrne 2000).
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from seqloom.decoding.frames.frame_search import FrameSearch, Guide, Transcript
from seqloom.decoding.frames.prefix_beam import PrefixBeam
from seqloom.layers.ctc import ctc_loss
from seqloom.metrics.text import edit_distance

CANDIDATES = 16
"""Transcripts of each model that are compared, at least."""
NEGLIGIBLE = 1e-4
"""Probability of a transcript below which it does not count among those that may be right."""


def search_together(
    search: FrameSearch,
    log_probabilities: Sequence[Tensor],  # of each model, (B, T, V)
    lengths: Tensor,  # (B,), frames of each row
    *,
    blank: int = 0,
    guide: Guide | None = None,
) -> list[list[Transcript]]:
    """The transcripts of each row, the best first. Of several models, their ``score`` is minus the expected errors."""
    if len(log_probabilities) == 1:
        return search(log_probabilities[0], lengths, blank=blank, guide=guide)
    nbest = search.nbest if isinstance(search, PrefixBeam) else 1
    if isinstance(search, PrefixBeam):
        search = search.model_copy(update={"nbest": max(nbest, CANDIDATES)})
    proposals = [search(table, lengths, blank=blank, guide=guide) for table in log_probabilities]
    rows = []
    for row, lists in enumerate(zip(*proposals, strict=True)):
        frames = [table[row, : int(lengths[row])] for table in log_probabilities]
        rows.append(combine(lists, frames, blank=blank)[:nbest])
    return rows


def combine(
    transcripts: Sequence[Sequence[Transcript]],  # of each model
    frames: Sequence[Tensor],  # of each model, (T, V), log-probabilities
    *,
    blank: int = 0,
) -> list[Transcript]:
    """The transcripts of all models, each once, the one with the fewest expected errors first.

    Errors are those of words, or of tokens where there are no words. A transcript is right with the mean of the
    probabilities that the models give it among all of them, the language model included.
    """
    distinct = {(*each.tokens, -1, *each.words): each for nbest in reversed(transcripts) for each in reversed(nbest)}
    candidates = list(distinct.values())
    if not candidates:
        return []
    acoustic = np.array([_log_probabilities(candidates, each, blank=blank) for each in frames])  # (models, N)
    scores = acoustic + np.array([each.score - each.acoustic for each in candidates])
    probabilities = np.exp(scores - np.logaddexp.reduce(scores, axis=1, keepdims=True)).mean(axis=0)
    texts = [each.words or each.tokens for each in candidates]
    references = np.flatnonzero(probabilities >= min(NEGLIGIBLE, float(probabilities.max())))
    distances = np.array([[edit_distance(text, texts[other]) for other in references] for text in texts])
    risks = distances @ probabilities[references]
    order = np.lexsort((-probabilities, risks))
    means = acoustic.mean(axis=0)
    return [replace(candidates[place], score=-float(risks[place]), acoustic=float(means[place])) for place in order]


def _log_probabilities(candidates: Sequence[Transcript], frames: Tensor, *, blank: int) -> NDArray[np.float64]:  # (N,)
    """log p(tokens | frames) of each candidate, summed over all its paths."""
    count = len(candidates)
    tables = frames.double().unsqueeze(0).expand(count, -1, -1).contiguous()
    targets = [torch.tensor(each.tokens, dtype=torch.long) for each in candidates]
    losses, feasible = ctc_loss(tables, torch.full((count,), len(frames)), targets, blank=blank)
    return np.where(feasible.numpy(), -losses.numpy(), -np.inf)
