"""Configured attention of recurrent decoders: heads, widths, outputs, and keys that exclude each other."""

from typing import Any

import pytest
import torch
from tests.contracts.registry import make_mask, noise, randomize

from seqloom.layers.attention.decoder_attention import LuongAttention
from seqloom.layers.layer import Memory
from seqloom.layers.recurrent.recurrent import Recurrent
from seqloom.layers.torch_conversion import to_torch
from seqloom.models.encoder import RecurrenceConfig
from seqloom.models.encoder_decoder import AttentionConfig, build_decoder_layer

HIDDEN, MEMORY = 8, 6


@pytest.mark.parametrize(
    ("keys", "width"),
    [
        ({}, HIDDEN),
        ({"score": "additive", "score_size": 3, "heads": 2}, HIDDEN),
        ({"score": "cosine", "heads": 3, "key_size": 5, "value_size": 4, "output_projection": False}, HIDDEN + 12),
        ({"score": "single_layer", "output_projection": False}, HIDDEN + MEMORY),
        ({"style": "bahdanau", "score": "scaled", "heads": 2, "value_size": 5}, HIDDEN + 10),
        ({"type": "hard", "key_size": 3}, HIDDEN),
    ],
)
def test_the_output_of_a_decoder_has_the_configured_width(keys: dict[str, Any], width: int) -> None:
    recurrence = RecurrenceConfig(cell="gru", hidden_size=HIDDEN)
    layer = build_decoder_layer(
        recurrence, AttentionConfig(**keys), 3, encoder=None, memory_size=MEMORY, bridge="linear"
    )
    randomize(layer)
    memory = Memory(noise(2, 4, MEMORY), make_mask([4, 1], 4), ())
    y, _ = layer.eval()(noise(2, 5, 3), None, layer.start(2, memory))
    assert y.shape == (2, 5, width)
    other = Memory(memory.values + 1, memory.mask, ())
    assert not torch.allclose(layer(noise(2, 5, 3), None, layer.start(2, other))[0], y)


@pytest.mark.parametrize("projected", [True, False])
def test_the_output_is_the_state_beside_its_context(projected: bool) -> None:
    """tanh(W [context; state]), or [context; state]: states of an LSTM by torch, contexts by the dot score."""
    layer = build_decoder_layer(
        RecurrenceConfig(cell="lstm", hidden_size=MEMORY),
        AttentionConfig(score="dot", output_projection=projected),
        3,
        encoder=None,
        memory_size=MEMORY,
        bridge="zero",
    )
    randomize(layer)
    x, memory = noise(2, 5, 3), Memory(noise(2, 4, MEMORY, seed=1), make_mask([4, 2], 4), ())
    y, _ = layer.eval()(x, None, layer.start(2, memory))
    (recurrent,) = (module for module in layer.modules() if isinstance(module, Recurrent))
    (attention,) = (module for module in layer.modules() if isinstance(module, LuongAttention))
    states, _ = to_torch(recurrent)(x)
    for row, length in enumerate([4, 2]):
        source = memory.values[row, :length]
        for step in range(5):
            state = states[row, step]
            context = (source @ state).softmax(dim=0) @ source
            expected = torch.cat([context, state])
            if attention.output is not None:
                expected = torch.tanh(attention.output.weight @ expected)
            torch.testing.assert_close(y[row, step], expected, rtol=0, atol=1e-12)
    assert (attention.output is not None) is projected


def test_keys_that_exclude_each_other_are_refused() -> None:
    with pytest.raises(ValueError, match='score_size is 4, but score is "dot": only "additive" has a hidden layer'):
        AttentionConfig(score="dot", score_size=4)
    with pytest.raises(ValueError, match='heads is 2, but type is "hard", which chooses one position'):
        AttentionConfig(type="hard", heads=2)
