"""CTC prefix scores of a search over tokens (Watanabe et al. 2017): log p(token | prefix, frames) by a CTC model."""

from typing import NamedTuple

import torch
from torch import Tensor

from seqloom.decoding.tokens.fusion import Scorer


class PrefixState(NamedTuple):
    """A prefix of each row; ``kernels.ctc.prefix`` explains n and b."""

    rows: Tensor  # (R,), recording of each prefix
    last: Tensor  # (R,), last token; -1: the prefix is empty
    nonblank: Tensor  # (R, T + 1), n
    blanks: Tensor  # (R, T + 1), b
    totals: Tensor  # (R,), log-probability of the prefix
    started: Tensor  # (R,), whether the token before the first one has been read


def ctc_prefix_scorer(
    log_probabilities: Tensor,  # (B, T, V), including the blank
    lengths: Tensor,  # (B,), frames of each row
    *,
    blank: int,
    end: int,  # token that ends a sequence; not a token of CTC
    weight: float = 1.0,
) -> Scorer:
    """Log-probabilities that add up to log p(sequence | frames) at the end token, summed over all alignments."""
    from seqloom.kernels.ctc import prefix as kernel  # importing numba takes 0.5 s

    frames = log_probabilities.detach().cpu().double().contiguous()
    table, probs, sizes = frames.numpy(), frames.exp().numpy(), lengths.cpu().numpy()
    batch, time, size = frames.shape
    silent = torch.cat([frames.new_zeros(batch, 1), frames[:, :, blank].cumsum(dim=1)], dim=1)

    @torch.no_grad()
    def step(tokens: Tensor, state: PrefixState) -> tuple[Tensor, PrefixState]:
        if bool(state.started.all()):
            new = PrefixState(
                state.rows,
                tokens.cpu(),
                torch.empty_like(state.nonblank),
                torch.empty_like(state.blanks),
                torch.empty_like(state.totals),
                state.started,
            )
            before = (state.rows, new.last, state.last, state.nonblank, state.blanks)
            written = (new.nonblank, new.blanks, new.totals)
            kernel.extend(table, sizes, *(part.numpy() for part in before), blank, *(part.numpy() for part in written))
        else:
            new = state._replace(started=torch.ones_like(state.started))
        scores = frames.new_empty(len(tokens), size)
        parts = (part.numpy() for part in (new.rows, new.last, new.nonblank, new.blanks))
        kernel.extension_log_probs(table, probs, sizes, *parts, blank, end, scores.numpy())
        impossible = new.totals == -torch.inf
        scores = scores - new.totals.masked_fill(impossible, 0).unsqueeze(1)
        scores[impossible] = -torch.inf
        return scores.clamp_(max=0).to(log_probabilities.device), new  # rounding may exceed 0

    start = PrefixState(
        torch.arange(batch),
        torch.full((batch,), -1),
        torch.full((batch, time + 1), -torch.inf, dtype=torch.float64),
        silent,
        torch.zeros(batch, dtype=torch.float64),
        torch.zeros(batch, dtype=torch.bool),
    )
    return Scorer(step, start, weight)
