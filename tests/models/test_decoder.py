"""The loss and probabilities of a decoder against torch, single steps against the whole, padding."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from seqloom.layers.build import recurrent
from seqloom.layers.convolution import Convolution
from seqloom.layers.embedding import Embedding
from seqloom.models.decoder import Decoder, step

V = 7


def decoder(*, tied: bool = False, hidden: int = 5, size: int = 4, **options: Any) -> Decoder:
    torch.manual_seed(0)
    model = Decoder(Embedding(V, size), recurrent("lstm", size, hidden), tied=tied, **options).double()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    return model


def tokens(rows: int = 3, steps: int = 6) -> Tensor:
    return torch.randint(1, V, (rows, steps), generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize(("tied", "hidden"), [(False, 5), (True, 4), (True, 5)])
def test_loss_and_probabilities_are_those_of_the_logits(tied: bool, hidden: int) -> None:
    model = decoder(tied=tied, hidden=hidden)
    inputs, target = tokens(), tokens().flip(1)
    logits, _ = model(inputs)
    features, _ = model.features(inputs)
    assert logits.shape == (3, 6, V)
    expected = functional.cross_entropy(logits.flatten(0, 1), target.flatten(), reduction="sum", label_smoothing=0.1)
    loss = model.loss(features.flatten(0, 1), target.flatten(), smoothing=0.1)
    assert torch.allclose(loss, expected, rtol=1e-12)
    log_probs = logits.log_softmax(dim=-1).gather(2, target.unsqueeze(2)).flatten()
    assert torch.allclose(model.log_probabilities(features.flatten(0, 1), target.flatten()), log_probs, atol=1e-12)
    left, right = (torch.autograd.grad(value, model.embed.weight, retain_graph=True)[0] for value in (loss, expected))
    assert torch.allclose(left, right, atol=1e-12)


def test_tied_embeddings_are_one_matrix() -> None:
    model = decoder(tied=True, hidden=5)
    assert model.output.weight is model.embed.weight
    assert model.bridge.weight.shape == (4, 5)
    own = sum(parameter.numel() for parameter in decoder(hidden=5).parameters())
    tied = sum(parameter.numel() for parameter in model.parameters())
    assert own - tied == V * 5 - (5 * 4 + 4)


@pytest.mark.parametrize("window", [0, 3])
def test_single_steps_match_the_whole(window: int) -> None:
    model = decoder()
    if window:
        model.layer = Convolution(4, 5, window=window, causal=True).double()
    inputs = tokens()
    whole = model(inputs)[0].log_softmax(dim=-1)
    state = model.start(None, 3)
    for index in range(6):
        actual, state = step(model, inputs[:, index], state)
        assert torch.allclose(actual, whole[:, index], atol=1e-12)
        assert actual.exp().sum(dim=1).tolist() == pytest.approx([1.0] * 3)


def test_padding_has_no_effect() -> None:
    model = decoder()
    inputs = tokens()
    mask = torch.arange(6) < torch.tensor([[6], [2], [0]])
    logits, state = model(inputs, mask=mask)
    other, after = model(torch.where(mask, inputs, (inputs + 1) % V), mask=mask)
    assert torch.equal(logits[mask], other[mask])
    assert all(torch.equal(*pair) for pair in zip(state, after, strict=True))
    short, _ = model(inputs[1:2, :2])
    assert torch.allclose(logits[1:2, :2], short, atol=1e-12)


def test_an_untrained_model_is_uniform() -> None:
    torch.manual_seed(0)
    model = Decoder(Embedding(1000, 16), recurrent("lstm", 16, 16))
    features, _ = model.features(torch.randint(1, 1000, (4, 20)))
    loss = model.loss(features.flatten(0, 1), torch.randint(1000, (80,))) / 80
    assert float(loss.detach()) == pytest.approx(math.log(1000), abs=0.05)


def test_dropout_is_for_training_only() -> None:
    for variational in (False, True):
        model = decoder(dropout=0.5, variational=variational)
        inputs = tokens()
        first, second = model(inputs)[0], model(inputs)[0]
        assert not torch.equal(first, second)
        model.eval()
        assert torch.equal(model(inputs)[0], model(inputs)[0])
