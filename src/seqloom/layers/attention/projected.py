"""Attention in projections of queries, keys and values, by one or several heads (Vaswani et al. 2017)."""

from torch import Tensor, nn

from seqloom.layers.attention.attention import AttentionMechanism, ScoredAttention
from seqloom.layers.linear import Linear


class ProjectedAttention(AttentionMechanism):
    """Heads that attend with their own projections; ``attention`` defines the weights of a head.

    ::

        α_hs = weights(W_h q, U_h k)_s,  context = [c_1; …; c_H],  c_h = Σ_s α_hs V_h k_s

    The heads share the parameters of the score. Each has its own W, U and V.
    """

    def __init__(
        self,
        query_size: int,
        key_size: int,
        *,
        attention: ScoredAttention,  # of one head; its queries and keys are the projected ones
        heads: int = 1,
        value_size: int,  # width of the context of each head
    ) -> None:
        if attention.stateful and heads > 1:
            raise ValueError(f"heads is {heads}, expected 1: hard attention chooses one position per step")
        for name, value in (("heads", heads), ("value_size", value_size)):
            if value < 1:
                raise ValueError(f"{name} must be at least 1, got {value}")
        super().__init__(query_size, key_size, context_size=heads * value_size)
        self.heads = heads
        self.stateful = attention.stateful
        self.attention = attention
        self.query = Linear(query_size, heads * attention.query_size, bias=False)
        self.key = nn.Linear(key_size, heads * attention.key_size, bias=False)
        self.value = nn.Linear(key_size, heads * value_size, bias=False)
        for linear in (self.query, self.key, self.value):
            nn.init.xavier_uniform_(linear.weight)

    def prepare(self, keys: Tensor) -> Tensor:  # (B, S, heads · A)
        return self.attention.prepare(self.key(keys).unflatten(-1, (self.heads, -1))).flatten(-2)

    def prepare_values(self, values: Tensor) -> Tensor:
        projected: Tensor = self.value(values)
        return projected

    def weights(
        self, query: Tensor, prepared: Tensor, *, mask: Tensor | None = None, steps: Tensor | None = None
    ) -> Tensor:  # (B, heads, T, S)
        queries, keys = self._fold(self.query(query)), self._fold(prepared)
        if mask is not None:
            mask = mask.repeat_interleave(self.heads, dim=0)
        if steps is not None:
            steps = steps.repeat_interleave(self.heads, dim=0)
        weights: Tensor = self.attention.weights(queries, keys, mask=mask, steps=steps).unflatten(0, (-1, self.heads))
        return weights

    def mix(self, weights: Tensor, values: Tensor) -> Tensor:
        by_head: Tensor = values.unflatten(-1, (self.heads, -1)).transpose(1, 2)  # (B, heads, S, V)
        return (weights @ by_head).transpose(1, 2).flatten(2)

    def _fold(self, x: Tensor) -> Tensor:  # (B, T, heads · D) → (B · heads, T, D)
        by_head: Tensor = x.unflatten(-1, (self.heads, -1)).transpose(1, 2)
        return by_head.flatten(0, 1)
