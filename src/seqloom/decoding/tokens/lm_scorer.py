"""A language model of tokens as a part of the scores of a search (shallow fusion, Gülçehre et al. 2015)."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from seqloom import state as states
from seqloom.decoding.frames.language_models import LM, Integers, NeuralLM
from seqloom.decoding.tokens.fusion import Scorer


def lm_scorer(lm: LM, *, batch: int, end: int, weight: float = 1.0) -> Scorer:
    """log p(token | tokens before) by the language model; unknown tokens are impossible if it has no unknown word."""
    ids = known_ids(lm)
    last = ids.copy()  # what the model reads after each token
    if isinstance(lm, NeuralLM):
        last[end], ids[end] = lm.start, lm.end
        step, state = lm.step, states.repeat(lm.state, batch)
    else:
        model = lm.model
        last[end] = ids[end] = model.end  # the end is followed by a new start
        state = (torch.from_numpy(model.start_state(batch)),)

        def step(tokens: Tensor, state: Any) -> tuple[Tensor, Any]:
            contexts = model.advance(state[0].numpy(), tokens.numpy())
            return torch.from_numpy(model.next(contexts)), (torch.from_numpy(contexts),)

    columns, read = torch.from_numpy(ids.clip(min=0)), torch.from_numpy(last.clip(min=0))
    impossible = torch.from_numpy(ids < 0)

    @torch.no_grad()
    def fused_step(tokens: Tensor, state: Any) -> tuple[Tensor, Any]:
        scores, state = step(read[tokens.cpu()], state)
        return scores.cpu()[:, columns].masked_fill_(impossible, -torch.inf).to(tokens.device), state

    return Scorer(fused_step, state, weight)


def known_ids(lm: LM) -> Integers:
    """The id of each token, or word, in the language model; -1 if it is impossible."""
    return np.where(lm.vocabulary_ids < 0, -1 if lm.unknown is None else lm.unknown, lm.vocabulary_ids)
