"""The training engine: schedule, log entries, evaluations, limits and their events."""

import json
import math
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from tests.training.toy import (
    Toy,
    batches,
    begin,
    copy_weights,
    evaluator,
    facts,
    loss,
    same,
    sequences,
    settings,
    train_with_nonfinite_loss,
    weight_change,
)
from torch import Tensor, nn

from seqloom.checkpoint import RunError
from seqloom.training.divergence import Diverged
from seqloom.training.engine import MAX_SKIPPED_IN_A_ROW
from seqloom.training.progress import Evaluation, Progress

# Schedule and log


def test_the_learning_rate_follows_the_schedule() -> None:
    chosen = settings(
        epochs=2, optimizer="sgd", learning_rate=0.5, schedule="linear", decay=0.0, warmup=2, clip_norm=1e-3
    )
    model = Toy()
    before = copy_weights(model)
    for index, event in enumerate(begin(model, chosen, sequences(20))):
        expected = 0.5 * min((index + 1) / 2, 1) * (1 - max(index - 2, 0) / 8)
        assert event.learning_rate == pytest.approx(expected)
        assert float(weight_change(before, copy_weights(model)).norm()) == pytest.approx(expected * 1e-3, rel=1e-3)
        before = copy_weights(model)


def test_the_logged_loss_is_the_mean_over_items_since_the_last_entry() -> None:
    examples = sequences(18)
    chosen = settings(epochs=1, learning_rate=1e-30, optimizer="sgd", log_every=2)
    parts = [part for (part,) in batches(examples, chosen).epoch(0)]
    model = Toy()
    each = [(float(loss(model, part).total.detach()), part.items) for part in parts]
    expected = [each[:2], each[2:4], each[4:]]
    events = [event for event in begin(model, chosen, examples) if event.logged]
    assert [event.update for event in events] == [2, 4, 5]
    for event, some in zip(events, expected, strict=True):
        assert event.loss == pytest.approx(sum(total for total, _ in some) / sum(items for _, items in some))


def test_ten_skipped_updates_in_a_row_stop_training() -> None:
    model = Toy()
    weights: list[dict[str, Tensor]] = []
    message = (
        r"diverged: the gradient was not finite in 10 updates in a row, the last of them 15; lower train\.learning_rate"
    )
    with pytest.raises(Diverged, match=message) as caught:
        weights.extend(copy_weights(model) for _ in train_with_nonfinite_loss(model, range(6, 99)))
    assert len(weights) == 14
    assert all(same(weights[4], later) for later in (*weights[5:], copy_weights(model)))
    assert caught.value.batch[0].inputs.values.shape[0] == 4


def test_nine_skipped_updates_in_a_row_do_not_stop_training() -> None:
    assert [event.skipped for event in train_with_nonfinite_loss(Toy(), [*range(2, 11), *range(12, 20)])][-1] == 17
    assert MAX_SKIPPED_IN_A_ROW == 10


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


def test_training_stops_without_improvement() -> None:
    result = evaluations([1, 2, 1.5, 2, 9, 9], patience=2)
    assert [event.best for event in result] == [True, True, False, False]
    assert result[-1].finished == "no improvement in 2 evaluations"
    assert [event.update for event in result] == [5, 10, 15, 20]


def test_without_patience_training_continues() -> None:
    result = evaluations([3, 2, 1, 4])
    assert [event.best for event in result] == [True, False, False, True]
    assert result[-1].finished == "4 epochs done"


def test_nan_is_never_the_best_score() -> None:
    result = evaluations([math.nan, 1, math.nan, 2])
    assert [event.best for event in result] == [False, True, False, True]


def test_training_without_any_score_has_diverged() -> None:
    with pytest.raises(Diverged, match=r"no evaluation gave a number for score; lower train\.learning_rate"):
        evaluations([math.nan, math.nan])
    assert [event.best for event in evaluations([math.nan, -math.inf])] == [False, True]  # infinity is a score


@pytest.mark.parametrize("value", [math.nan, math.inf, 3e38])
def test_bad_weights_are_neither_evaluated_nor_saved(value: float) -> None:
    model = Toy()
    evaluated: list[int] = []

    def evaluate(model: nn.Module) -> Evaluation:
        evaluated.append(1)
        return Evaluation(1.0, {"score": 1.0}, "score")

    events = begin(model, settings(epochs=2, learning_rate=1e-9), sequences(20), evaluate=evaluate)
    message = r"weights are too large or not finite after update \d+ \(output.bias: "
    for event in events:
        if event.evaluation:
            break
    good = event.snapshot()
    with torch.no_grad():
        model.output.bias.fill_(value)
    with pytest.raises(Diverged, match=message):
        event.snapshot()
    if value == 3e38:  # the gradient is finite, until the evaluation comes
        with torch.no_grad():
            model.output.bias.fill_(1e19)
    with pytest.raises(Diverged, match=message if value == 3e38 else r"."):
        list(events)
    assert evaluated == [1]
    poisoned = good._replace(model=good.model | {"output.bias": torch.tensor([value])})
    with pytest.raises(RunError, match=r"cannot be resumed: its weights are too large or not finite \(output.bias: "):
        list(begin(Toy(), settings(), sequences(20), start=poisoned))


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
def test_evaluations_happen_when_they_are_due(fields: dict[str, Any], expected: list[int]) -> None:
    result = evaluations([0.0] * 9, **{"epochs": 2} | fields)
    assert [event.update for event in result] == expected
    assert result[-1].finished
    assert not any(event.finished for event in result[:-1])


def test_an_evaluation_is_announced_and_ends_a_log_entry() -> None:
    chosen = settings(epochs=1, log_every=100)
    events = list(begin(Toy(), chosen, sequences(20), evaluate=scripted([1.0])))
    assert [event.pending for event in events] == [False] * 4 + [True, False]
    assert [event.logged for event in events] == [False] * 4 + [True, False]
    assert (events[-1].items, events[-1].epoch, events[-1].updates) == (0, 1.0, 5)


def test_the_clock_is_read_after_every_update() -> None:
    clock = iter([0.0, 0.3, 0.6, 1.0])
    events = list(
        begin(Toy(), settings(minutes=2.5), sequences(20), time_fraction=lambda: next(clock), evaluate=scripted([1.0]))
    )
    assert [event.update for event in events] == [1, 2, 3, 3]
    assert events[-1].finished == "2.5 minutes elapsed"


def test_tokens_limit_training_and_the_schedule() -> None:
    examples = sequences(20)
    seen = sum(map(len, examples))
    chosen = settings(epochs=1, tokens=3 * seen, learning_rate=1.0, schedule="linear", decay=0.0, batch_size=20)
    events = list(begin(Toy(), chosen, examples))
    assert [event.learning_rate for event in events] == pytest.approx([1, 2 / 3, 1 / 3])
    assert [event.updates for event in events] == [3] * 3
    assert events[-1].finished == f"{3 * seen} tokens seen"
    (first, *_, last) = begin(Toy(), settings(tokens=seen + 1, schedule="cosine", decay=0.0, batch_size=4), examples)
    assert (first.finished, last.update) == ("", 6)  # the first update of the second epoch goes beyond
    (only,) = begin(Toy(), settings(tokens=1, updates=5), examples)
    assert only.finished == "1 token seen"


def test_the_number_of_tokens_seen_is_restored() -> None:
    examples = sequences(20)
    chosen = settings(tokens=2 * sum(map(len, examples)) + 1, schedule="cosine", decay=0.0)
    whole, parts = Toy(), Toy()
    expected = list(begin(whole, chosen, examples))
    snapshot = next(iter(begin(parts, chosen, examples))).snapshot()
    again = Toy()
    result = list(begin(again, chosen, examples, start=snapshot))
    assert [facts(event) for event in result] == [facts(event) for event in expected[1:]]
    assert same(copy_weights(whole), copy_weights(again))


def test_the_schedule_ends_with_the_minutes() -> None:
    clock = iter([0.0, 0.25, 0.5, 0.75, 1.0])
    chosen = settings(epochs=0, minutes=1.0, learning_rate=1.0, schedule="linear", decay=0.0)
    events = list(begin(Toy(), chosen, sequences(20), time_fraction=lambda: next(clock)))
    assert [event.learning_rate for event in events] == pytest.approx([1, 0.75, 0.5, 0.25])
    assert events[-1].finished == "1 minute elapsed"


def test_events_do_not_change_training() -> None:
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
    assert same(copy_weights(without), copy_weights(with_evaluation))
    assert torch.equal(torch.get_rng_state(), state)
    assert with_evaluation.training or event.finished


def test_an_equal_score_is_no_improvement() -> None:
    result = evaluations(
        [1, 2, 2, 2, 2, 9], patience=3, schedule="plateau", decay=0.5, plateau_patience=2, learning_rate=1.0
    )
    assert [event.best for event in result] == [True, True, False, False, False]
    assert [event.learning_rate for event in result] == [1, 1, 1, 0.5, 0.5]
    assert result[-1].finished == "no improvement in 3 evaluations"


def with_losses(pairs: Sequence[tuple[float, float]]) -> Any:
    left = iter(pairs)

    def evaluate(model: nn.Module) -> Evaluation:
        score, loss = next(left)
        return Evaluation(score, {"score": score, "loss": loss}, "score")

    return evaluate


TIES = [(1.0, 0.9), (1.0, 0.5), (1.0, 0.7), (0.5, 0.1), (1.0, math.nan), (1.0, 0.4), (2.0, 0.8), (2.0, 0.8), (2.0, 0.6)]
KEPT = [True, True, False, False, False, True, True, False, True]


def test_of_equal_scores_the_one_with_the_lowest_loss_is_kept() -> None:
    chosen = settings(epochs=len(TIES), patience=6)
    events = begin(Toy(), chosen, sequences(20), evaluate=with_losses(TIES))
    result = [event for event in events if event.evaluation]
    assert [event.kept for event in result] == KEPT
    assert [event.best for event in result] == [index in (0, 6) for index in range(len(TIES))]
    impatient = begin(Toy(), settings(epochs=9, patience=3), sequences(20), evaluate=with_losses(TIES))
    assert [event.finished for event in impatient if event.evaluation][3:] == ["no improvement in 3 evaluations"]
    assert [event.kept for event in evaluations([1, 1, 2, 2])] == [True, False, True, False]  # there is no loss


def test_the_lowest_loss_is_known_after_resuming() -> None:
    chosen, examples = settings(epochs=len(TIES)), sequences(20)
    events = begin(Toy(), chosen, examples, evaluate=with_losses(TIES))
    snapshots = [event.snapshot() for event in events if event.evaluation]
    for done, snapshot in enumerate(snapshots[:-1], start=1):
        facts = json.loads(json.dumps(snapshot.facts))
        resumed = begin(
            Toy(), chosen, examples, start=snapshot._replace(facts=facts), evaluate=with_losses(TIES[done:])
        )
        assert [event.kept for event in resumed if event.evaluation] == KEPT[done:]


# Ends


def test_the_total_number_of_updates_is_known() -> None:
    events = list(begin(Toy(), settings(epochs=3), sequences(18)))
    assert {event.updates for event in events} == {15}
    assert [event.epoch for event in events] == pytest.approx([number / 5 for number in range(1, 16)])
    assert events[-1].finished == "3 epochs done"
    streamed = [event.updates for event in begin(Toy(), settings(epochs=3, shuffle_buffer=5), sequences(18))]
    assert streamed == [None] * (len(streamed) // 3 - 1) + [len(streamed)] * (len(streamed) * 2 // 3 + 1)
    assert len(list(begin(Toy(), settings(epochs=1, updates=12), sequences(18)))) == 12


def test_a_stream_is_decayed_as_soon_as_its_length_is_known() -> None:
    events = list(begin(Toy(), settings(epochs=4, schedule="linear", shuffle_buffer=5), sequences(18)))
    rates = [event.learning_rate / events[0].learning_rate for event in events]
    length = len(events) // 4
    assert rates[: length + 1] == [1.0] * length + [pytest.approx(0.75)]
    assert rates == sorted(rates, reverse=True)
    assert rates[-1] == pytest.approx(1 / len(events))


def test_no_training_examples_are_an_error() -> None:
    with pytest.raises(ValueError, match="there are no training examples"):
        list(begin(Toy(), settings(), []))


def test_workers_change_nothing() -> None:
    runs, ends = [], []
    for workers in (0, 2):
        model = Toy(dropout=0.3)
        runs.append([facts(event) for event in begin(model, settings(workers=workers), sequences(18))])
        ends.append(copy_weights(model))
    assert runs[0] == runs[1]
    assert same(*ends)
