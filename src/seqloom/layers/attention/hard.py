"""Hard attention: one sampled position per step, with a gradient estimator (Xu et al. 2015)."""

from typing import Any

import torch
from torch import Tensor, nn

from seqloom.layers.attention.attention import ScoredAttention, masked_softmax


class HardAttention(ScoredAttention):
    """The value of one position, s ~ softmax_s(score(q, k_s)) in training, of the most probable one in evaluation.

    A sample has no gradient. ``estimator`` returns the surrogate loss for it, given the losses of all steps:

    ::

        Σ_t (L_t + … + L_T - (T - t + 1) b) log p(s_t) - entropy · H(p_t)
        b ← decay · b + (1 - decay) · mean of L

    The expectation of its gradient is the missing part of the gradient of the expected loss (REINFORCE, Williams
    1992). A sample is charged with the losses from its step on; the baseline b, a moving average over earlier batches,
    reduces the variance. The entropy term encourages exploration.
    """

    baseline: Tensor
    stateful = True

    def __init__(
        self,
        query_size: int,
        key_size: int,
        *,
        score: str = "additive",
        size: int | None = None,
        entropy: float = 0.002,
        decay: float = 0.9,
    ) -> None:
        super().__init__(query_size, key_size, score=score, size=size)
        self.entropy = entropy
        self.decay = decay
        self.register_buffer("baseline", torch.zeros(()))
        self._samples: list[tuple[Tensor, Tensor]] = []  # log-probability and entropy (B, T) of each call

    def prepare(self, keys: Tensor) -> Tensor:
        """Compute the part of the score that does not depend on the query, and discard the samples so far."""
        self._samples.clear()
        return super().prepare(keys)

    def weights(
        self,
        query: Tensor,
        prepared: Tensor,
        *,
        mask: Tensor | None = None,
        steps: Tensor | None = None,  # noqa: ARG002  used by local attention
    ) -> Tensor:
        """Return one at the chosen position, zero elsewhere."""
        probabilities = masked_softmax(self.score(query, prepared), mask)
        if not probabilities.shape[2]:
            return probabilities
        race = probabilities.detach()
        if self.training:
            # Sample by exponential races, which never choose a position of probability zero.
            race = race / torch.empty_like(race).exponential_()
        chosen = race.argmax(dim=-1, keepdim=True)
        if self.training and torch.is_grad_enabled():
            log_probabilities = torch.where(probabilities > 0, probabilities, 1).log()
            entropy = -(probabilities * log_probabilities).sum(dim=-1)
            self._samples.append((log_probabilities.gather(-1, chosen).squeeze(-1), entropy))
        return torch.zeros_like(race).scatter(-1, chosen, 1).masked_fill(race == 0, 0)

    def estimator(
        self,
        loss: Tensor,  # (B, T), loss of every step since the keys were prepared
        mask: Tensor | None = None,  # (B, T), True where real
    ) -> Tensor:  # ()
        """Return the term to add to the sum of the losses, and discard the samples; only its gradient has a meaning."""
        if not self._samples:
            raise RuntimeError(
                "there are no samples: run the layer in training mode with gradients enabled, then call estimator once"
            )
        chosen, entropy = (torch.cat(parts, dim=1) for parts in zip(*self._samples, strict=True))
        self._samples.clear()
        if chosen.shape != loss.shape:
            raise ValueError(f"loss has shape {tuple(loss.shape)}, expected {tuple(chosen.shape)}: one per sample")
        real = torch.ones_like(loss) if mask is None else mask.to(loss.dtype)
        losses = loss.detach() * real if mask is None else loss.detach().masked_fill(~mask, 0)
        cost = _suffix_sums(losses) - _suffix_sums(real) * self.baseline.to(loss.dtype)
        if real.any():
            self.baseline.lerp_((losses.sum() / real.sum()).to(self.baseline.dtype), 1 - self.decay)
        return (real * (cost * chosen - self.entropy * entropy)).sum()

    def __getstate__(self) -> dict[str, Any]:
        """Exclude the samples: they belong to the gradient that is being computed."""
        return {**self.__dict__, "_samples": []}


def estimator(
    module: nn.Module,
    loss: Tensor,  # (B, T), loss of every step
    mask: Tensor | None = None,  # (B, T)
) -> Tensor:  # ()
    """Sum the estimators of all hard attention in a module, to be added to the sum of the losses; zero if none."""
    terms = [part.estimator(loss, mask) for part in module.modules() if isinstance(part, HardAttention)]
    return torch.stack(terms).sum() if terms else loss.new_zeros(())


def _suffix_sums(
    values: Tensor,  # (B, T)
) -> Tensor:  # (B, T)
    """Sum of each element and all later ones."""
    return values.flip(1).cumsum(dim=1).flip(1)
