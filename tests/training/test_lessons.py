"""Models that train themselves: passes, lessons, the rate by what was seen, and going on from any lesson."""

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import pytest
import torch
from torch import nn

from seqloom.training.lessons import teach
from seqloom.training.loop import Evaluation, Progress, Train


class Learnt(NamedTuple):
    total: float
    items: int
    seen: int


class Pupil(nn.Module):
    """Remembers what it was taught."""

    lesson, examples, length, unit = 2, 5, 15, "letters"

    def __init__(self) -> None:
        super().__init__()
        self.sum = nn.Parameter(torch.zeros(1), requires_grad=False)
        self.lessons: list[tuple[Any, ...]] = []

    def learn(self, examples: Sequence[str], *, rates: tuple[float, float], seed: Sequence[int]) -> Learnt:
        self.lessons.append((*examples, *rates, *seed))
        self.sum.mul_(3).add_(len("".join(examples)) + seed[-1])
        return Learnt(6.0, 3, len("".join(examples)))


DATA = ["a", "bb", "ccc", "dddd", "eeeee"]
LINEAR: dict[str, Any] = {"epochs": 2, "rate": 1.0, "schedule": "linear", "decay": 0.0, "log_every": 2}


def read() -> Iterator[str]:
    return iter(DATA)


def test_the_rate_falls_with_what_was_seen() -> None:
    pupil = Pupil()
    events = list(teach(pupil, read, Train(**LINEAR, seed=7)))
    names = [lesson[:-5] for lesson in pupil.lessons]
    assert names == [("a", "bb"), ("ccc", "dddd"), ("eeeee",)] * 2
    rates = [rate for lesson in pupil.lessons for rate in lesson[-5:-3]]
    assert rates == pytest.approx([1 - done / 30 for done in (0, 3, 3, 10, 10, 15, 15, 18, 18, 25, 25, 30)])
    assert [lesson[-3:] for lesson in pupil.lessons] == [(7, epoch, batch) for epoch in (0, 1) for batch in range(3)]
    assert [event.items for event in events] == [3, 7, 5] * 2
    assert [event.epoch for event in events] == pytest.approx([0.2, 2 / 3, 1, 1.2, 5 / 3, 2])
    assert [event.logged for event in events] == [False, True, False, True, False, True]
    assert events[1].loss == 2
    assert [event.finished for event in events] == [""] * 5 + ["2 epochs done"]
    assert events[0].updates == 6
    assert events[0].norm is None
    assert events[0].unit == "letters"


def scored(scores: list[float]) -> Any:
    left = iter(scores)
    return lambda _: Evaluation(next(left), {}, "score")


def test_evaluations_come_after_a_pass_and_patience_ends_it() -> None:
    events = list(teach(Pupil(), read, Train(epochs=9, patience=2), evaluate=scored([1.0, math.nan, 0.5, 3.0])))
    found = [(event.update, event.best) for event in events if event.evaluation]
    assert found == [(3, True), (6, False), (9, False)]
    assert events[-1].finished == "no better score in 2 evaluations"


def test_updates_and_minutes_end_it() -> None:
    assert list(teach(Pupil(), read, Train(updates=4)))[-1].finished == "4 updates done"
    spent = [0.0]
    events = []
    for event in teach(Pupil(), read, Train(minutes=1.0), spent=lambda: spent[0]):
        events.append(event)
        spent[0] += 1.0
    assert [event.finished for event in events] == ["", "1 minutes are over"]
    every = [
        event.update for event in teach(Pupil(), read, Train(updates=4, evaluate_every=2), evaluate=scored([1, 2]))
    ]
    assert every == [1, 2, 2, 3, 4, 4]


def test_tokens_end_it_and_the_rate_ends_there() -> None:
    pupil = Pupil()
    events = list(teach(pupil, read, Train(**LINEAR, tokens=20)))
    rates = [rate for lesson in pupil.lessons for rate in lesson[-5:-3]]
    assert rates == pytest.approx([1 - min(done / 20, 1) for done in (0, 3, 3, 10, 10, 15, 15, 18, 18, 25)])
    assert events[-1].finished == "20 tokens seen"


@pytest.mark.parametrize("schedule", ["linear", "cosine"])
def test_minutes_alone_let_the_first_lesson_keep_its_rate(schedule: str) -> None:
    pupil = Pupil()
    settings = Train(**LINEAR | {"epochs": 0, "schedule": schedule}, minutes=1.0)
    spent = [0.0]
    for _ in teach(pupil, read, settings, spent=lambda: spent[0]):
        spent[0] += 0.25
    rates = [lesson[-5:-3] for lesson in pupil.lessons]
    assert rates[0] == (1, 1)
    done = [0.25, 0.5, 0.75, 1.0]  # each of the others begins where the clock is
    wanted = [1 - share if schedule == "linear" else (1 + math.cos(math.pi * share)) / 2 for share in done]
    assert [rate for rate, _ in rates[1:]] == pytest.approx(wanted)


def test_what_is_counted_tells_how_long_it_was() -> None:
    class Counter(nn.Module):
        def count(self, examples: Any) -> None:
            assert list(examples) == DATA

    (event,) = teach(Counter(), read, Train())
    assert (event.items, event.updates, event.finished) == (15, 1, "everything is counted")


@pytest.mark.parametrize("left", range(1, 8))
def test_it_goes_on_from_anywhere(left: int) -> None:
    def go(start: Any = None) -> tuple[Pupil, Iterator[Progress]]:
        pupil = Pupil()
        return pupil, teach(pupil, read, Train(**LINEAR), evaluate=scored([1.0, 2.0][start is not None :]), start=start)

    whole, events = go()
    wanted = list(events)
    first, events = go()
    snapshot = None
    for _ in range(left):
        snapshot = next(events).snapshot()
    assert snapshot is not None
    snapshot = snapshot._replace(model={name: tensor.clone() for name, tensor in snapshot.model.items()})
    again = Pupil()
    scores = [1.0, 2.0][sum(event.evaluation is not None for event in wanted[:left]) :]
    rest = list(teach(again, read, Train(**LINEAR), evaluate=scored(scores), start=snapshot))
    assert torch.equal(again.sum, whole.sum)
    assert first.lessons + again.lessons == whole.lessons
    assert [event.update for event in rest] == [event.update for event in wanted[left:]]
    assert list(teach(again, read, Train(**LINEAR), start=rest[-1].snapshot() if rest else snapshot)) == []


class Counter(nn.Module):
    """Counts everything at once."""

    def __init__(self) -> None:
        super().__init__()
        self.seen = nn.Parameter(torch.zeros(1), requires_grad=False)

    def count(self, examples: Iterator[str]) -> None:
        self.seen.add_(len(list(examples)))


def test_who_counts_has_one_lesson() -> None:
    counter = Counter()
    learnt, judged = teach(counter, read, Train(epochs=5), evaluate=scored([1.0]))
    assert (learnt.pending, learnt.logged, learnt.finished, learnt.epoch) == (True, False, "", 1)
    assert (judged.best, judged.finished) == (True, "everything is counted")
    assert float(counter.seen) == len(DATA)
    assert list(teach(counter, read, Train(), start=judged.snapshot())) == []


def test_nothing_to_learn_from() -> None:
    with pytest.raises(ValueError, match="no training examples"):
        list(teach(Pupil(), lambda: iter(()), Train()))
