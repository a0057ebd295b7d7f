"""Which keys of a piano sound in a frame: independent of each other, or jointly by NADE (Larochelle & Murray 2011)."""

import torch
from torch import Tensor, nn
from torch.nn import functional

GREEDY_LOGIT = 0.0  # a key whose logit is larger is more probably sounding than silent


class IndependentNotes(nn.Module):
    """p(x_k = 1 | h) = σ(b_k + (B h)_k) for each key k."""

    def __init__(self, size: int, keys: int) -> None:
        super().__init__()
        self.bias = nn.Linear(size, keys)

    def forward(self, hidden: Tensor, frames: Tensor) -> Tensor:  # noqa: ARG002  (..., size), (..., K) → (..., K)
        """The log-odds of each key."""
        logits: Tensor = self.bias(hidden)
        return logits

    def sample(self, hidden: Tensor, *, temperature: float, generator: torch.Generator) -> Tensor:  # (B, K)
        """Draw a frame from each of B distributions."""
        return _draw(self.bias(hidden), temperature, generator)


class Nade(nn.Module):
    """The keys in ascending order, each given the lower ones that sound.

    p(x_k = 1 | x_<k, h) = σ(b_k + (B h)_k + V_k · tanh(c + C h + Σ_{j<k} x_j W_j)), whose biases depend on the hidden
    state h of the sequence so far (Boulanger-Lewandowski et al. 2012).
    """

    def __init__(self, size: int, keys: int, *, units: int) -> None:
        super().__init__()
        self.keys = keys
        self.bias = nn.Linear(size, keys)
        self.unit_bias = nn.Linear(size, units)
        self.inputs = nn.Parameter(torch.empty(keys, units).normal_(std=0.1))  # W
        self.outputs = nn.Parameter(torch.empty(keys, units).normal_(std=0.1))  # V

    def forward(self, hidden: Tensor, frames: Tensor) -> Tensor:  # (..., size), (..., K) → (..., K)
        """The log-odds of each key, given the lower keys of the frame."""
        lead = frames.shape[:-1]
        x = frames.reshape(-1, self.keys)
        below = x.cumsum(dim=-1) - x  # (N, K), sounding keys below each key
        # The units change only above a sounding key: they are computed once for each, not for all K keys.
        most = int(x.sum(dim=-1).max()) if len(x) else 0
        numbers = torch.arange(self.keys, device=x.device).expand(x.shape)
        ordered = numbers.masked_fill(x == 0, self.keys).sort(dim=-1).values[:, :most]  # (N, S), ascending
        rows = torch.cat([self.inputs, self.inputs.new_zeros(1, self.inputs.shape[1])])
        added = functional.pad(rows[ordered].cumsum(dim=1), (0, 0, 1, 0))  # (N, S + 1, units)
        units = torch.tanh(self.unit_bias(hidden).reshape(-1, 1, added.shape[-1]) + added)
        logits = functional.linear(units, self.outputs)  # (N, S + 1, K)
        chosen = logits.gather(1, below.long().unsqueeze(1)).squeeze(1)
        both: Tensor = self.bias(hidden) + chosen.reshape(*lead, self.keys)
        return both

    def sample(self, hidden: Tensor, *, temperature: float, generator: torch.Generator) -> Tensor:  # (B, K)
        """Draw a frame from each of B distributions, key by key."""
        bias, units = self.bias(hidden), self.unit_bias(hidden)
        drawn = torch.zeros_like(bias)
        for key in range(self.keys):
            logits = bias[:, key] + torch.tanh(units) @ self.outputs[key]
            drawn[:, key] = _draw(logits, temperature, generator)
            units = units + drawn[:, key, None] * self.inputs[key]
        return drawn


def _draw(logits: Tensor, temperature: float, generator: torch.Generator) -> Tensor:
    """1 where a key sounds; temperature 0: where that is more probable than not."""
    if temperature == 0:
        return (logits > GREEDY_LOGIT).to(logits.dtype)
    return torch.bernoulli((logits / temperature).sigmoid(), generator=generator)
