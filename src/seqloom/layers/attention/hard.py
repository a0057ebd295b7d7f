"""Hard attention: one position at a time, sampled, with the estimator of its gradient (Xu et al. 2015)."""

from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from seqloom.layers.attention.attention import AttentionMechanism, masked_softmax


class HardAttention(AttentionMechanism):
    """The value of one position s ~ softmax_s(score(q, k_s)) when training, of the most probable one otherwise.

    A sample has no gradient. ``estimator`` gives the term that stands in for it, from the losses that followed:

    ::

        Σ_t (L_t + … + L_T - (T - t + 1) b) log p(s_t) - entropy · H(p_t)
        b ← decay · b + (1 - decay) · mean of L

    The expectation of its gradient is what is missing in the gradient of the expected loss (REINFORCE, Williams 1992):
    a sample answers for the losses from its own step on, and the baseline b, a moving average over earlier batches,
    takes away variance and nothing else. The entropy term keeps the choice open.
    """

    baseline: Tensor
    remembers: ClassVar[bool] = True

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
        self._drawn: list[tuple[Tensor, Tensor]] = []  # log-probability and entropy (B, T) of each call

    def prepare(self, keys: Tensor) -> Tensor:
        """What does not depend on the query. Here a sequence begins: earlier samples are forgotten."""
        self._drawn.clear()
        return super().prepare(keys)

    def weights(
        self,
        query: Tensor,
        prepared: Tensor,
        *,
        mask: Tensor | None = None,
        steps: Tensor | None = None,  # noqa: ARG002  for those that look somewhere else at each step
    ) -> Tensor:
        """One where it looks, zero elsewhere."""
        probabilities = masked_softmax(self.score(query, prepared), mask)
        if not probabilities.shape[2]:
            return probabilities
        fitness = probabilities.detach()
        if self.training:
            # The first of exponential clocks with these rates: a sample, and never of what has no probability.
            fitness = fitness / torch.empty_like(fitness).exponential_()
        chosen = fitness.argmax(dim=-1, keepdim=True)
        if self.training and torch.is_grad_enabled():
            logarithms = torch.where(probabilities > 0, probabilities, 1).log()
            spread = -(probabilities * logarithms).sum(dim=-1)
            self._drawn.append((logarithms.gather(-1, chosen).squeeze(-1), spread))
        return torch.zeros_like(fitness).scatter(-1, chosen, 1).masked_fill(fitness == 0, 0)

    def estimator(
        self,
        loss: Tensor,  # (B, T), of every step since the keys were prepared
        mask: Tensor | None = None,  # (B, T), True where there is one
    ) -> Tensor:  # ()
        """What to add to the sum of the losses; its value means nothing. The samples are forgotten."""
        if not self._drawn:
            raise RuntimeError("there are no samples: they are kept when training, until the estimator is asked for")
        chosen, spread = (torch.cat(parts, dim=1) for parts in zip(*self._drawn, strict=True))
        self._drawn.clear()
        if chosen.shape != loss.shape:
            raise ValueError(f"loss has shape {tuple(loss.shape)}, expected {tuple(chosen.shape)}, one for each sample")
        real = torch.ones_like(loss) if mask is None else mask.to(loss.dtype)
        found = loss.detach() * real if mask is None else loss.detach().masked_fill(~mask, 0)
        cost = _from_here(found) - _from_here(real) * self.baseline.to(loss.dtype)
        if real.any():
            self.baseline.lerp_((found.sum() / real.sum()).to(self.baseline.dtype), 1 - self.decay)
        return (real * (cost * chosen - self.entropy * spread)).sum()

    def __getstate__(self) -> dict[str, Any]:
        """Samples are not part of a module: they belong to a gradient that is being computed."""
        return {**self.__dict__, "_drawn": []}


def estimator(
    module: nn.Module,
    loss: Tensor,  # (B, T), of every step
    mask: Tensor | None = None,  # (B, T)
) -> Tensor:  # ()
    """The estimators of all hard attention in a module, to be added to the sum of the losses; zero without any."""
    found = [part.estimator(loss, mask) for part in module.modules() if isinstance(part, HardAttention)]
    return torch.stack(found).sum() if found else loss.new_zeros(())


def _from_here(
    amounts: Tensor,  # (B, T)
) -> Tensor:  # (B, T)
    """The sum of each element and all later ones."""
    return amounts.flip(1).cumsum(dim=1).flip(1)
