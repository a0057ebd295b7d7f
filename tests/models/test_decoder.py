"""A decoder's loss and probabilities against torch, its steps against its whole, its state against the past."""

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
    made = Decoder(Embedding(V, size), recurrent("lstm", size, hidden), tied=tied, **options).double()
    for parameter in made.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    return made


def tokens(rows: int = 3, steps: int = 6) -> Tensor:
    return torch.randint(1, V, (rows, steps), generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize(("tied", "hidden"), [(False, 5), (True, 4), (True, 5)])
def test_loss_and_probabilities_are_those_of_the_logits(tied: bool, hidden: int) -> None:
    model = decoder(tied=tied, hidden=hidden)
    read, target = tokens(), tokens().flip(1)
    logits, _ = model(read)
    features, _ = model.features(read)
    assert logits.shape == (3, 6, V)
    wanted = functional.cross_entropy(logits.flatten(0, 1), target.flatten(), reduction="sum", label_smoothing=0.1)
    found = model.loss(features.flatten(0, 1), target.flatten(), smoothing=0.1)
    assert torch.allclose(found, wanted, rtol=1e-12)
    each = logits.log_softmax(dim=-1).gather(2, target.unsqueeze(2)).flatten()
    assert torch.allclose(model.log_probabilities(features.flatten(0, 1), target.flatten()), each, atol=1e-12)
    one, other = (torch.autograd.grad(value, model.embed.weight, retain_graph=True)[0] for value in (found, wanted))
    assert torch.allclose(one, other, atol=1e-12)


def test_tied_vectors_are_one_matrix() -> None:
    model = decoder(tied=True, hidden=5)
    assert model.output.weight is model.embed.weight
    assert model.bridge.weight.shape == (4, 5)
    own = sum(parameter.numel() for parameter in decoder(hidden=5).parameters())
    tied = sum(parameter.numel() for parameter in model.parameters())
    assert own - tied == V * 5 - (5 * 4 + 4)


@pytest.mark.parametrize("window", [0, 3])
def test_one_step_after_the_other_is_the_whole(window: int) -> None:
    model = decoder()
    if window:
        model.layer = Convolution(4, 5, window=window, causal=True).double()
    read = tokens()
    whole = model(read)[0].log_softmax(dim=-1)
    state = model.start(None, 3)
    for place in range(6):
        found, state = step(model, read[:, place], state)
        assert torch.allclose(found, whole[:, place], atol=1e-12)
        assert found.exp().sum(dim=1).tolist() == pytest.approx([1.0] * 3)


def test_a_mask_hides_what_is_behind_the_end() -> None:
    model = decoder()
    read = tokens()
    mask = torch.arange(6) < torch.tensor([[6], [2], [0]])
    found, state = model(read, mask=mask)
    other, after = model(torch.where(mask, read, (read + 1) % V), mask=mask)
    assert torch.equal(found[mask], other[mask])
    assert all(torch.equal(*pair) for pair in zip(state, after, strict=True))
    short, _ = model(read[1:2, :2])
    assert torch.allclose(found[1:2, :2], short, atol=1e-12)


def test_a_fresh_model_knows_nothing() -> None:
    torch.manual_seed(0)
    model = Decoder(Embedding(1000, 16), recurrent("lstm", 16, 16))
    features, _ = model.features(torch.randint(1, 1000, (4, 20)))
    loss = model.loss(features.flatten(0, 1), torch.randint(1000, (80,))) / 80
    assert float(loss.detach()) == pytest.approx(math.log(1000), abs=0.05)  # as good as a guess


def test_dropout_acts_in_training_only() -> None:
    for variational in (False, True):
        model = decoder(dropout=0.5, variational=variational)
        read = tokens()
        first, second = model(read)[0], model(read)[0]
        assert not torch.equal(first, second)
        model.eval()
        assert torch.equal(model(read)[0], model(read)[0])
