"""Targets that are numbers: one or several for a sequence, or at each of its steps."""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from torch import Tensor
from torch.nn import functional

from seqloom import html
from seqloom.data.feature_statistics import SINGLE_DIGITS
from seqloom.data.target_scale import TargetScale
from seqloom.formats import format_number
from seqloom.insight.plotting import plot_path, titled
from seqloom.insight.regression_plot import MAX_STEPS, draw_predicted, draw_series
from seqloom.metrics import regression
from seqloom.metrics.confidence import MetricSums
from seqloom.models.baseline import Baseline

Numbers = NDArray[np.float64]
LossFunction = Literal["mse", "mae", "huber"]

LOSS_FUNCTIONS: dict[str, Callable[..., Tensor]] = {
    "mse": functional.mse_loss,
    "mae": functional.l1_loss,
    "huber": functional.huber_loss,
}
MAIN_METRIC = "r2"
SAME = 1e-3  # range of predictions in deviations, below which they are the same number
MAX_WORDS = 20_000  # words with a mean of their own in a baseline


@dataclass(frozen=True, slots=True)
class Regression:
    """The predicted numbers of a sequence, in the units of the training data."""

    values: dict[str, float]  # by the name of the target

    @property
    def value(self) -> float:
        """The number, if there is one target."""
        value: float = _only(self.values)
        return value

    def __str__(self) -> str:
        return "\t".join(format_number(value, SINGLE_DIGITS) for value in self.values.values())


@dataclass(frozen=True, slots=True)
class StepRegression:
    """The predicted numbers at each step of a sequence, in the units of the training data."""

    words: list[str]  # empty for frames
    values: dict[str, list[float]]  # by the name of the target

    @property
    def value(self) -> list[float]:
        """The number at each step, if there is one target."""
        values: list[float] = _only(self.values)
        return values

    def __len__(self) -> int:
        return len(next(iter(self.values.values())))

    def _rows(self) -> list[list[str]]:
        return [
            [format_number(value, SINGLE_DIGITS) for value in row] for row in zip(*self.values.values(), strict=True)
        ]

    def __str__(self) -> str:
        rows = self._rows()
        if self.words:
            return "".join("\t".join((word, *row)) + "\n" for word, row in zip(self.words, rows, strict=True))
        return "".join(",".join(row) + "\n" for row in rows)

    def _repr_html_(self) -> str:
        names = self.words or [str(number) for number in range(1, len(self) + 1)]
        rows = [[html.remark(name), *map(html.escape, row)] for name, row in zip(names, self._rows(), strict=True)]
        heading = "word" if self.words else "step"
        return html.table([heading, *self.values], rows, right=range(1, len(self.values) + 1))


def _only(values: Mapping[str, Any]) -> Any:
    if len(values) != 1:
        raise ValueError(f"there are {len(values)} targets, {', '.join(values)}: take them from values")
    return next(iter(values.values()))


@dataclass(frozen=True)
class NumberTargets:
    """What a fitted task does with its numbers; the parts of a batch are (B, K), or (B, T, K) at each step."""

    scale: TargetScale
    loss_function: LossFunction = "mse"

    def collate(self, rows: Sequence[Numbers | None]) -> list[NDArray[np.float32]] | None:
        """Standardised targets; None: some are not known."""
        known = [row for row in rows if row is not None]
        if len(known) < len(rows):
            return None
        return [self.scale.standardize(row).astype(np.float32) for row in known]

    def loss(self, predicted: Tensor, truth: Tensor) -> Tensor:  # (N, K) each → ()
        """The sum over items of the mean over targets, in standard deviations."""
        return LOSS_FUNCTIONS[self.loss_function](predicted, truth, reduction="none").mean(dim=-1).sum()

    def restore(self, scaled: Tensor) -> Numbers:
        """Outputs of the model in the units of the targets."""
        return self.scale.restore(scaled.detach().double().cpu().numpy())

    def answer(self, values: Numbers) -> Regression:  # (K,)
        return Regression(dict(zip(self.scale.names, values.tolist(), strict=True)))

    def step_answer(self, words: Sequence[str], values: Numbers) -> StepRegression:  # (T, K)
        return StepRegression(list(words), dict(zip(self.scale.names, values.T.tolist(), strict=True)))

    def column(self, name: str) -> int:
        """The index of a target; ValueError with all names if there is none of this name."""
        if name and name not in self.scale.names:
            raise ValueError(f"target: no number {name!r}; expected one of {', '.join(self.scale.names)}")
        return self.scale.names.index(name) if name else 0

    def value(self, outputs: Tensor, column: int) -> Tensor:  # (N, K) → (N,)
        """A target in its own units."""
        return outputs[:, column].double() * self.scale.deviations[column] + self.scale.means[column]

    def score(self, pairs: Sequence[tuple[Numbers, Numbers]]) -> dict[str, Any]:
        """R², errors in the units of the targets, and correlation, from true and predicted values of each example."""
        truth, predicted = (np.concatenate([pair[side] for pair in pairs]) for side in (0, 1))
        scores: dict[str, Any] = {MAIN_METRIC: self.metric_sums(pairs).whole, **_errors(truth, predicted)}
        if len(self.scale) > 1:
            columns = [(truth[:, [index]], predicted[:, [index]]) for index in range(len(self.scale))]
            scores["per_target"] = {
                name: _known({MAIN_METRIC: float(regression.r2(*column)[0]), **_errors(*column)})
                for name, column in zip(self.scale.names, columns, strict=True)
            }
        return _known(scores)

    def degenerate(self, pairs: Sequence[tuple[Numbers, Numbers]]) -> str:
        """A sentence if all predictions of a target are the same number, while the truth is not; else empty."""
        truth, predicted = (self.scale.standardize(np.concatenate([pair[side] for pair in pairs])) for side in (0, 1))
        for index, name in enumerate(self.scale.names):
            if np.ptp(predicted[:, index]) < SAME < np.ptp(truth[:, index]):
                value = format_number(self.scale.restore(predicted)[0, index], 4)
                return f"Every prediction of {name} is about {value}"
        return ""

    def metric_sums(self, pairs: Sequence[tuple[Numbers, Numbers]]) -> MetricSums:
        """R² as a function of sums; standardised, so that a large mean costs no digits."""
        return regression.r2_sums(
            [(self.scale.standardize(truth), self.scale.standardize(guess)) for truth, guess in pairs]
        )

    def fit_baseline(self, counts: Counter[tuple[str, tuple[float, ...]]]) -> Baseline:
        """The mean of the training targets, of each word if the targets belong to words."""
        totals: dict[str, list[Numbers]] = defaultdict(list)
        times: Counter[str] = Counter()
        for (word, values), count in counts.items():
            if word:
                totals[word].append(count * np.array(values))
                times[word] += count
        usual = [word for word, _ in times.most_common(MAX_WORDS)]
        means = {word: (np.sum(totals[word], axis=0) / times[word]).tolist() for word in usual}
        shown = ", ".join(format_number(mean, 4) for mean in self.scale.means[:4])
        name = f"mean of each word, {shown} for others" if means else f"mean of the training data, {shown}"
        return Baseline(name=name, means={**means, "": list(self.scale.means)})

    def score_baseline(
        self, baseline: Baseline, truths: Sequence[Numbers], words: Sequence[Sequence[str]]
    ) -> dict[str, float]:
        """The scores of the baseline; ``words`` of each example, empty if it has none."""
        scores = self.score(self._baseline_pairs(baseline, truths, words))
        return {name: scores[name] for name in (MAIN_METRIC, "mse", "mae")}

    def baseline_sums(
        self, baseline: Baseline, truths: Sequence[Numbers], words: Sequence[Sequence[str]]
    ) -> MetricSums:
        """The sums of the main metric of the baseline."""
        return self.metric_sums(self._baseline_pairs(baseline, truths, words))

    def _baseline_pairs(
        self, baseline: Baseline, truths: Sequence[Numbers], words: Sequence[Sequence[str]]
    ) -> list[tuple[Numbers, Numbers]]:
        """The true numbers of each example and those of the baseline."""
        others = baseline.means.get("", list(self.scale.means))
        pairs = []
        for truth, known in zip(truths, words, strict=True):
            rows = [baseline.means.get(word, others) for word in known] or [others] * len(truth)
            pairs.append((truth, np.array(rows, dtype=np.float64).reshape(truth.shape)))
        return pairs

    def draw(self, pairs: Sequence[tuple[Numbers, Numbers]], folder: Path, *, steps: bool) -> None:
        """predicted.png: predicted against true values, or at each step the values over time."""
        path, title = plot_path(folder, "predicted"), titled("predictions on the dev data")
        if steps:
            truth, predicted = pairs[int(np.argmax([len(pair[0]) for pair in pairs[:MAX_STEPS]]))]
            draw_series(truth[:MAX_STEPS], predicted[:MAX_STEPS], path, names=self.scale.names, title=title)
        else:
            truth, predicted = (np.concatenate([pair[side] for pair in pairs]) for side in (0, 1))
            shares = regression.r2(truth, predicted).tolist()
            names = [f"{name}, R² {share:.3f}" for name, share in zip(self.scale.names, shares, strict=True)]
            draw_predicted(truth, predicted, path, names=names, title=title)


def last_value_r2(pairs: Iterable[tuple[Numbers, Numbers]]) -> float:
    """R² of the previous true value as a prediction, which the model does not see; NaN if there is none."""
    steps = [truth for truth, _ in pairs if len(truth) > 1]
    if not steps:
        return math.nan
    later, earlier = np.concatenate([row[1:] for row in steps]), np.concatenate([row[:-1] for row in steps])
    return float(regression.r2(later, earlier).mean())


def counted_targets(target: Numbers, words: Sequence[str]) -> Iterator[tuple[str, tuple[float, ...]]]:
    """What the baseline counts: words with their numbers; the scale has the mean of all others."""
    for word, row in zip(words, target.tolist(), strict=False):
        yield word, tuple(row)


def _errors(truth: ArrayLike, predicted: ArrayLike) -> dict[str, float]:
    return {
        "mse": regression.mse(truth, predicted),
        "mae": regression.mae(truth, predicted),
        "correlation": regression.correlation(truth, predicted),
        "spearman": regression.mean_spearman(truth, predicted),
    }


def _known(scores: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in scores.items() if not (isinstance(value, float) and math.isnan(value))}
