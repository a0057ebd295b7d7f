"""The learning rate range test (Smith 2017): raise the learning rate from update to update, and watch the loss."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from statistics import mean, pstdev
from typing import Any, NamedTuple

import torch

from seqloom import terminal
from seqloom.formats import format_value
from seqloom.insight.learning_rate_plot import draw_learning_rates
from seqloom.run_config import Config
from seqloom.training.distributed import SINGLE
from seqloom.training.engine import update_rule
from seqloom.training.progress import Position
from seqloom.training.update_rule import UpdateRule
from seqloom.training_data import Sources, data_readers, suggesting_task, with_detected
from seqloom.workflow import batch_loader

LOWEST, HIGHEST = 1e-6, 10.0
UPDATES = 120
SMOOTHING = 0.9  # of the exponential moving average of the losses
DIVERGED = 3.0  # times the lowest loss at which the test stops
START = 20  # updates with learning rates so low that nothing is learned: the loss at the start, and its noise
SMALLEST_FALL = 0.04  # of the loss at the start, below which the curve is flat
NOISE = 1.5  # standard deviations of the loss at the start, below which a fall may be luck
RISE = 0.3  # of the fall of the loss, after which a minimum has been passed
ROWS, BAR_WIDTH = 14, 40  # of the printed curve


@dataclass(frozen=True)
class LearningRateTest:
    """The loss at each learning rate, and the learning rate to use."""

    learning_rates: list[float]
    losses: list[float]  # smoothed
    suggestion: float | None  # a tenth of the one at which the loss stops falling; None: the curve does not show it
    lowest: float | None  # learning rate at which the loss stops falling
    configured: float  # train.learning_rate
    problem: str = ""  # why there is no suggestion


def find_learning_rate(config: Config, *, updates: int = UPDATES) -> LearningRateTest:
    """Train a new model for a few updates, each with a higher learning rate."""
    config, _ = with_detected(config, Sources())
    readers = data_readers(config)
    with suggesting_task(config):
        config = config._replace(task=config.task.fit(readers.train()))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.train.seed)
        if config.task.is_self_trained:
            raise TypeError(f"this {config.name} model is not trained by gradient descent: it has no loss to watch")
        module = config.task.build_model().to(config.train.device)
        batches = batch_loader(config, readers.train, SINGLE)
        rule = update_rule(module, batches, config.loss_function(), config.train)
        points = list(_losses(rule, updates))
    rates, raw = [rate for rate, _ in points], [loss for _, loss in points]
    losses, start = smooth(raw), LossAtStart.of(raw)
    lowest = suggest(rates, losses, start)
    suggestion = None if lowest is None else float(f"{lowest / 10:.0e}")
    problem = "" if lowest is not None else describe_problem(losses, start)
    return LearningRateTest(rates, losses, suggestion, lowest, config.train.learning_rate, problem)


def _losses(rule: UpdateRule, updates: int) -> Iterator[tuple[float, float]]:
    """Each learning rate and the loss per item before its update, until the loss explodes."""
    rule.model.train()
    position, lowest = Position(), math.inf
    for number, chunk in enumerate(islice(_chunks(rule), updates)):
        rate = LOWEST * (HIGHEST / LOWEST) ** (number / max(updates - 1, 1))
        result = rule.update(chunk, position, lambda _, rate=rate: rate)  # type: ignore[misc]
        position = position.after(result, final=False)
        loss = math.nan if result.loss is None or not result.items else result.loss / result.items
        lowest = min(lowest, loss)
        if not math.isfinite(loss) or loss > DIVERGED * lowest + 1:
            return
        yield rate, loss


def _chunks(rule: UpdateRule) -> Iterator[Any]:
    """The batches of one epoch after another."""
    epoch = 0
    while True:
        chunk = None
        for chunk in rule.chunks(epoch, 0):
            yield chunk
        if chunk is None:
            raise ValueError("there are no training examples")
        epoch += 1


def smooth(values: Sequence[float]) -> list[float]:
    """The exponential moving average, corrected for its start."""
    average, result = 0.0, []
    for number, value in enumerate(values, start=1):
        average = SMOOTHING * average + (1 - SMOOTHING) * value
        result.append(average / (1 - SMOOTHING**number))
    return result


class LossAtStart(NamedTuple):
    """The loss before anything is learned, and how much it varies from batch to batch."""

    mean: float
    deviation: float

    @classmethod
    def of(cls, losses: Sequence[float]) -> "LossAtStart":
        first = losses[:START]
        return cls(mean(first) if first else math.nan, pstdev(first) if first else math.nan)

    @property
    def smallest_fall(self) -> float:
        """A smaller fall shows nothing."""
        return max(SMALLEST_FALL * abs(self.mean), NOISE * self.deviation)


def suggest(rates: Sequence[float], losses: Sequence[float], start: LossAtStart) -> float | None:
    """The learning rate at which the smoothed loss stops falling; None if it has hardly fallen."""
    best = START if len(losses) > START else 0
    for index, loss in enumerate(losses[best:], start=best):
        fall = start.mean - losses[best]
        if fall > start.smallest_fall and loss - losses[best] > RISE * fall:
            break  # a later minimum may be luck: weights that jump have lost what they had learned
        if loss < losses[best]:
            best = index
    fallen = bool(losses) and start.mean - losses[best] > start.smallest_fall
    return rates[best] if fallen else None


def describe_problem(losses: Sequence[float], start: LossAtStart) -> str:
    """Why a curve shows no learning rate to use."""
    fall = max(start.mean - min(losses[START:], default=start.mean), 0.0)
    if not fall > SMALLEST_FALL * abs(start.mean):
        return (
            f"the curve is too flat: the loss falls from {format_value(start.mean)} by {format_value(fall)} at most; "
            "keep the default, and look for problems with seqloom check if training does not learn"
        )
    noise = format_value(start.deviation)
    return (
        f"the curve is too noisy: the loss falls by {format_value(fall)}, but varies by {noise} from batch to batch; "
        "keep the default, or try a larger train.batch_size"
    )


def print_test(test: LearningRateTest, plot: Path | None = None) -> None:
    """Print the curve and the suggestion, and draw the curve to a file if one is given."""
    step = max(math.ceil(len(test.losses) / ROWS), 1)
    low, high = min(test.losses, default=0.0), max(test.losses, default=1.0)
    rows = [
        (
            f"{rate:.1e}",
            format_value(loss),
            "#" * max(round(BAR_WIDTH * (loss - low) / ((high - low) or 1)), 1),
        )
        for rate, loss in list(zip(test.learning_rates, test.losses, strict=True))[::step]
    ]
    terminal.table(("learning rate", "loss", ""), rows)
    terminal.print_lines("")
    if test.suggestion is None:
        terminal.print_wrapped(f"No suggestion: {test.problem}. Configured: {test.configured:g}.")
    else:
        terminal.print_wrapped(
            f"Suggestion: train.learning_rate={test.suggestion:g}, a tenth of {test.lowest:.1e}, where the loss stops "
            f"falling. Configured: {test.configured:g}."
        )
    if plot is None:
        terminal.print_lines("Draw the curve:  --output learning_rate.png")
        return
    try:
        draw_learning_rates(test.learning_rates, test.losses, plot, suggestion=test.suggestion)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "matplotlib":
            raise
        terminal.print_wrapped("No plot: run pip install 'seqloom[plots]'.")
    else:
        terminal.print_lines(f"Curve: {plot}")
