"""Blocks against torch's own Transformer layers, and what a user can get wrong."""

from typing import Any

import pytest
import torch
from tests.contracts.registry import make_mask, noise, randomize
from torch import Tensor, nn

from seqloom.layers.layer import Memory, coverage
from seqloom.layers.transformer.block import Norm, TransformerBlock, transformer
from seqloom.layers.transformer.positions import Positions

SIZE, HEADS, INSIDE = 8, 2, 12
NORMS = pytest.mark.parametrize("norm", ["pre", "post"])


def block(**options: Any) -> TransformerBlock:
    actual = TransformerBlock(SIZE, heads=HEADS, feed_forward=INSIDE, **options)
    randomize(actual)
    return actual.eval()


def exchange(ours: TransformerBlock, theirs: Any) -> None:
    """Our weights for torch's layer."""
    with torch.no_grad():
        theirs.self_attn.in_proj_weight.copy_(ours.project.weight)
        theirs.self_attn.in_proj_bias.copy_(ours.project.bias)
        theirs.self_attn.out_proj.load_state_dict(ours.collect.state_dict())
        theirs.linear1.load_state_dict(ours.feed[0].state_dict())
        theirs.linear2.load_state_dict(ours.feed[2].state_dict())
        if ours.memory_size:
            theirs.multihead_attn.in_proj_weight.copy_(torch.cat([ours.ask.weight, ours.read.weight]))
            theirs.multihead_attn.in_proj_bias.copy_(torch.cat([ours.ask.bias, ours.read.bias]))
            theirs.multihead_attn.out_proj.load_state_dict(ours.gather.state_dict())
        for number, norm in enumerate(ours.norms, start=1):
            getattr(theirs, f"norm{number}").load_state_dict(norm.state_dict())


@NORMS
@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_an_encoder_block_is_that_of_torch(norm: str, activation: str) -> None:
    ours = block(norm=norm, activation=activation, positions="none", causal=False)
    theirs = nn.TransformerEncoderLayer(
        SIZE, HEADS, INSIDE, 0.0, activation, batch_first=True, norm_first=norm == "pre"
    ).double()
    exchange(ours, theirs)
    x, mask = noise(3, 5, SIZE), make_mask([5, 2, 4], 5)
    expected = theirs.train()(x, src_key_padding_mask=~mask).masked_fill(~mask.unsqueeze(-1), 0)
    torch.testing.assert_close(ours(x, mask)[0], expected, rtol=0, atol=1e-13)


@NORMS
def test_a_decoder_block_is_that_of_torch(norm: str) -> None:
    ours = block(norm=norm, positions="none", memory_size=SIZE)
    theirs = nn.TransformerDecoderLayer(SIZE, HEADS, INSIDE, 0.0, batch_first=True, norm_first=norm == "pre").double()
    exchange(ours, theirs)
    x, mask = noise(3, 5, SIZE), make_mask([5, 2, 4], 5)
    memory = Memory(noise(3, 4, SIZE, seed=1), make_mask([4, 1, 3], 4), ())
    expected = theirs.train()(
        x, memory.values, tgt_mask=nn.Transformer.generate_square_subsequent_mask(5).double(), tgt_is_causal=True,
        memory_key_padding_mask=~memory.mask,
    )  # fmt: skip
    actual, _ = ours(x, mask, ours.start(3, memory))
    torch.testing.assert_close(actual, expected.masked_fill(~mask.unsqueeze(-1), 0), rtol=0, atol=1e-13)


@pytest.mark.parametrize("activation", ["relu", "tanh", "sigmoid", "leaky_relu", "elu", "gelu", "none"])
def test_every_activation_can_stand_in_the_feed_forward_part(activation: str) -> None:
    ours = block(activation=activation)
    first, activate, second = ours.feed
    x = noise(1, 3, SIZE)
    torch.testing.assert_close(ours.feed(x), second(activate(first(x))))


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_only_blocks_whose_norms_come_first_end_with_one(norm: Any) -> None:
    kinds = [type(layer) for layer in transformer(3, SIZE, layers=2, norm=norm, heads=HEADS).layers]
    assert kinds == [Positions, TransformerBlock, TransformerBlock, *([Norm] if norm == "pre" else [])]


def test_a_context_hides_what_is_further_back() -> None:
    layer = block(context=3)
    x = noise(2, 6, SIZE)
    changed = torch.cat([x[:, :1] + 1, x[:, 1:]], dim=1)
    before, after = layer(x)[0], layer(changed)[0]
    assert not torch.equal(before[:, :3], after[:, :3])
    torch.testing.assert_close(before[:, 3:], after[:, 3:], rtol=0, atol=1e-14)


def test_coverage_is_what_the_memory_got() -> None:
    layer = transformer(3, SIZE, layers=2, heads=HEADS, memory_size=4).double().eval()
    memory = Memory(noise(3, 5, 4), make_mask([5, 2, 3], 5), ())
    x, mask = noise(3, 6, 3), make_mask([6, 0, 4], 6)
    _, state = layer(x, mask, layer.start(3, memory, coverage=True))
    actual = coverage(state)
    assert actual is not None
    torch.testing.assert_close(actual.sum(dim=1), torch.tensor([6.0, 0.0, 4.0], dtype=torch.float64))
    assert bool((actual[~memory.mask] == 0).all())
    assert coverage(layer.start(3, memory)) is None


def test_looking_for_coverage_changes_nothing() -> None:
    layer = transformer(3, SIZE, layers=2, heads=HEADS, memory_size=4).eval()
    memory = Memory(noise(3, 5, 4).float(), make_mask([5, 2, 3], 5), ())
    x = noise(3, 6, 3).float()
    seen, unseen = (layer(x, None, layer.start(3, memory, coverage=noted))[0] for noted in (True, False))
    assert torch.equal(seen, unseen)


@pytest.mark.parametrize(
    ("options", "wrong"),
    [
        ({"heads": 3}, "heads is 3: so many do not share a width of 8 equally"),
        ({"heads": 0}, "heads is 0, expected a whole number from 1 on"),
        ({"heads": 2.0}, "heads is 2.0, expected a whole number"),
        ({"feed_forward": -3}, "feed_forward is -3, expected a whole number from 0 on"),
        ({"context": -1}, "context is -1, expected a whole number from 0 on"),
        ({"distance": 0}, "distance is 0, expected a whole number from 1 on"),
        ({"heads": 8}, "rotary positions need heads of even width, found 1"),
        ({"norm": "middle"}, "norm is 'middle', expected one of pre, post"),
        ({"activation": "swish"}, "activation is 'swish', expected one of relu, "),
        ({"positions": "clock"}, "positions is 'clock', expected one of sinusoidal, "),
    ],
)
def test_what_does_not_fit_is_named(options: dict[str, Any], wrong: str) -> None:
    with pytest.raises(ValueError, match=wrong):
        TransformerBlock(SIZE, **options)


def test_a_block_that_looks_at_a_memory_wants_one() -> None:
    layer = block(memory_size=3)
    with pytest.raises(TypeError, match="memory is None, and this block looks at one"):
        layer.start(2)
    with pytest.raises(TypeError, match="state is None, and this block looks at a memory"):
        layer(noise(1, 1, SIZE))


def test_dropout_acts_in_training_only() -> None:
    layer = block(dropout=0.5)
    x = noise(2, 3, SIZE)
    torch.testing.assert_close(layer(x)[0], layer(x)[0], rtol=0, atol=0)
    torch.manual_seed(1)
    assert not torch.equal(layer.train()(x)[0], layer.eval()(x)[0])


def test_gradients_are_those_of_differences() -> None:
    layer = transformer(3, 4, heads=2, positions="relative", distance=2, memory_size=2).double()
    randomize(layer)
    values, mask, real = noise(2, 3, 2).requires_grad_(), make_mask([3, 1], 3), make_mask([4, 2], 4)

    def run(x: Tensor, values: Tensor) -> Tensor:
        actual: Tensor = layer(x, real, layer.start(2, Memory(values, mask, ())))[0]
        return actual

    assert torch.autograd.gradcheck(run, (noise(2, 4, 3, seed=1).requires_grad_(), values))
