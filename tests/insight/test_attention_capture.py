"""Captured attention is the weights that were used, and capturing changes nothing (law 7)."""

import copy
from typing import Any, Literal

import pytest
import torch
from tests.contracts.attention_layers import SOURCE, layers, memory
from tests.contracts.registry import INPUT, make_mask, noise
from torch import Tensor, nn

from seqloom import state as states
from seqloom.cells import LSTM, Zoneout
from seqloom.insight import capture_attention
from seqloom.layers.attention.attention import Attention
from seqloom.layers.attention.decoder_attention import BahdanauAttention, LuongAttention
from seqloom.layers.attention.hard import HardAttention
from seqloom.layers.dropout import Dropout
from seqloom.layers.layer import Layer, Memory, coverage
from seqloom.layers.stack import Stack
from seqloom.layers.transformer.block import TransformerBlock
from seqloom.models import pooling

ATTENDING = pytest.mark.parametrize("name", [name for name in layers() if "before" in name or "after" in name])


@ATTENDING
def test_captured_weights_are_those_of_each_step(name: str) -> None:
    layer, mask = layers()[name], make_mask([5, 2, 0], 5)
    start = layer.start(3, memory([3, 0, 4], 4), coverage=True)
    x = noise(3, 5, INPUT)
    (_, state), (result,) = capture_attention(layer, x, mask, start)
    assert result.weights.shape == (3, 1, 5, 4)
    assert not result.weights[:, 0][~mask].any()
    expected = coverage(state)
    assert expected is not None
    torch.testing.assert_close(result.weights.sum(dim=(1, 2)), expected, rtol=0, atol=1e-12)
    for step in range(5):  # one by one: the same rows
        (_, start), (single,) = capture_attention(layer, x=x[:, step : step + 1], state=start)
        torch.testing.assert_close(single.weights[0, 0, 0], result.weights[0, 0, step], rtol=0, atol=1e-12)
    _, (result,) = capture_attention(layer, x[:, :0], mask[:, :0], start)
    assert result.weights.shape == (3, 1, 0, 4)


@pytest.mark.parametrize("name", ["bahdanau-additive", "luong-multiplicative"])
def test_hypotheses_are_rows(name: str) -> None:
    layer = layers()[name]
    state = states.repeat(layer.start(2, memory([3, 4], 4)), 2)
    x = noise(4, 3, INPUT)
    _, (result,) = capture_attention(layer, x, None, state)
    for row in range(4):
        own = states.select(state, torch.tensor([row]))
        _, (alone,) = capture_attention(layer, x[row : row + 1], None, own)
        torch.testing.assert_close(result.weights[row : row + 1], alone.weights, rtol=0, atol=1e-12)


class Decoder(nn.Module):
    """Both kinds of attention, with everything that is random."""

    def __init__(self) -> None:
        super().__init__()
        self.hard = HardAttention(5, SOURCE)
        before = BahdanauAttention(Zoneout(LSTM(INPUT + SOURCE, 5), 0.3), self.hard)
        after = LuongAttention(Attention(5 + SOURCE, SOURCE), 5)
        self.layer: Layer = Stack([before, after], dropout=Dropout(0.2))

    def forward(self, x: Tensor, mask: Tensor) -> Any:
        source = states.apply(
            lambda tensor: tensor.float() if tensor.is_floating_point() else tensor, memory([3, 4], 4)
        )
        return self.layer(x, mask, self.layer.start(2, source))


def test_capturing_changes_nothing() -> None:
    torch.manual_seed(0)
    model = Decoder()
    x, mask = noise(2, 6, INPUT, dtype=torch.float32), make_mask([6, 3], 6)
    results = []
    for module, captured in ((model, True), (copy.deepcopy(model), False)):
        torch.manual_seed(1)
        outputs = [(capture_attention(module, x, mask)[0] if captured else module(x, mask))[0] for _ in range(3)]
        estimate = module.hard.estimator(outputs[-1].sum(dim=-1), mask)
        (outputs[-1].sum() + estimate).backward()
        results.append([*outputs, estimate, *[parameter.grad for parameter in module.parameters()], torch.rand(1)])
    for with_capture, without_capture in zip(*results, strict=True):
        assert torch.equal(with_capture, without_capture)


def test_samples_and_noise_are_replayed() -> None:
    torch.manual_seed(2)
    layer = BahdanauAttention(Zoneout(LSTM(INPUT + SOURCE, 5), 0.5), HardAttention(5, SOURCE)).double()
    source = memory([4, 2], 4)
    (y, _), (result,) = capture_attention(layer, noise(2, 9, INPUT), None, layer.start(2, source))
    # Another sample would be another context.
    torch.testing.assert_close(result.weights[:, 0] @ source.values, y[..., 5:], rtol=0, atol=1e-12)


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attention = Attention(3, 3, score="scaled")
        self.plain = nn.Linear(3, 3)
        self.pool = pooling.AttentionPooling(3)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        context = self.plain(self.attention(x, self.attention.prepare(x), x, mask=mask).context)
        out: Tensor = self.pool(Memory(context, mask, ()))
        return out


def test_every_attention_of_a_model_is_captured_in_order() -> None:
    torch.manual_seed(3)
    model, x, mask = Model(), torch.randn(2, 4, 3), make_mask([4, 2], 4)
    result, actual = capture_attention(model, x, mask)
    assert torch.equal(result, model(x, mask))
    shapes = [(attention.name, tuple(attention.weights.shape)) for attention in actual]
    assert shapes == [("attention", (2, 1, 4, 4)), ("pool", (2, 1, 1, 4))]
    assert not actual[0].weights.requires_grad
    expected = (x[1] @ x[1, :2].T / 3**0.5).softmax(dim=-1)
    torch.testing.assert_close(actual[0].weights[1, 0, :, :2], expected)
    torch.testing.assert_close(actual[1].weights.sum(dim=-1), torch.ones(2, 1, 1))
    assert capture_attention(model.plain, x)[1] == []


@pytest.mark.parametrize("positions", ["rotary", "relative"])
def test_the_heads_of_a_transformer_are_captured(positions: Literal["rotary", "relative"]) -> None:
    torch.manual_seed(4)
    block = TransformerBlock(8, heads=2, positions=positions, memory_size=SOURCE).double()
    source, x = memory([3, 4], 4), noise(2, 5, 8)
    (y, state), result = capture_attention(block, x, None, block.start(2, source, coverage=True))
    assert torch.equal(y, block(x, None, block.start(2, source, coverage=True))[0])
    own, other = result
    assert (own.name, tuple(own.weights.shape)) == ("attention", (2, 2, 5, 5))
    assert not own.weights.triu(1).any()
    assert (other.name, tuple(other.weights.shape)) == ("cross_attention", (2, 2, 5, 4))
    torch.testing.assert_close(other.weights.mean(dim=1).sum(dim=1), state.coverage)


@pytest.mark.parametrize("options", [{"context": 2, "positions": "alibi"}, {"attention": "linear"}])
@pytest.mark.parametrize("causal", [True, False])
def test_windows_and_linear_attention_are_captured(options: dict[str, Any], *, causal: bool) -> None:
    block = TransformerBlock(4, heads=2, causal=causal, **options).double().eval()
    x = noise(1, 5, 4)
    (y, _), (own,) = capture_attention(block, x)
    torch.testing.assert_close(y, block(x)[0], rtol=0, atol=0)
    assert own.weights.shape == (1, 2, 5, 5)
    assert bool(own.weights.triu(1).any()) is not causal
    if "context" in options:
        assert not own.weights.triu(2).any()
        assert not own.weights.tril(-2).any()
