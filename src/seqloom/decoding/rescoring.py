"""N-best rescoring: the log-probabilities of whole texts by a language model."""

from collections.abc import Sequence

import numpy as np
import torch

from seqloom import state as states
from seqloom.decoding.frames.language_models import LM, BackoffModel, Doubles, Integers, NeuralLM
from seqloom.decoding.tokens.lm_scorer import known_ids


@torch.no_grad()
def text_log_probabilities(
    lm: LM,
    texts: Sequence[Sequence[int]],  # N texts of the lexicon's words, or of tokens without one
    *,
    ended: Sequence[bool],  # whether the end of each text counts, too
) -> Doubles:  # (N,)
    """log p of each text by the language model; -inf if it contains an impossible word."""
    ids, end = known_ids(lm), lm.end if isinstance(lm, NeuralLM) else lm.model.end
    lengths = np.array([len(text) + is_ended for text, is_ended in zip(texts, ended, strict=True)], np.int64)
    words = np.full((len(texts), lengths.max(initial=0)), end)
    for row, text in zip(words, texts, strict=True):
        row[: len(text)] = ids[list(text)]
    read = words.clip(min=0)
    values = _neural(lm, read) if isinstance(lm, NeuralLM) else _ngram(lm.model, read)
    values[words < 0] = -np.inf
    is_real = np.arange(words.shape[1]) < lengths[:, None]
    log_probs: Doubles = np.where(is_real, values, 0.0).sum(axis=1)
    return log_probs


def _ngram(model: BackoffModel, words: Integers) -> Doubles:  # (N, T) → (N, T)
    """log p of each word after those before it."""
    values, state = np.zeros(words.shape), model.start_state(len(words))
    for step, column in enumerate(words.T):
        values[:, step] = model.log_probability(column, state)
        state = model.advance(state, column)
    return values


def _neural(lm: NeuralLM, words: Integers) -> Doubles:  # (N, T) → (N, T)
    values, state = np.zeros(words.shape), states.repeat(lm.state, len(words))
    last = np.full(len(words), lm.start)
    for step, column in enumerate(words.T):
        scores, state = lm.step(torch.from_numpy(last), state)
        values[:, step] = scores.double().cpu().numpy()[np.arange(len(words)), column]
        last = column
    return values
