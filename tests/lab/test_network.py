"""Training on generated batches: the same as a plain loop of torch."""

import pytest
import torch
from torch import nn

from seqloom.cells import Elman
from seqloom.data.batch import Batch
from seqloom.lab.network import IGNORED, Network, accuracy, classification_loss, one_hot_batch, train
from seqloom.layers.recurrent.recurrent import Recurrent
from seqloom.training.config import TrainConfig


def draw(number: int) -> Batch:
    tokens = torch.randint(3, (4, 5), generator=torch.Generator().manual_seed(number))
    target = tokens.clone()
    target[:, :2] = IGNORED
    return one_hot_batch(tokens, target, size=3)


def network() -> Network:
    torch.manual_seed(1)
    return Network(Recurrent(Elman(3, 6)), 3)


def test_the_loss_and_the_accuracy_are_those_of_the_classified_steps() -> None:
    model, batch = network(), draw(7)
    logits = model.output(model.layer(batch.inputs.values)[0])[:, 2:].reshape(-1, 3)
    target = batch.target[:, 2:].reshape(-1)
    loss = classification_loss(model, batch)
    assert loss.items == 12
    torch.testing.assert_close(loss.total, nn.functional.cross_entropy(logits, target, reduction="sum"))
    assert accuracy(model, batch) == pytest.approx((logits.argmax(-1) == target).double().mean().item())


def test_training_equals_a_plain_loop() -> None:
    model, reference = network(), network()
    drawn: list[int] = []

    def next_batch() -> Batch:
        drawn.append(len(drawn))
        return draw(drawn[-1])

    settings = TrainConfig(updates=5, optimizer="sgd", learning_rate=0.5, schedule="constant", clip_norm=0.1)
    events = list(train(model, next_batch, settings))
    assert [event.update for event in events] == [1, 2, 3, 4, 5]
    # The loader draws some batches to see whether there is more than one.
    first = len(drawn) - 6
    optimizer = torch.optim.SGD(reference.parameters(), lr=0.5)
    for number in range(first, first + 5):
        loss = classification_loss(reference, draw(number))
        optimizer.zero_grad()
        (loss.total / loss.items).backward()
        nn.utils.clip_grad_norm_(reference.parameters(), 0.1)
        optimizer.step()
    for mine, expected in zip(model.parameters(), reference.parameters(), strict=True):
        torch.testing.assert_close(mine, expected)


def test_endless_training_is_refused() -> None:
    with pytest.raises(ValueError, match="set updates"):
        train(network(), lambda: draw(1), TrainConfig())
