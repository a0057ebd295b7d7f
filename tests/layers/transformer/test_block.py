"""Blocks against the Transformer layers of torch.nn, and invalid options."""

from typing import Any

import pytest
import torch
from tests.contracts.registry import make_mask, noise, randomize
from torch import Tensor, nn

from seqloom.layers.layer import Memory, coverage
from seqloom.layers.transformer.block import Norm, TransformerBlock, transformer
from seqloom.layers.transformer.positions import Positions

SIZE, HEADS, INNER = 8, 2, 12
NORMS = pytest.mark.parametrize("norm", ["pre", "post"])


def block(**options: Any) -> TransformerBlock:
    layer = TransformerBlock(SIZE, heads=HEADS, feed_forward=INNER, **options)
    randomize(layer)
    return layer.eval()


def copy_weights(layer: TransformerBlock, reference: Any) -> None:
    """Copy the weights to torch's layer."""
    with torch.no_grad():
        reference.self_attn.in_proj_weight.copy_(layer.query_key_value.weight)
        reference.self_attn.in_proj_bias.copy_(layer.query_key_value.bias)
        reference.self_attn.out_proj.load_state_dict(layer.output.state_dict())
        reference.linear1.load_state_dict(layer.feed_forward[0].state_dict())
        reference.linear2.load_state_dict(layer.feed_forward[2].state_dict())
        if layer.memory_size:
            reference.multihead_attn.in_proj_weight.copy_(
                torch.cat([layer.cross_query.weight, layer.cross_key_value.weight])
            )
            reference.multihead_attn.in_proj_bias.copy_(torch.cat([layer.cross_query.bias, layer.cross_key_value.bias]))
            reference.multihead_attn.out_proj.load_state_dict(layer.cross_output.state_dict())
        for index, norm in enumerate(layer.norms, start=1):
            getattr(reference, f"norm{index}").load_state_dict(norm.state_dict())


@NORMS
@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_an_encoder_block_equals_that_of_torch(norm: str, activation: str) -> None:
    layer = block(norm=norm, activation=activation, positions="none", causal=False)
    reference = nn.TransformerEncoderLayer(
        SIZE, HEADS, INNER, 0.0, activation, batch_first=True, norm_first=norm == "pre"
    ).double()
    copy_weights(layer, reference)
    x, mask = noise(3, 5, SIZE), make_mask([5, 2, 4], 5)
    expected = reference.train()(x, src_key_padding_mask=~mask).masked_fill(~mask.unsqueeze(-1), 0)
    torch.testing.assert_close(layer(x, mask)[0], expected, rtol=0, atol=1e-13)


@NORMS
def test_a_decoder_block_equals_that_of_torch(norm: str) -> None:
    layer = block(norm=norm, positions="none", memory_size=SIZE)
    reference = nn.TransformerDecoderLayer(SIZE, HEADS, INNER, 0.0, batch_first=True, norm_first=norm == "pre").double()
    copy_weights(layer, reference)
    x, mask = noise(3, 5, SIZE), make_mask([5, 2, 4], 5)
    memory = Memory(noise(3, 4, SIZE, seed=1), make_mask([4, 1, 3], 4), ())
    expected = reference.train()(
        x, memory.values, tgt_mask=nn.Transformer.generate_square_subsequent_mask(5).double(), tgt_is_causal=True,
        memory_key_padding_mask=~memory.mask,
    )  # fmt: skip
    actual, _ = layer(x, mask, layer.start(3, memory))
    torch.testing.assert_close(actual, expected.masked_fill(~mask.unsqueeze(-1), 0), rtol=0, atol=1e-13)


@pytest.mark.parametrize("activation", ["relu", "tanh", "sigmoid", "leaky_relu", "elu", "gelu", "none"])
def test_every_activation_works_in_the_feed_forward_network(activation: str) -> None:
    layer = block(activation=activation)
    first, activate, second = layer.feed_forward
    x = noise(1, 3, SIZE)
    torch.testing.assert_close(layer.feed_forward(x), second(activate(first(x))))


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_only_pre_norm_stacks_end_with_a_norm(norm: Any) -> None:
    kinds = [type(layer) for layer in transformer(3, SIZE, layers=2, norm=norm, heads=HEADS).layers]
    assert kinds == [Positions, TransformerBlock, TransformerBlock, *([Norm] if norm == "pre" else [])]


def test_elements_outside_the_context_have_no_effect() -> None:
    layer = block(context=3)
    x = noise(2, 6, SIZE)
    changed = torch.cat([x[:, :1] + 1, x[:, 1:]], dim=1)
    before, after = layer(x)[0], layer(changed)[0]
    assert not torch.equal(before[:, :3], after[:, :3])
    torch.testing.assert_close(before[:, 3:], after[:, 3:], rtol=0, atol=1e-14)


def test_coverage_is_the_sum_of_the_attention_weights() -> None:
    layer = transformer(3, SIZE, layers=2, heads=HEADS, memory_size=4).double().eval()
    memory = Memory(noise(3, 5, 4), make_mask([5, 2, 3], 5), ())
    x, mask = noise(3, 6, 3), make_mask([6, 0, 4], 6)
    _, state = layer(x, mask, layer.start(3, memory, coverage=True))
    actual = coverage(state)
    assert actual is not None
    torch.testing.assert_close(actual.sum(dim=1), torch.tensor([6.0, 0.0, 4.0], dtype=torch.float64))
    assert bool((actual[~memory.mask] == 0).all())
    assert coverage(layer.start(3, memory)) is None


def test_recording_coverage_does_not_change_the_output() -> None:
    layer = transformer(3, SIZE, layers=2, heads=HEADS, memory_size=4).eval()
    memory = Memory(noise(3, 5, 4).float(), make_mask([5, 2, 3], 5), ())
    x = noise(3, 6, 3).float()
    recorded, plain = (layer(x, None, layer.start(3, memory, coverage=coverage))[0] for coverage in (True, False))
    assert torch.equal(recorded, plain)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"heads": 3}, "heads is 3, expected a divisor of the width 8"),
        ({"heads": 0}, "heads is 0, expected an integer of at least 1"),
        ({"heads": 2.0}, "heads is 2.0, expected an integer"),
        ({"feed_forward": -3}, "feed_forward is -3, expected an integer of at least 0"),
        ({"context": -1}, "context is -1, expected an integer of at least 0"),
        ({"max_distance": 0}, "max_distance is 0, expected an integer of at least 1"),
        ({"heads": 8}, "rotary positions need heads of even width, got 1"),
        ({"attention": "sparse"}, "attention is 'sparse', expected one of softmax, linear"),
        ({"attention": "linear", "context": 3}, "context is 3, but linear attention has no window"),
        ({"attention": "linear", "positions": "alibi"}, "positions is 'alibi', but linear attention computes no score"),
        ({"norm": "middle"}, "norm is 'middle', expected one of pre, post"),
        ({"activation": "swish"}, "activation is 'swish', expected one of relu, "),
        ({"positions": "clock"}, "positions is 'clock', expected one of counts, "),
    ],
)
def test_invalid_options_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        TransformerBlock(SIZE, **options)


def test_cross_attention_needs_a_memory() -> None:
    layer = block(memory_size=3)
    with pytest.raises(TypeError, match="memory is None, but this block has cross-attention"):
        layer.start(2)
    with pytest.raises(TypeError, match="state is None, but this block has cross-attention"):
        layer(noise(1, 1, SIZE))


def test_dropout_is_active_in_training_only() -> None:
    layer = block(dropout=0.5)
    x = noise(2, 3, SIZE)
    torch.testing.assert_close(layer(x)[0], layer(x)[0], rtol=0, atol=0)
    torch.manual_seed(1)
    assert not torch.equal(layer.train()(x)[0], layer.eval()(x)[0])


def test_gradients_equal_finite_differences() -> None:
    layer = transformer(3, 4, heads=2, positions="relative", max_distance=2, memory_size=2).double()
    randomize(layer)
    values, mask, real = noise(2, 3, 2).requires_grad_(), make_mask([3, 1], 3), make_mask([4, 2], 4)

    def run(x: Tensor, values: Tensor) -> Tensor:
        actual: Tensor = layer(x, real, layer.start(2, Memory(values, mask, ())))[0]
        return actual

    assert torch.autograd.gradcheck(run, (noise(2, 4, 3, seed=1).requires_grad_(), values))
