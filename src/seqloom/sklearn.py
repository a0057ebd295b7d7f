"""Estimators for scikit-learn: classes, numbers, tags and forecasts of sequences in pipelines, searches and folds."""

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

try:
    from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
    from sklearn.utils import check_array, check_consistent_length, check_random_state, column_or_1d
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import check_is_fitted, validate_data
except ModuleNotFoundError:
    raise ModuleNotFoundError(
        "seqloom.sklearn needs scikit-learn: pip install 'seqloom[sklearn]'", name="sklearn"
    ) from None

from seqloom import files
from seqloom.answers import Answers
from seqloom.data.readers import memory, tables
from seqloom.interactive.train import train
from seqloom.model import Model, load
from seqloom.run import Run

__all__ = ["SequenceClassifier", "SequenceForecaster", "SequenceRegressor", "SequenceTagger"]

MAX_SEED = 2**31 - 1


class _SequenceEstimator(BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """What the estimators share: settings, training, and a model that is pickled as the files of its run."""

    _task: ClassVar[str]

    def __init__(
        self,
        *,
        cell: str | None = None,  # None, here and below: the default of the task
        hidden_size: int | None = None,
        layers: int | None = None,
        bidirectional: bool | None = None,
        epochs: int | None = None,
        batch_size: int | None = None,
        learning_rate: float | None = None,
        validation_fraction: float = 0.0,  # of the training data, held out to select the best checkpoint
        settings: Mapping[str, Any] | None = None,  # further ones by section.key, such as {"task.pooling": "mean"}
        output: str | Path | None = None,  # new run folder to keep; None: the run is held in memory
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.cell = cell
        self.hidden_size = hidden_size
        self.layers = layers
        self.bidirectional = bidirectional
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.validation_fraction = validation_fraction
        self.settings = settings
        self.output = output
        self.random_state = random_state
        self.verbose = verbose

    def _train(self, data: Sequence[Any], **settings: Any) -> None:
        """Train on examples of the task; sets ``model_`` and ``run_files_``."""
        values = {
            "task.encoder.cell": self.cell,
            "task.encoder.hidden_size": self.hidden_size,
            "task.encoder.layers": self.layers,
            "task.encoder.bidirectional": self.bidirectional,
            "task.dev_fraction": self.validation_fraction,
            "train.epochs": self.epochs,
            "train.batch_size": self.batch_size,
            "train.learning_rate": self.learning_rate,
            "train.seed": int(check_random_state(self.random_state).randint(MAX_SEED)),
            **settings,
            **(self.settings or {}),
        }
        with tempfile.TemporaryDirectory(prefix="seqloom-") as folder:
            output = Path(self.output) if self.output is not None else Path(folder, "run")
            run = train(
                task=self._task,
                data=data,
                output=output,
                quiet=not self.verbose,
                plots=self.output is not None,
                overrides=values,
            )
            self.run_files_ = _read_files(run)
            self.model_ = load(run)

    def save(self, path: str | Path) -> Run:
        """Write the run to a new folder, for ``seqloom.load`` and the command line."""
        check_is_fitted(self, "run_files_")
        return _write_files(self.run_files_, Path(path))

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = dict(super().__getstate__())
        state.pop("model_", None)  # the files of the run hold it
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if "run_files_" in state:
            with tempfile.TemporaryDirectory(prefix="seqloom-") as folder:
                self.model_ = load(_write_files(self.run_files_, Path(folder, "run")))

    def _answers(self, inputs: Sequence[Any]) -> Answers:
        check_is_fitted(self, "model_")
        model: Model = self.model_
        return model.predict(inputs) if len(inputs) else Answers([])

    def _sequences(self, X: Any, *, reset: bool) -> list[Any]:
        """Texts or arrays (T, D), one for each sample; a table of numbers has a sequence in each row."""
        texts = _texts(X)
        if texts is not None:
            return texts
        pairs = _text_pairs(X)
        if pairs is not None:
            return pairs
        arrays = _arrays(X)
        if arrays is not None:
            return arrays
        table: NDArray[Any] = validate_data(self, X, reset=reset, dtype="numeric")
        return [row[:, np.newaxis] for row in table.astype(np.float32)]


class SequenceClassifier(ClassifierMixin, _SequenceEstimator):  # type: ignore[misc]
    """One class for each text, pair of texts or sequence of vectors.

    ``X``: texts (a list, a series, or a table with one column), pairs of texts (a list of tuples, or a table with two
    columns), arrays (T, D) of any length, an array (N, T, D), or a table of numbers in which each row is a sequence of
    single numbers.
    """

    _task = "classify"

    def fit(self, X: Any, y: Any) -> Self:
        """Train a new model."""
        if _texts(X) is None and _text_pairs(X) is None and _arrays(X) is None:
            X, y = validate_data(self, X, y, dtype="numeric")
        sequences = self._sequences(X, reset=True)
        y = column_or_1d(y, warn=True)
        check_consistent_length(sequences, y)
        check_classification_targets(y)
        self.classes_, codes = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(f"found only one class, {self.classes_[0]}; expected at least two classes")
        self._names = _names(self.classes_)
        pairs = [_labelled(sequence, self._names[code]) for sequence, code in zip(sequences, codes, strict=True)]
        self._train(pairs, **{"task.check_labels": False, "task.target_type": "class"})
        return self

    def predict(self, X: Any) -> NDArray[Any]:
        """The most probable class of each sample."""
        probabilities = self.predict_proba(X)
        classes: NDArray[Any] = self.classes_[probabilities.argmax(axis=1)]
        return classes

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """The probability of each class, in the order of ``classes_``, for each sample."""
        check_is_fitted(self, "model_")
        answers = self._answers(self._sequences(X, reset=False))
        rows = [[answer.probabilities.get(name, 0.0) for name in self._names] for answer in answers]
        return np.array(rows, dtype=np.float64).reshape(len(rows), len(self._names))


class SequenceRegressor(RegressorMixin, _SequenceEstimator):  # type: ignore[misc]
    """One or several numbers for each text, pair of texts or sequence of vectors.

    ``X``: as for ``SequenceClassifier``. ``y``: numbers (N,) or (N, K).
    """

    _task = "classify"

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def fit(self, X: Any, y: Any) -> Self:
        """Train a new model."""
        if _texts(X) is None and _text_pairs(X) is None and _arrays(X) is None:
            X, y = validate_data(self, X, y, dtype="numeric", multi_output=True, y_numeric=True)
        sequences = self._sequences(X, reset=True)
        targets = check_array(y, ensure_2d=False, dtype=np.float64)
        if targets.ndim == 2 and targets.shape[1] == 1:
            targets = column_or_1d(targets, warn=True)
        check_consistent_length(sequences, targets)
        self._is_single = targets.ndim == 1
        numbers = targets.reshape(len(targets), -1).tolist()
        pairs = [_labelled(sequence, row) for sequence, row in zip(sequences, numbers, strict=True)]
        self._train(pairs, **{"task.check_labels": False, "task.target_type": "number"})
        return self

    def predict(self, X: Any) -> NDArray[np.float64]:
        """The numbers of each sample: (N,), or (N, K) if there were several."""
        check_is_fitted(self, "model_")
        rows = [list(answer.values.values()) for answer in self._answers(self._sequences(X, reset=False))]
        values = np.array(rows, dtype=np.float64).reshape(len(rows), -1)
        return values[:, 0] if self._is_single and rows else values


class SequenceTagger(_SequenceEstimator):
    """A label for each word of a sentence, or for each vector of a sequence.

    ``X``: a list of lists of words, or of arrays (T, D). ``y``: a list of lists of labels.
    """

    _task = "tag"

    def fit(self, X: Any, y: Any) -> Self:
        """Train a new model."""
        check_consistent_length(X, y)
        labels = [[str(label) for label in row] for row in y]
        self.classes_ = np.unique([label for row in labels for label in row])
        pairs = [(_words(item), row) for item, row in zip(X, labels, strict=True)]
        self._train(pairs, **{"task.check_labels": False, "task.target_type": "class"})
        return self

    def predict(self, X: Any) -> list[list[str]]:
        """The labels of each sequence."""
        return [list(answer.labels) for answer in self._answers([_words(item) for item in X])]

    def score(self, X: Any, y: Any) -> float:
        """The share of labels that are right."""
        check_consistent_length(X, y)
        pairs = [
            (predicted, str(label))
            for row, truth in zip(self.predict(X), y, strict=True)
            for predicted, label in zip(row, truth, strict=True)
        ]
        return float(np.mean([predicted == label for predicted, label in pairs]))


class SequenceForecaster(_SequenceEstimator):
    """The next values of a time series.

    ``X``: an array (T,) or (T, D), a series, or a data frame with a row for each time step. ``y`` is not used.
    """

    _task = "forecast"

    def __init__(
        self,
        *,
        history: int = 64,  # time steps that the model reads before a forecast
        horizon: int = 1,  # time steps to forecast
        cell: str | None = None,
        hidden_size: int | None = None,
        layers: int | None = None,
        epochs: int | None = None,
        batch_size: int | None = None,
        learning_rate: float | None = None,
        validation_fraction: float = 0.0,
        settings: Mapping[str, Any] | None = None,
        output: str | Path | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        super().__init__(
            cell=cell,
            hidden_size=hidden_size,
            layers=layers,
            epochs=epochs,
            batch_size=batch_size,
            learning_rate=learning_rate,
            validation_fraction=validation_fraction,
            settings=settings,
            output=output,
            random_state=random_state,
            verbose=verbose,
        )
        self.history = history
        self.horizon = horizon

    @classmethod
    def _get_param_names(cls) -> list[str]:
        return sorted(name for name in super()._get_param_names() if name != "bidirectional")

    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: ARG002
        """Train a new model."""
        self._train(_series(X), **{"task.history": self.history, "task.horizon": self.horizon})
        return self

    def predict(self, X: Any) -> NDArray[np.float64]:
        """The values that follow the series: (horizon, targets)."""
        (answer,) = self._answers(_series(X))
        return np.array(answer.values)

    def score(self, X: Any, y: Any = None) -> float:  # noqa: ARG002
        """1 − the mean squared error of all forecasts within the series, in variances of the training data."""
        check_is_fitted(self, "model_")
        model: Model = self.model_
        return 1.0 - float(model.evaluate(_series(X))["mse_scaled"])


def _texts(X: Any) -> list[str] | None:
    """The samples if they are texts: in a list, a series, an array, or the only column of a table."""
    shape = getattr(X, "shape", None)
    if shape is not None and len(shape) == 2 and shape[1] == 1:
        if tables.is_table(X):
            X = [fields[0] for _, fields in tables.read_table(X).records]
        else:
            X = np.asarray(X)[:, 0] if not hasattr(X, "tocsr") else X
    elif tables.is_table(X) or (shape is not None and len(shape) != 1):
        return None
    if hasattr(X, "tocsr") or isinstance(X, str) or not hasattr(X, "__len__"):
        return None
    values = memory.as_source(X)
    if any(isinstance(value, str) for value in values):
        missing = [row for row, value in enumerate(values, start=1) if value is None or value != value]
        if missing:
            raise ValueError(f"X: there is no text in row {missing[0]} ({len(missing)} of {len(values)} are missing)")
    return list(values) if len(values) and all(isinstance(value, str) for value in values) else None


def _text_pairs(X: Any) -> list[tuple[str, str]] | None:
    """The samples if they are pairs of texts: in a list, or in the two columns of an array or a table."""
    shape = getattr(X, "shape", None)
    if shape is not None and (len(shape) != 2 or shape[1] != 2 or hasattr(X, "tocsr")):
        return None
    if tables.is_table(X):
        rows: list[Any] = [tuple(fields) for _, fields in tables.read_table(X).records]
    elif shape is not None or isinstance(X, list | tuple):
        rows = [tuple(row) if isinstance(row, tuple | list | np.ndarray) else row for row in X]
    else:
        return None
    are_pairs = all(isinstance(row, tuple) and len(row) == 2 and all(map(_is_text, row)) for row in rows)
    return rows if rows and are_pairs else None


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _labelled(sequence: Any, target: Any) -> tuple[Any, ...]:
    """A sample with its target as the task reads it."""
    return (*sequence, target) if isinstance(sequence, tuple) else (sequence, target)


def _arrays(X: Any) -> list[Any] | None:
    """The samples if they are arrays (T, D): those of an array (N, T, D), or a list of them."""
    shape = getattr(X, "shape", None)
    if shape is not None:
        return list(np.asarray(X)) if len(shape) == 3 else None
    if not isinstance(X, list | tuple) or not X or np.ndim(X[0]) != 2:
        return None
    return [np.asarray(value, dtype=np.float32) for value in X]


def _series(X: Any) -> Any:
    """A single series as the task reads it."""
    return X if tables.is_table(X) else memory.as_source(X)


def _words(item: Any) -> Any:
    """A list of words, or an array."""
    return item if isinstance(item, str | np.ndarray) else list(item)


def _names(classes: NDArray[Any]) -> list[str]:
    """A name for each class: its text, if those differ, or else its number."""
    names = [str(value).strip() for value in classes.tolist()]
    return names if len(set(names)) == len(names) and all(names) else [str(number) for number in range(len(classes))]


def _read_files(run: Run) -> dict[str, bytes]:
    """The files that a run needs to be used, by their paths."""
    folder = run.path
    checkpoint = "best" if run.saved("best") else "last"
    paths = [*folder.iterdir(), *(folder / checkpoint).iterdir()]
    needed = {"config.toml", "learned.json", "env.json", "manifest.json"}
    return {
        file.relative_to(folder).as_posix(): file.read_bytes()
        for file in paths
        if file.is_file() and (file.name in needed or file.parent != folder)
    }


def _write_files(contents: Mapping[str, bytes], path: Path) -> Run:
    path.mkdir(parents=True)
    for name, content in contents.items():
        files.write(path / name, content, inside=path)
    return Run.open(path)
