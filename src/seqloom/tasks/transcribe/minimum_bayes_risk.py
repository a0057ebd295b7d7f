"""Minimum Bayes risk decoding with several CTC models: the transcript with the fewest expected errors.

Models that were trained apart place the same token in different frames, so that the mean of their probabilities at each
frame spells a token twice, or not at all. Their transcripts can be compared instead (Goel & Byrne 2000).
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from torch import Tensor

from seqloom.decoding.frames.frame_search import FrameSearch, Guide, Transcript
from seqloom.decoding.frames.prefix_beam import PrefixBeam
from seqloom.layers.ctc import ctc_log_probabilities
from seqloom.metrics.text import edit_distances

CANDIDATES = 16
"""Transcripts of each model that are compared, at least."""
NEGLIGIBLE = 1e-4
"""Probability of a transcript below which it does not count among those that may be right."""


def decode_minimum_bayes_risk(
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
    has_lexicon, rows = guide is not None and guide.lexicon is not None, []
    for row, nbest_lists in enumerate(zip(*proposals, strict=True)):
        frames = [table[row, : int(lengths[row])] for table in log_probabilities]
        rows.append(rank_by_risk(nbest_lists, frames, blank=blank, has_lexicon=has_lexicon)[:nbest])
    return rows


def rank_by_risk(
    nbest_lists: Sequence[Sequence[Transcript]],  # of each model
    frames: Sequence[Tensor],  # of each model, (T, V), log-probabilities
    *,
    blank: int = 0,
    has_lexicon: bool = False,
) -> list[Transcript]:
    """The texts of all models, each once in its most probable spelling, the one with the fewest expected errors first.

    A text is a sequence of words with a lexicon, else of tokens; errors are those of words or tokens. A text is right
    with the mean of the probabilities that the models give it among all of them, the language model included. Its
    probability is the sum over the spellings that were found.
    """
    texts: dict[tuple[int, ...], dict[tuple[int, ...], Transcript]] = {}  # with the spellings of each
    for each in (transcript for nbest in nbest_lists for transcript in nbest):
        text = tuple(each.words if has_lexicon else each.tokens)
        texts.setdefault(text, {}).setdefault(tuple(each.tokens), each)
    if not texts:
        return []
    index = {tokens: place for place, tokens in enumerate(dict.fromkeys(t for group in texts.values() for t in group))}
    by_spelling = np.array([ctc_log_probabilities(table, list(index), blank=blank) for table in frames])  # (models, S)
    acoustic, candidates = np.empty((len(frames), len(texts))), []  # (models, N)
    for column, spellings in enumerate(texts.values()):
        group = by_spelling[:, [index[tokens] for tokens in spellings]]
        acoustic[:, column] = np.logaddexp.reduce(group, axis=1)
        candidates.append(list(spellings.values())[int(group.mean(axis=0).argmax())])
    scores = acoustic + np.array([each.score - each.acoustic for each in candidates])
    probabilities = np.exp(scores - np.logaddexp.reduce(scores, axis=1, keepdims=True)).mean(axis=0)
    references = np.flatnonzero(probabilities >= min(NEGLIGIBLE, float(probabilities.max())))
    distances = edit_distances(list(texts), [list(texts)[place] for place in references])
    risks, means = distances @ probabilities[references], acoustic.mean(axis=0)
    order = np.lexsort((-probabilities, risks))
    return [replace(candidates[place], score=-float(risks[place]), acoustic=float(means[place])) for place in order]
