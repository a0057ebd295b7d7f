"""Models that train themselves, a lesson at a time, told by the same events as a training by gradients."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, Protocol

import torch

from seqloom.checkpoint import Snapshot
from seqloom.training import schedules
from seqloom.training.loop import Evaluation, Progress, Train
from seqloom.training.snapshots import Position


class Lesson(Protocol):
    """What some examples taught."""

    @property
    def total(self) -> float: ...  # the summed loss

    @property
    def items(self) -> int: ...  # that it is the sum over

    @property
    def seen(self) -> int: ...  # elements of the data


class Learner(Protocol):
    """A model that learns from some examples at a time, in place; the same ones, the same seed: the same result.

    The simplest kind has a method ``count`` instead: all it learns it learns from all examples in one lesson.
    """

    lesson: int  # examples in a lesson
    examples: int  # in the data
    length: int  # of all of them together
    unit: str  # what their length counts

    def learn(self, examples: Sequence[Any], *, rates: tuple[float, float], seed: Sequence[int]) -> Lesson: ...


def teach(
    model: Any,  # a Learner, and a module
    read: Callable[[], Iterator[Any]],
    settings: Train,
    *,
    evaluate: Callable[[Any], Evaluation] | None = None,
    spent: Callable[[], float] = lambda: 0.0,  # the share of the minutes that is over
    start: Snapshot | None = None,  # go on from there
) -> Iterator[Progress]:
    """Pass by pass, until the end or until the caller leaves the loop; every lesson and evaluation is handed out."""
    study = Study(model, settings, evaluate=evaluate, spent=spent)
    if start is not None:
        study.restore(start)
    if study.pending():
        yield study.assess()
    while not study.over():
        for examples, final in study.lessons(read):
            yield study.learn(examples, final=final)
            if study.pending():
                yield study.assess()
            if study.over():
                return


class Study:
    """A training under way."""

    def __init__(
        self, model: Any, settings: Train, *, evaluate: Callable[[Any], Evaluation] | None, spent: Callable[[], float]
    ) -> None:
        self.model, self.settings, self.evaluate, self.spent = model, settings, evaluate, spent
        self.counts = hasattr(model, "count")
        self.shape = schedules.Shape(
            settings.warmup, settings.decay, settings.decay_after_epochs, settings.plateau_patience
        )
        self.each = 1 if self.counts else max(math.ceil(model.examples / model.lesson), 1)
        self.position = Position()
        self.done = 0  # length of what was seen in this pass

    def pending(self) -> bool:
        return self.position.pending

    def over(self) -> bool:
        return bool(self.position.finished)

    def restore(self, start: Snapshot) -> None:
        self.model.load_state_dict(start.model)
        facts = start.facts["position"]
        self.position = Position(**{**facts, "scores": tuple(facts["scores"])})

    def lessons(self, read: Callable[[], Iterator[Any]]) -> Iterator[tuple[Any, bool]]:
        """The examples of each lesson of a pass that is still to come, and whether it is the last one."""
        examples = read()
        if self.counts:
            yield examples, True
            return
        size = self.model.lesson
        self.done = sum(map(len, islice(examples, size * self.position.batch)))
        current = list(islice(examples, size))
        if not current:
            raise ValueError("there are no training examples")
        while current:
            following = list(islice(examples, size))
            yield current, not following
            current = following

    def passes(self, ahead: int = 0) -> float:
        """Passes that are done, with their fraction, after so much more was seen."""
        return self.position.epoch + (self.done + ahead) / max(getattr(self.model, "length", 1), 1)

    def total(self) -> float:
        """Lessons in all, as far as is known by now; 0: not at all."""
        settings = self.settings
        if self.counts:
            return 1
        limits = [float(settings.updates)] if settings.updates else []
        limits += [settings.tokens / max(self.model.length, 1) * self.each] if settings.tokens else []
        limits += [] if limits or not settings.epochs else [float(settings.epochs * self.each)]
        spent = self.spent() if settings.minutes else 0.0
        limits += [self.passes() * self.each / spent] if spent and self.passes() else []
        return min(limits, default=0.0)

    def rate(self, ahead: int = 0) -> float:
        """The learning rate after so much more was seen."""
        passes = self.passes(ahead)
        moment = schedules.Moment(passes * self.each, self.total(), passes, self.position.scores)
        return self.settings.learning_rate * schedules.factor(self.settings.schedule, moment, self.shape)

    def learn(self, examples: Any, *, final: bool) -> Progress:
        """One lesson."""
        self.model.train()
        settings, seen, rate = self.settings, 0, 0.0
        if self.counts:
            told = Told(examples)
            self.model.count(told)
            self.position = self.position.after(0.0, 0, finite=True, clipped=False, final=final)._replace(counted=0)
            seen = told.length
            ending = "everything is counted"
        else:
            ahead = sum(map(len, examples))
            rates = self.rate(), self.rate(ahead)
            seed = settings.seed, self.position.epoch, self.position.batch
            found = self.model.learn(examples, rates=rates, seed=seed)
            self.done = 0 if final else self.done + ahead
            before = self.position
            after = before.after(found.total, found.items, finite=True, clipped=False, final=final)
            self.position = after._replace(seen=before.seen + ahead)
            seen, rate = found.seen, rates[0]
            ending = settings.over(self.position, spent=self.spent())
        every = settings.evaluate_every
        due = bool(ending) or (self.position.update % every == 0 if every else final)
        pending = due and self.evaluate is not None
        self.position = self.position._replace(ending=ending, pending=pending, finished="" if pending else ending)
        return self._progress(rate=rate, items=seen)

    def assess(self) -> Progress:
        """Evaluate the model; it and the random numbers stay as they are."""
        assert self.evaluate is not None  # noqa: S101  otherwise nothing is pending
        with torch.random.fork_rng(devices=[]), torch.no_grad():
            found = self.evaluate(self.model.eval())
        score = -math.inf if math.isnan(found.score) else found.score
        position = self.position._replace(scores=(*self.position.scores, score), pending=False)
        ending = position.ending
        if self.settings.patience and position.waited() >= self.settings.patience:
            ending = ending or f"no better score in {self.settings.patience} evaluations"
        self.position = position._replace(finished=ending)
        return self._progress(rate=0.0, items=0, evaluation=found)

    def _progress(self, *, rate: float, items: int, evaluation: Evaluation | None = None) -> Progress:
        entry = self.position
        ends = entry.pending or bool(entry.finished) or entry.update % self.settings.log_every == 0
        logged = bool(entry.items) and ends
        if logged:
            self.position = entry._replace(summed=0.0, items=0.0, counted=0)
        return Progress(
            update=entry.update,
            updates=max(math.ceil(self.total()), entry.update),
            epoch=self.passes(),
            loss=entry.summed / entry.items if entry.items else math.nan,
            rate=rate,
            norm=None,
            clipped=0.0,
            items=items,
            skipped=0,
            logged=logged,
            pending=entry.pending,
            evaluation=evaluation,
            best=evaluation is not None and entry.scores[-1] == max(entry.scores),
            finished=entry.finished,
            snapshot=self.snapshot,
            weights=self.model.state_dict,
            unit=getattr(self.model, "unit", "items"),
        )

    def snapshot(self) -> Snapshot:
        """The weights themselves, which may be large: they have to be written before the next lesson."""
        return Snapshot(self.model.state_dict(), {}, {"position": self.position._asdict(), "ranks": 1})


class Told:
    """Examples that are told one by one, and how long they were."""

    def __init__(self, examples: Iterable[Any]) -> None:
        self.examples, self.length = examples, 0

    def __iter__(self) -> Iterator[Any]:
        for example in self.examples:
            self.length += len(example)
            yield example


def is_taught(model: Any) -> bool:
    """Whether a model trains itself."""
    return hasattr(model, "learn") or hasattr(model, "count")


def first_lesson(model: Any, examples: Sequence[Any]) -> None:
    """Let a model learn from some examples, to see that it can."""
    if hasattr(model, "count"):
        model.count(examples)
    elif examples:
        model.learn(examples[: model.lesson], rates=(1e-3, 1e-3), seed=(1, 0, 0))
