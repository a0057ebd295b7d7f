"""Self-trained models: order of the data, learning rate, limits, resuming, and models that count."""

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pytest
import torch
from tests.training.toy import facts
from torch import nn

from seqloom.training.config import TrainConfig
from seqloom.training.distributed import SINGLE, ProcessGroup
from seqloom.training.engine import train
from seqloom.training.progress import Evaluation, Progress
from seqloom.training.self_trained import CountingModel, SelfTrained, SelfTrainedUpdate, UpdateStats


class Recorder(SelfTrained):
    """Records the arguments of each update."""

    examples_per_update, examples, length, unit = 2, 5, 15, "letters"

    def __init__(self) -> None:
        super().__init__()
        self.sum = nn.Parameter(torch.zeros(1), requires_grad=False)
        self.calls: list[tuple[Any, ...]] = []

    def update(self, examples: Iterable[str], *, rates: tuple[float, float], seed: Sequence[int]) -> UpdateStats:
        text = "".join(examples)
        self.calls.append((*examples, *rates, *seed))
        self.sum.mul_(3).add_(len(text) + seed[-1])
        return UpdateStats(6.0, 3, len(text))

    @property
    def rates(self) -> list[float]:
        return [rate for call in self.calls for rate in call[-5:-3]]


class Silent(Recorder):
    """Has no loss to report in every second update."""

    def update(self, examples: Iterable[str], *, rates: tuple[float, float], seed: Sequence[int]) -> UpdateStats:
        stats = super().update(examples, rates=rates, seed=seed)
        return stats if len(self.calls) % 2 else stats._replace(loss=0.0, items=0)


class Counter(CountingModel):
    """Counts the examples."""

    def __init__(self) -> None:
        super().__init__()
        self.seen = nn.Parameter(torch.zeros(1), requires_grad=False)

    def count(self, examples: Iterable[str]) -> None:
        self.seen.add_(len(list(examples)))


DATA = ["a", "bb", "ccc", "dddd", "eeeee"]
LINEAR: dict[str, Any] = {"epochs": 2, "learning_rate": 1.0, "schedule": "linear", "decay": 0.0, "log_every": 2}


def read() -> Iterator[str]:
    return iter(DATA)


def begin(
    model: SelfTrained, settings: TrainConfig, *, group: ProcessGroup = SINGLE, **options: Any
) -> Iterator[Progress]:
    return train(SelfTrainedUpdate(model, read, settings, group=group), **options)


def scored(scores: Sequence[float]) -> Any:
    left = iter(scores)
    return lambda _: Evaluation(next(left), {}, "score")


def test_the_learning_rate_falls_with_the_data_seen() -> None:
    model = Recorder()
    events = list(begin(model, TrainConfig(**LINEAR, seed=7)))
    assert [call[:-5] for call in model.calls] == [("a", "bb"), ("ccc", "dddd"), ("eeeee",)] * 2
    assert model.rates == pytest.approx([1 - done / 30 for done in (0, 3, 3, 10, 10, 15, 15, 18, 18, 25, 25, 30)])
    assert [call[-3:] for call in model.calls] == [(7, epoch, batch) for epoch in (0, 1) for batch in range(3)]
    assert [event.items for event in events] == [3, 7, 5] * 2
    assert [event.epoch for event in events] == pytest.approx([0.2, 2 / 3, 1, 1.2, 5 / 3, 2])
    assert [event.logged for event in events] == [False, True, False, True, False, True]
    assert events[1].loss == 2
    assert [event.finished for event in events] == [""] * 5 + ["2 epochs done"]
    assert events[0].updates == 6
    assert events[0].gradient_norm is None
    assert events[0].unit == "letters"


def test_evaluations_come_after_an_epoch_and_patience_stops_training() -> None:
    events = list(begin(Recorder(), TrainConfig(epochs=9, patience=2), evaluate=scored([1.0, math.nan, 0.5, 3.0])))
    result = [(event.update, event.best) for event in events if event.evaluation]
    assert result == [(3, True), (6, False), (9, False)]
    assert events[-1].finished == "no improvement in 2 evaluations"


def test_updates_and_minutes_are_limits() -> None:
    assert list(begin(Recorder(), TrainConfig(updates=4)))[-1].finished == "4 updates done"
    clock = iter([0.0, 0.5, 1.0])
    events = list(begin(Recorder(), TrainConfig(minutes=1.0), time_fraction=lambda: next(clock)))
    assert [event.finished for event in events] == ["", "1 minute elapsed"]
    settings = TrainConfig(updates=4, evaluate_every=2)
    assert [event.update for event in begin(Recorder(), settings, evaluate=scored([1, 2]))] == [1, 2, 2, 3, 4, 4]


def test_tokens_are_a_limit_and_the_schedule_ends_there() -> None:
    model = Recorder()
    events = list(begin(model, TrainConfig(**LINEAR, tokens=20)))
    expected = [1 - min(done / 20, 1) for done in (0, 3, 3, 10, 10, 15, 15, 18, 18, 25)]
    assert model.rates == pytest.approx(expected)
    assert events[-1].finished == "20 tokens seen"


@pytest.mark.parametrize("schedule", ["linear", "cosine"])
def test_with_minutes_alone_the_first_update_has_the_peak_rate(schedule: str) -> None:
    model = Recorder()
    clock = iter([0.0, 0.25, 0.5, 0.75, 1.0])
    settings = TrainConfig(**LINEAR | {"epochs": 0, "schedule": schedule}, minutes=1.0)
    list(begin(model, settings, time_fraction=lambda: next(clock)))
    assert model.rates[:2] == [1, 1]
    used = [0.25, 0.5, 0.75]  # each of the others begins where the clock is
    expected = [1 - share if schedule == "linear" else (1 + math.cos(math.pi * share)) / 2 for share in used]
    assert model.rates[2::2] == pytest.approx(expected)


def test_updates_without_a_loss_are_not_logged() -> None:
    events = list(begin(Silent(), TrainConfig(epochs=2, log_every=1)))
    assert [event.logged for event in events] == [True, False] * 3
    assert [event.loss for event in events[::2]] == [2] * 3


@pytest.mark.parametrize("evaluate_every", [0, 2])
@pytest.mark.parametrize("left", range(1, 9))
def test_it_resumes_after_any_event(left: int, evaluate_every: int) -> None:
    settings = TrainConfig(**LINEAR, evaluate_every=evaluate_every)
    scores = [1.0, 2.0, 3.0]
    whole = Recorder()
    expected = [facts(event) for event in begin(whole, settings, evaluate=scored(scores))]
    first, snapshot = Recorder(), None
    events = begin(first, settings, evaluate=scored(scores))
    evaluations = 0
    for _ in range(min(left, len(expected))):
        event = next(events)
        evaluations += event.evaluation is not None
        snapshot = event.snapshot()
    assert snapshot is not None
    snapshot = snapshot._replace(model={name: tensor.clone() for name, tensor in snapshot.model.items()})
    again = Recorder()
    rest = list(begin(again, settings, evaluate=scored(scores[evaluations:]), start=snapshot))
    assert torch.equal(again.sum, whole.sum)
    assert first.calls + again.calls == whole.calls
    assert [facts(event) for event in rest] == expected[left:]
    assert list(begin(again, settings, start=rest[-1].snapshot() if rest else snapshot)) == []


def test_a_counting_model_has_a_single_update() -> None:
    model = Counter()
    updated, evaluated = begin(model, TrainConfig(epochs=5), evaluate=scored([1.0]))
    assert (updated.pending, updated.logged, updated.finished, updated.epoch) == (True, False, "", 1)
    assert (updated.items, updated.updates, updated.learning_rate) == (15, 1, 0)
    assert (evaluated.best, evaluated.finished) == (True, "all examples counted")
    assert float(model.seen) == len(DATA)
    assert list(begin(model, TrainConfig(), start=evaluated.snapshot())) == []


def test_without_an_evaluation_a_counting_model_is_finished_at_once() -> None:
    (event,) = begin(Counter(), TrainConfig())
    assert (event.items, event.updates, event.finished) == (15, 1, "all examples counted")


def test_only_the_main_process_trains() -> None:
    assert list(begin(Counter(), TrainConfig(), group=ProcessGroup(1, 2))) == []
    (event,) = begin(Counter(), TrainConfig(), group=ProcessGroup(0, 2))
    assert event.snapshot().facts["ranks"] == 1


def test_no_examples_are_an_error() -> None:
    with pytest.raises(ValueError, match="no training examples"):
        list(train(SelfTrainedUpdate(Recorder(), lambda: iter(()), TrainConfig())))


def test_a_dry_run_is_one_update() -> None:
    model, counter = Recorder(), Counter()
    rule = SelfTrainedUpdate(model, read, TrainConfig())
    assert (rule.dry_run(), len(model.calls), rule.copies) == (0, 1, 1)
    assert rule.count_updates([1] * 7, tokens=None) == 4
    rule = SelfTrainedUpdate(counter, read, TrainConfig())
    assert (rule.dry_run(), float(counter.seen)) == (0, len(DATA))
    assert rule.count_updates([1] * 7, tokens=None) == 1
