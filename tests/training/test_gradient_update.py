"""Gradient updates against manual computations: accumulation, clipping, non-finite gradients, BPTT, averaging."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from tests.training.toy import (
    Example,
    Toy,
    batches,
    begin,
    collate,
    copy_weights,
    loss,
    same,
    sequences,
    settings,
    train_with_nonfinite_loss,
    weight_change,
)
from torch import Tensor, nn

from seqloom.data.batch import Batch
from seqloom.data.loading import BatchLoader
from seqloom.training.engine import train
from seqloom.training.gradient_update import GradientUpdate
from seqloom.training.progress import Evaluation


def gradient(model: nn.Module, batch: Batch) -> list[Tensor]:
    """Of the mean loss, by hand."""
    result = loss(model, batch)
    return [one / result.items for one in torch.autograd.grad(result.total, list(model.parameters()))]


def flat(tensors: Sequence[Tensor]) -> Tensor:
    return torch.cat([tensor.flatten() for tensor in tensors])


# Gradients


@pytest.mark.parametrize("accumulate", [1, 4, 7, 50])
def test_parts_of_a_batch_have_the_gradient_of_the_whole(accumulate: int) -> None:
    examples = sequences(32)
    model = Toy().double()
    wide = [Example(example.values.astype(np.float64), example.target.astype(np.float64)) for example in examples]
    expected = flat(gradient(model, collate(wide)))
    for kind, tolerance, own in ((model, 1e-12, wide), (Toy(), 1e-6, examples)):
        before = copy_weights(kind)
        chosen = settings(
            batch_size=32, accumulate=accumulate, epochs=1, optimizer="sgd", learning_rate=1.0, clip_norm=0.0
        )
        (event,) = begin(kind, chosen, own)
        result = weight_change(before, copy_weights(kind))
        assert float((result - expected).norm() / expected.norm()) < tolerance
        assert event.gradient_norm == pytest.approx(float(expected.norm()), rel=1e-6)
        assert event.items == sum(map(len, examples))


def test_large_gradients_are_clipped_and_counted() -> None:
    examples = sequences(20)
    free = [
        event.gradient_norm
        for event in begin(Toy(), settings(epochs=1, optimizer="sgd", learning_rate=1e-20, clip_norm=0.0), examples)
    ]
    limit = sorted(free)[2]  # two of five are longer
    model = Toy()
    before = copy_weights(model)
    lengths, shares = [], []
    for event in begin(
        model, settings(epochs=1, optimizer="sgd", learning_rate=1e-3, clip_norm=limit, log_every=100), examples
    ):
        lengths.append(float(weight_change(before, copy_weights(model)).norm()) / 1e-3)
        before = copy_weights(model)
        shares.append(event.clipped)
        assert event.gradient_norm == pytest.approx(
            free[event.update - 1], rel=0.05
        )  # as it was before; weights weight_change a bit
    assert max(lengths) == pytest.approx(limit, rel=1e-3)
    assert shares[-1] == sum(norm > limit for norm in free) / 5
    assert event.logged


def test_frozen_parameters_do_not_change() -> None:
    model = Toy()
    model.output.weight.requires_grad_(False)
    before = copy_weights(model)
    list(begin(model, settings(weight_decay=0.1), sequences(8)))
    assert torch.equal(model.output.weight, before["output.weight"])
    assert not torch.equal(model.output.bias, before["output.bias"])


# Not finite


@pytest.mark.parametrize("kind", ["nan", "inf", "-inf", "gradient"])
def test_updates_that_are_not_finite_are_skipped(kind: str) -> None:
    model = Toy()
    before, state = copy_weights(model), ""
    for event in train_with_nonfinite_loss(model, [3, 4], kind):
        optimizer = repr([tensor.tolist() for name, tensor in event.snapshot().training.items() if "optim" in name])
        if event.update in (3, 4):
            assert same(copy_weights(model), before)
            assert optimizer == state
        else:
            assert not same(copy_weights(model), before)
        assert event.skipped == max(min(event.update - 2, 2), 0)
        before, state = copy_weights(model), optimizer
    assert event.update == 20
    assert all(torch.isfinite(tensor).all() for tensor in before.values())


def test_skipped_updates_are_not_part_of_the_logged_loss() -> None:
    result = [event.loss for event in train_with_nonfinite_loss(Toy(), [3], log_every=5, epochs=1)]
    assert all(map(math.isfinite, result))


def test_a_state_that_is_not_finite_is_not_carried_over() -> None:
    examples = sequences(20)
    examples[0].values[0] = math.nan  # in the first piece of the first track
    events = list(begin(Toy(), settings(bptt_steps=5, batch_size=2, epochs=1), examples))
    assert [event.skipped for event in events] == [1] * len(events)
    assert len(events) > 3


# Truncated BPTT


def pieces(examples: Sequence[Example], *, rows: int, steps: int) -> list[Batch]:
    loaded = BatchLoader(lambda: iter(examples), collate, batch_size=rows, bptt_steps=steps)
    return [part for (part,) in loaded.epoch(0)]


@pytest.mark.parametrize("accumulate", [1, 2])
def test_the_state_is_carried_over_without_its_gradient(accumulate: int) -> None:
    examples = sequences(12)
    model = Toy().double()
    wide = [Example(example.values.astype(np.float64), example.target.astype(np.float64)) for example in examples]
    (whole,) = pieces(wide, rows=3, steps=1000)
    with torch.no_grad():
        total = float(loss(model, whole).total)
    # Tiny steps leave the weights as they are in float64 but for what is seen at 1e-12.
    still = {"optimizer": "sgd", "learning_rate": 1e-15, "clip_norm": 0.0}
    events = list(
        begin(model, settings(epochs=1, batch_size=3, bptt_steps=4, accumulate=accumulate, log_every=99, **still), wide)
    )
    assert events[-1].loss * whole.items == pytest.approx(total, rel=1e-9)
    state = None
    for event, piece in zip(events, pieces(wide, rows=3, steps=4), strict=True):
        result = loss(model, piece._replace(state=state))
        expected = torch.autograd.grad(result.total, list(model.parameters()))
        state = tuple(part.detach() for part in result.state)
        assert event.gradient_norm * piece.items == pytest.approx(float(flat(expected).norm()), rel=1e-9)


# Averaging


@pytest.mark.parametrize("average", [2, 3])
def test_the_mean_of_the_last_weights_is_evaluated_and_saved(average: int) -> None:
    model = Toy(dropout=0.1)
    own: list[dict[str, Tensor]] = []
    seen: list[dict[str, Tensor]] = []

    def evaluate(model: nn.Module) -> Evaluation:
        seen.append(copy_weights(model))
        return Evaluation(0.0, {}, "score")

    for event in begin(model, settings(epochs=4, average_checkpoints=average), sequences(20), evaluate=evaluate):
        if event.pending:
            own.append(copy_weights(model))
        if event.evaluation:
            assert same(copy_weights(model), own[-1])
            last = own[-average:]
            expected = {name: sum(weights[name].double() for weights in last) / len(last) for name in last[0]}
            assert same(seen[-1], event.weights())
            for name, tensor in event.weights().items():
                assert torch.allclose(tensor.double(), torch.as_tensor(expected[name]), atol=1e-7)
    assert len(own) == 4


# Before training


def test_a_dry_run_computes_a_gradient_and_changes_nothing() -> None:
    model = Toy()
    before = copy_weights(model)
    chosen = settings(batch_size=20)
    rule = GradientUpdate(model, batches(sequences(20), chosen), loss, chosen)
    in_parts = settings(batch_size=20, accumulate=4)
    parts = GradientUpdate(Toy(), batches(sequences(20), in_parts), loss, in_parts)
    assert 0 < parts.dry_run() < rule.dry_run()
    assert same(copy_weights(model), before)
    assert all(parameter.grad is None for parameter in model.parameters())
    examples = sequences(20)
    examples[0].values[0] = math.nan
    with pytest.raises(ValueError, match="the loss or its gradient is not finite"):
        GradientUpdate(Toy(), batches(examples, chosen), loss, chosen).dry_run()


@pytest.mark.parametrize(
    ("fields", "copies"), [({"optimizer": "sgd"}, 2), ({"optimizer": "sgd", "momentum": 0.9}, 3), ({}, 4)]
)
def test_copies_of_the_parameters(fields: dict[str, Any], copies: int) -> None:
    chosen = settings(epochs=1, **fields)
    rule = GradientUpdate(Toy(), batches(sequences(4), chosen), loss, chosen)
    assert rule.copies == copies
    list(train(rule))
    weights, training = rule.state()
    kept = sum(part.numel() for name, part in training.items() if name.startswith("optimizer") and part.dim())
    assert kept == (copies - 2) * sum(part.numel() for part in weights.values())


@pytest.mark.parametrize(
    "fields", [{"batch_size": 3}, {"batch_tokens": 20}, {"bptt_steps": 3, "batch_size": 2}], ids=str
)
def test_updates_are_counted_from_lengths(fields: dict[str, Any]) -> None:
    examples = sorted(sequences(20), key=len)
    chosen = settings(**fields)
    rule = GradientUpdate(Toy(), batches(examples, chosen), loss, chosen)
    lengths = [len(example) for example in examples]
    assert rule.count_updates(lengths, tokens=sum(lengths)) == len(list(rule.chunks(0, 0)))
    assert (rule.count_updates(lengths, tokens=None) is None) is ("bptt_steps" in fields)


def test_batches_of_many_epochs_are_not_counted_one_by_one() -> None:
    loader = BatchLoader(lambda: iter(sequences(20)), collate, batch_tokens=16)
    rule = GradientUpdate(Toy(), loader, loss, settings())
    few, many = rule.updates_in_epochs(50), rule.updates_in_epochs(10**12)
    assert few == sum(loader.count(epoch) or 0 for epoch in range(50))
    assert many == pytest.approx((few or 0) / 50 * 10**12, rel=0.1)
