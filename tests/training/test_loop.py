"""The training loop: gradients, clipping, what is not finite, evaluations, ends, against the same done by hand."""

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from pydantic import ValidationError
from tests.training.toy import (
    Sequences,
    Toy,
    batches,
    begin,
    collate,
    copied,
    evaluator,
    facts,
    loss,
    same,
    sequences,
    settings,
)
from torch import Tensor, nn

from seqloom.data.batch import Batch
from seqloom.data.loading import BatchLoader
from seqloom.training.loop import PATIENCE, Diverged, Evaluation, Progress, train


def gradient(model: nn.Module, batch: Batch) -> list[Tensor]:
    """Of the mean loss, by hand."""
    found = loss(model, batch)
    return [one / found.items for one in torch.autograd.grad(found.total, list(model.parameters()))]


def moved(before: dict[str, Tensor], after: dict[str, Tensor]) -> Tensor:
    return torch.cat([(before[name] - after[name]).flatten() for name in before])


def flat(tensors: Sequence[Tensor]) -> Tensor:
    return torch.cat([tensor.flatten() for tensor in tensors])


# Gradients


@pytest.mark.parametrize("accumulate", [1, 4, 7, 50])
def test_parts_of_a_batch_have_the_gradient_of_the_whole(accumulate: int) -> None:
    examples = sequences(32)
    model = Toy().double()
    wide = [Sequences(example.values.astype(np.float64), example.target.astype(np.float64)) for example in examples]
    wanted = flat(gradient(model, collate(wide)))
    for kind, tolerance, own in ((model, 1e-12, wide), (Toy(), 1e-6, examples)):
        before = copied(kind)
        chosen = settings(batch=32, accumulate=accumulate, epochs=1, optimizer="sgd", rate=1.0, clip=0.0)
        (event,) = begin(kind, chosen, own)
        found = moved(before, copied(kind))
        assert float((found - wanted).norm() / wanted.norm()) < tolerance
        assert event.norm == pytest.approx(float(wanted.norm()), rel=1e-6)
        assert event.items == sum(map(len, examples))


def test_a_gradient_that_is_too_long_is_made_shorter_and_counted() -> None:
    examples = sequences(20)
    free = [event.norm for event in begin(Toy(), settings(epochs=1, optimizer="sgd", rate=1e-20, clip=0.0), examples)]
    limit = sorted(free)[2]  # two of five are longer
    model = Toy()
    before = copied(model)
    lengths, shares = [], []
    for event in begin(model, settings(epochs=1, optimizer="sgd", rate=1e-3, clip=limit, log_every=100), examples):
        lengths.append(float(moved(before, copied(model)).norm()) / 1e-3)
        before = copied(model)
        shares.append(event.clipped)
        assert event.norm == pytest.approx(free[event.update - 1], rel=0.05)  # as it was before; weights moved a bit
    assert max(lengths) == pytest.approx(limit, rel=1e-3)
    assert shares[-1] == sum(norm > limit for norm in free) / 5
    assert event.logged


def test_the_rate_is_what_the_schedule_says() -> None:
    chosen = settings(epochs=2, optimizer="sgd", rate=0.5, schedule="linear", decay=0.0, warmup=2, clip=1e-3)
    model = Toy()
    before = copied(model)
    for index, event in enumerate(begin(model, chosen, sequences(20))):
        wanted = 0.5 * min((index + 1) / 2, 1) * (1 - max(index - 2, 0) / 8)
        assert event.rate == pytest.approx(wanted)
        assert float(moved(before, copied(model)).norm()) == pytest.approx(wanted * 1e-3, rel=1e-3)
        before = copied(model)


def test_the_logged_loss_is_the_mean_over_items_since_the_last_entry() -> None:
    examples = sequences(18)
    chosen = settings(epochs=1, rate=1e-30, optimizer="sgd", log_every=2)
    parts = [part for (part,) in batches(examples, chosen).epoch(0)]
    model = Toy()
    each = [(float(loss(model, part).total.detach()), part.items) for part in parts]
    wanted = [each[:2], each[2:4], each[4:]]
    events = [event for event in begin(model, chosen, examples) if event.logged]
    assert [event.update for event in events] == [2, 4, 5]
    for event, some in zip(events, wanted, strict=True):
        assert event.loss == pytest.approx(sum(total for total, _ in some) / sum(items for _, items in some))


def test_what_is_not_trained_stays() -> None:
    model = Toy()
    model.output.weight.requires_grad_(False)
    before = copied(model)
    list(begin(model, settings(weight_decay=0.1), sequences(8)))
    assert torch.equal(model.output.weight, before["output.weight"])
    assert not torch.equal(model.output.bias, before["output.bias"])


# Not finite


class Poisoned:
    """A loss that is not finite at some calls."""

    def __init__(self, calls: Sequence[int], kind: str) -> None:
        self.calls, self.kind, self.count = set(calls), kind, 0

    def __call__(self, model: nn.Module, batch: Batch) -> Any:
        found = loss(model, batch)
        self.count += 1
        if self.count not in self.calls:
            return found
        if self.kind == "gradient":  # a finite loss, whose gradient is not
            return found._replace(total=found.total + (found.total - found.total.detach()).abs().sqrt())
        return found._replace(total=found.total * float(self.kind))


def poisoned(model: nn.Module, calls: Sequence[int], kind: str = "nan", **fields: Any) -> Iterator[Progress]:
    chosen = settings(**{"epochs": 4} | fields)
    return train(model, batches(sequences(20), chosen), Poisoned(calls, kind), chosen)


@pytest.mark.parametrize("kind", ["nan", "inf", "-inf", "gradient"])
def test_an_update_that_is_not_finite_is_left_out(kind: str) -> None:
    model = Toy()
    before, state = copied(model), ""
    for event in poisoned(model, [3, 4], kind):
        optimizer = repr([tensor.tolist() for name, tensor in event.snapshot().training.items() if "optim" in name])
        if event.update in (3, 4):
            assert same(copied(model), before)
            assert optimizer == state
        else:
            assert not same(copied(model), before)
        assert event.skipped == max(min(event.update - 2, 2), 0)
        before, state = copied(model), optimizer
    assert event.update == 20
    assert all(torch.isfinite(tensor).all() for tensor in before.values())


def test_what_was_left_out_is_not_part_of_the_logged_loss() -> None:
    found = [event.loss for event in poisoned(Toy(), [3], log_every=5, epochs=1)]
    assert all(map(math.isfinite, found))


def test_ten_in_a_row_end_the_training() -> None:
    model = Toy()
    weights: list[dict[str, Tensor]] = []
    message = r"not finite at 10 updates in a row, the last of them 15: lower train\.rate"
    with pytest.raises(Diverged, match=message) as caught:
        weights.extend(copied(model) for _ in poisoned(model, range(6, 99)))
    assert len(weights) == 14
    assert all(same(weights[4], later) for later in (*weights[5:], copied(model)))
    assert caught.value.batch[0].inputs.values.shape[0] == 4


def test_nine_in_a_row_do_not() -> None:
    assert [event.skipped for event in poisoned(Toy(), [*range(2, 11), *range(12, 20)])][-1] == 17
    assert PATIENCE == 10


def test_a_state_that_is_not_finite_is_not_carried_on() -> None:
    examples = sequences(20)
    examples[0].values[0] = math.nan  # in the first piece of the first track
    events = list(begin(Toy(), settings(steps=5, batch=2, epochs=1), examples))
    assert [event.skipped for event in events] == [1] * len(events)
    assert len(events) > 3


# Evaluations


def scripted(scores: Sequence[float]) -> Any:
    left = iter(scores)

    def evaluate(model: nn.Module) -> Evaluation:
        assert not model.training
        assert not torch.is_grad_enabled()
        score = next(left)
        return Evaluation(score, {"score": score}, "score")

    return evaluate


def evaluations(scores: Sequence[float], **fields: Any) -> list[Progress]:
    events = begin(Toy(), settings(**{"epochs": len(scores)} | fields), sequences(20), evaluate=scripted(scores))
    return [event for event in events if event.evaluation]


def test_training_stops_where_nothing_gets_better() -> None:
    found = evaluations([1, 2, 1.5, 2, 9, 9], patience=2)
    assert [event.best for event in found] == [True, True, False, True]  # of equal ones the later is kept
    assert found[-1].finished == "no better score in 2 evaluations"
    assert [event.update for event in found] == [5, 10, 15, 20]


def test_without_patience_it_goes_on_to_the_end() -> None:
    found = evaluations([3, 2, 1, 4])
    assert [event.best for event in found] == [True, False, False, True]
    assert found[-1].finished == "4 epochs done"


def test_a_score_that_is_no_number_is_never_the_better_one() -> None:
    found = evaluations([math.nan, 1, math.nan, 2])
    assert [event.best for event in found] == [True, True, False, True]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"evaluate_every": 3}, [3, 6, 9, 10]),
        ({"evaluate_every": 5}, [5, 10]),
        ({}, [5, 10]),
        ({"updates": 7}, [5, 7]),
        ({"updates": 7, "evaluate_every": 7}, [7]),
        ({"updates": 12, "evaluate_every": 100}, [12]),
    ],
    ids=str,
)
def test_evaluations_come_when_they_are_due(fields: dict[str, Any], expected: list[int]) -> None:
    found = evaluations([0.0] * 9, **{"epochs": 2} | fields)
    assert [event.update for event in found] == expected
    assert found[-1].finished
    assert not any(event.finished for event in found[:-1])


def test_an_evaluation_is_announced_and_closes_an_entry_of_the_log() -> None:
    chosen = settings(epochs=1, log_every=100)
    events = list(begin(Toy(), chosen, sequences(20), evaluate=scripted([1.0])))
    assert [event.pending for event in events] == [False] * 4 + [True, False]
    assert [event.logged for event in events] == [False] * 4 + [True, False]
    assert (events[-1].items, events[-1].epoch, events[-1].updates) == (0, 1.0, 5)


def test_time_is_asked_for_after_every_update() -> None:
    asked = iter([0.0, 0.3, 0.6, 1.0])
    events = list(
        begin(Toy(), settings(minutes=2.5), sequences(20), spent=lambda: next(asked), evaluate=scripted([1.0]))
    )
    assert [event.update for event in events] == [1, 2, 3, 3]
    assert events[-1].finished == "2.5 minutes are over"


def test_tokens_end_it_whatever_the_epochs_and_the_schedule_ends_there() -> None:
    examples = sequences(20)
    seen = sum(map(len, examples))
    chosen = settings(epochs=1, tokens=3 * seen, rate=1.0, schedule="linear", decay=0.0, batch=20)
    events = list(begin(Toy(), chosen, examples))
    assert [event.rate for event in events] == pytest.approx([1, 2 / 3, 1 / 3])
    assert [event.updates for event in events] == [3] * 3
    assert events[-1].finished == f"{3 * seen} tokens seen"
    (first, *_, last) = begin(Toy(), settings(tokens=seen + 1, schedule="cosine", decay=0.0, batch=4), examples)
    assert (first.finished, last.update) == ("", 6)  # the first update of the second epoch goes beyond
    (only,) = begin(Toy(), settings(tokens=1, updates=5), examples)
    assert only.finished == "1 tokens seen"


def test_the_position_among_the_tokens_is_kept() -> None:
    examples = sequences(20)
    chosen = settings(tokens=2 * sum(map(len, examples)) + 1, schedule="cosine", decay=0.0)
    whole, parts = Toy(), Toy()
    wanted = list(begin(whole, chosen, examples))
    snapshot = next(iter(begin(parts, chosen, examples))).snapshot()
    again = Toy()
    found = list(begin(again, chosen, examples, start=snapshot))
    assert [facts(event) for event in found] == [facts(event) for event in wanted[1:]]
    assert same(copied(whole), copied(again))


def test_the_schedule_ends_with_the_minutes() -> None:
    clock = iter([0.0, 0.25, 0.5, 0.75, 1.0])
    chosen = settings(epochs=0, minutes=1.0, rate=1.0, schedule="linear", decay=0.0)
    events = list(begin(Toy(), chosen, sequences(20), spent=lambda: next(clock)))
    assert [event.rate for event in events] == pytest.approx([1, 0.75, 0.5, 0.25])
    assert events[-1].finished == "1 minutes are over"


def test_something_has_to_end_it() -> None:
    with pytest.raises(ValidationError, match="epochs is 0, and nothing else ends the training"):
        settings(epochs=0)


def test_looking_changes_nothing() -> None:
    examples = sequences(20)
    without, with_evaluation = Toy(dropout=0.5), Toy(dropout=0.5)
    torch.manual_seed(5)
    list(begin(without, settings(), examples))
    state = torch.get_rng_state()
    torch.manual_seed(5)
    chosen = settings(evaluate_every=1)
    for event in begin(with_evaluation, chosen, examples, evaluate=evaluator(examples)):
        event.snapshot()
        event.weights()
    assert same(copied(without), copied(with_evaluation))
    assert torch.equal(torch.get_rng_state(), state)
    assert with_evaluation.training or event.finished


@pytest.mark.parametrize("average", [2, 3])
def test_the_mean_of_the_last_weights_is_evaluated_and_kept(average: int) -> None:
    model = Toy(dropout=0.1)
    own: list[dict[str, Tensor]] = []
    seen: list[dict[str, Tensor]] = []

    def evaluate(model: nn.Module) -> Evaluation:
        seen.append(copied(model))
        return Evaluation(0.0, {}, "score")

    for event in begin(model, settings(epochs=4, average=average), sequences(20), evaluate=evaluate):
        if event.pending:
            own.append(copied(model))
        if event.evaluation:
            assert same(copied(model), own[-1])
            last = own[-average:]
            wanted = {name: sum(weights[name].double() for weights in last) / len(last) for name in last[0]}
            assert same(seen[-1], event.weights())
            for name, tensor in event.weights().items():
                assert torch.allclose(tensor.double(), torch.as_tensor(wanted[name]), atol=1e-7)
    assert len(own) == 4


# Ends


def test_updates_in_all_are_known() -> None:
    events = list(begin(Toy(), settings(epochs=3), sequences(18)))
    assert {event.updates for event in events} == {15}
    assert [event.epoch for event in events] == pytest.approx([number / 5 for number in range(1, 16)])
    assert events[-1].finished == "3 epochs done"
    assert {event.updates for event in begin(Toy(), settings(epochs=3, pool=5), sequences(18))} == {None}
    assert len(list(begin(Toy(), settings(epochs=1, updates=12), sequences(18)))) == 12


def test_a_schedule_that_needs_the_end_says_so() -> None:
    with pytest.raises(ValueError, match=r'train\.schedule is "cosine", which needs to know .*or train\.minutes$'):
        list(begin(Toy(), settings(schedule="cosine", pool=5), sequences(18)))
    assert list(begin(Toy(), settings(schedule="cosine", pool=5, updates=3), sequences(18)))


def test_nothing_to_learn_from_is_an_error() -> None:
    with pytest.raises(ValueError, match="there are no training examples"):
        list(begin(Toy(), settings(), []))
    with pytest.raises(ValidationError):
        settings(epochs=0)


def test_workers_change_nothing() -> None:
    runs, ends = [], []
    for workers in (0, 2):
        model = Toy(dropout=0.3)
        runs.append([facts(event) for event in begin(model, settings(workers=workers), sequences(18))])
        ends.append(copied(model))
    assert runs[0] == runs[1]
    assert same(*ends)


# Truncated back-propagation


def pieces(examples: Sequence[Sequences], *, rows: int, steps: int) -> list[Batch]:
    loaded = BatchLoader(lambda: iter(examples), collate, rows=rows, steps=steps)
    return [part for (part,) in loaded.epoch(0)]


@pytest.mark.parametrize("accumulate", [1, 2])
def test_the_state_is_carried_on_and_the_gradient_is_cut(accumulate: int) -> None:
    examples = sequences(12)
    model = Toy().double()
    wide = [Sequences(example.values.astype(np.float64), example.target.astype(np.float64)) for example in examples]
    (whole,) = pieces(wide, rows=3, steps=1000)
    with torch.no_grad():
        total = float(loss(model, whole).total)
    # Tiny steps leave the weights as they are in float64 but for what is seen at 1e-12.
    still = {"optimizer": "sgd", "rate": 1e-15, "clip": 0.0}
    events = list(
        begin(model, settings(epochs=1, batch=3, steps=4, accumulate=accumulate, log_every=99, **still), wide)
    )
    assert events[-1].loss * whole.items == pytest.approx(total, rel=1e-9)
    state = None
    for event, piece in zip(events, pieces(wide, rows=3, steps=4), strict=True):
        found = loss(model, piece._replace(state=state))
        wanted = torch.autograd.grad(found.total, list(model.parameters()))
        state = tuple(part.detach() for part in found.state)
        assert event.norm * piece.items == pytest.approx(float(flat(wanted).norm()), rel=1e-9)


def test_an_equal_score_is_kept_but_waiting_goes_on() -> None:
    found = evaluations([1, 2, 2, 2, 2, 9], patience=3, schedule="plateau", decay=0.5, decay_wait=2, rate=1.0)
    assert [event.best for event in found] == [True, True, True, True, True]
    assert [event.rate for event in found] == [1, 1, 1, 0.5, 0.5]
    assert found[-1].finished == "no better score in 3 evaluations"
