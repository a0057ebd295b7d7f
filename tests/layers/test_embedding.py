import torch
from hypothesis import given
from hypothesis import strategies as st

from seqloom.layers.embedding import PADDING, Embedding


@given(st.lists(st.lists(st.integers(0, 6), min_size=3, max_size=3), min_size=1, max_size=4))
def test_equals_a_product_with_one_hot_vectors(tokens: list[list[int]]) -> None:
    layer = Embedding(7, 4).double()
    actual = layer(torch.tensor(tokens))
    expected = torch.eye(7, dtype=torch.float64)[torch.tensor(tokens)] @ layer.weight
    assert torch.equal(actual, expected)


def test_padding_is_zero_and_has_no_gradient() -> None:
    torch.manual_seed(0)
    layer = Embedding(7, 4, scale=0.5)
    assert torch.equal(layer.weight[PADDING], torch.zeros(4))
    assert 0.3 < layer.weight[1:].abs().max() <= 0.5
    layer(torch.tensor([[1, 0, 0], [2, 2, 0]])).sum().backward()
    assert layer.weight.grad is not None
    assert layer.weight.grad.sum(dim=1).tolist() == [0, 4, 8, 0, 0, 0, 0]


def test_dropout_is_active_in_training_only() -> None:
    torch.manual_seed(0)
    layer = Embedding(100, 50, dropout=0.4)
    tokens = torch.arange(1, 100).view(1, -1)
    dropped = layer(tokens)
    kept = dropped != 0
    # Of 4950 samples the fraction is within 0.03 (four standard deviations).
    assert abs(kept.float().mean().item() - 0.6) < 0.03
    layer.eval()
    torch.testing.assert_close(dropped[kept], layer(tokens)[kept] / 0.6)
