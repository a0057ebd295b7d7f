"""Attention scores: how well a query matches a key."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable

import torch
from torch import Tensor, nn


class Score(nn.Module, ABC):
    """Maps queries (B, T, Q) and keys (B, S, K) to (B, T, S). What depends on the keys only is computed once."""

    def __init__(self, query_size: int, key_size: int) -> None:
        super().__init__()
        for name, size in (("query_size", query_size), ("key_size", key_size)):
            if size < 1:
                raise ValueError(f"{name} must be at least 1, got {size}")
        self.query_size = query_size
        self.key_size = key_size

    @abstractmethod
    def prepare(
        self,
        keys: Tensor,  # (B, S, K)
    ) -> Tensor:  # (B, S, A)
        """Compute the part of the score that depends on the keys only."""

    @abstractmethod
    def forward(
        self,
        query: Tensor,  # (B, T, Q)
        prepared: Tensor,  # (B, S, A)
    ) -> Tensor:  # (B, T, S)
        """Return the scores of all pairs."""


class ProductScore(Score):
    """A dot product of the query, scaled, and the prepared keys; compiled steps compute it so."""

    def scale_query(
        self,
        query: Tensor,  # (…, Q)
    ) -> Tensor:  # (…, A)
        """Return the query as it is multiplied by the prepared keys."""
        return query

    def forward(self, query: Tensor, prepared: Tensor) -> Tensor:
        return self.scale_query(query) @ prepared.transpose(1, 2)


class Dot(ProductScore):
    """q · k."""

    def __init__(self, query_size: int, key_size: int) -> None:
        super().__init__(query_size, key_size)
        if query_size != key_size:
            raise ValueError(
                f"query_size is {query_size} and key_size {key_size}: a dot product needs equal sizes, the scores "
                "'multiplicative' and 'additive' do not"
            )

    def prepare(self, keys: Tensor) -> Tensor:
        return keys


class Scaled(Dot):
    """q · k / √K (Vaswani et al. 2017): its variance does not depend on the width."""

    def scale_query(self, query: Tensor) -> Tensor:
        return query / math.sqrt(self.key_size)


class Cosine(Dot):
    """g · cos(q, k) with a learned factor g, initially 10 (key strength of Graves et al. 2014).

    A cosine alone lies between -1 and 1, so that no weight could exceed another more than e² times.
    """

    def __init__(self, query_size: int, key_size: int) -> None:
        super().__init__(query_size, key_size)
        self.factor = nn.Parameter(torch.tensor(10.0))

    def prepare(self, keys: Tensor) -> Tensor:
        return _normalize(keys)

    def scale_query(self, query: Tensor) -> Tensor:
        return self.factor * _normalize(query)


def _normalize(x: Tensor) -> Tensor:
    """x / √(|x|² + 1e-8): finite slopes also at zero."""
    return x * (x.square().sum(dim=-1, keepdim=True) + 1e-8).rsqrt()


class Multiplicative(ProductScore):
    """q · W k (Luong et al. 2015, "general")."""

    def __init__(self, query_size: int, key_size: int) -> None:
        super().__init__(query_size, key_size)
        self.key = nn.Linear(key_size, query_size, bias=False)
        nn.init.xavier_uniform_(self.key.weight)

    def prepare(self, keys: Tensor) -> Tensor:
        prepared: Tensor = self.key(keys)
        return prepared


class Additive(Score):
    """v · tanh(W q + U k + b) (Bahdanau et al. 2015)."""

    def __init__(self, query_size: int, key_size: int, *, size: int) -> None:
        super().__init__(query_size, key_size)
        if size < 1:
            raise ValueError(f"size must be at least 1, got {size}")
        self.query = nn.Linear(query_size, size, bias=False)
        self.key = nn.Linear(key_size, size)
        self.combine = nn.Linear(size, 1, bias=False)
        for linear in (self.query, self.key, self.combine):
            nn.init.xavier_uniform_(linear.weight)
        nn.init.zeros_(self.key.bias)

    # Uses tanh(a) = 2σ(2a) - 1, because torch's sigmoid takes a seventh of the time of its tanh.
    def prepare(self, keys: Tensor) -> Tensor:
        prepared: Tensor = 2 * self.key(keys)
        return prepared

    def forward(self, query: Tensor, prepared: Tensor) -> Tensor:
        mixed = torch.sigmoid((2 * self.query(query)).unsqueeze(2) + prepared.unsqueeze(1))  # (B, T, S, A)
        weight = self.combine.weight[0]
        scores: Tensor = mixed @ (2 * weight) - weight.sum()
        return scores


class SingleLayer(Score):
    """tanh(w · [q; k] + b): a network of one layer and one unit that reads query and key."""

    def __init__(self, query_size: int, key_size: int) -> None:
        super().__init__(query_size, key_size)
        self.query = nn.Linear(query_size, 1, bias=False)
        self.key = nn.Linear(key_size, 1)
        for linear in (self.query, self.key):
            bound = math.sqrt(6 / (query_size + key_size + 1))  # Xavier for the whole layer
            nn.init.uniform_(linear.weight, -bound, bound)
        nn.init.zeros_(self.key.bias)

    def prepare(self, keys: Tensor) -> Tensor:
        prepared: Tensor = self.key(keys)
        return prepared

    def forward(self, query: Tensor, prepared: Tensor) -> Tensor:
        return torch.tanh(self.query(query) + prepared.transpose(1, 2))


PLAIN_SCORES: dict[str, Callable[[int, int], Score]] = {
    "dot": Dot,
    "scaled": Scaled,
    "cosine": Cosine,
    "multiplicative": Multiplicative,
    "single_layer": SingleLayer,
}
SCORES = (*PLAIN_SCORES, "additive")


def build_score(
    score: str,
    query_size: int,
    *,
    key_size: int,
    size: int | None = None,  # inner width of the additive score; None: query_size
) -> Score:
    """Build a score from its name."""
    if score not in SCORES:
        raise ValueError(f"score is {score!r}, expected one of {', '.join(SCORES)}")
    if score == "additive":
        return Additive(query_size, key_size, size=query_size if size is None else size)
    if size is not None:
        raise ValueError(f"size is {size}, but only the additive score has a size, not {score!r}")
    return PLAIN_SCORES[score](query_size, key_size)
