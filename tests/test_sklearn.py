"""The estimators pass scikit-learn's own checks, and work in its pipelines, searches and cross-validation."""

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import NotFittedError
from sklearn.metrics import r2_score
from sklearn.model_selection import GridSearchCV, TimeSeriesSplit, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import seqloom
from seqloom.sklearn import SequenceClassifier, SequenceForecaster, SequenceRegressor, SequenceTagger

SMALL: dict[str, Any] = {"hidden_size": 4, "settings": {"train.threads": 1}, "random_state": 0}
TEXTS = [f"{word} {other} film" for word in ("good", "bad") for other in ("long", "short", "old", "new", "odd", "red")]
STARS = [5] * 6 + [1] * 6
LEARNS: dict[str, Any] = {"epochs": 15, "learning_rate": 0.05, "batch_size": 4}

CLASSIFIER_FAILURES = {
    "check_methods_subset_invariance": "probabilities are computed in single precision, and the last of their bits "
    "depend on the size of a batch: they differ by 1e-7, where the check allows that much but no more",
}
"""Checks of scikit-learn that do not apply, with the reason; docs/python.md lists them, too.

The tagger and the forecaster are not checked: scikit-learn's data are tables with one target for each row, while a
tagger has a list of labels for each sample, and a forecaster has no samples but a series.
"""


REGRESSOR_FAILURES = {
    "check_regressors_train": "asks for R² above 0.5 on a table whose columns are features without order; a model of "
    "sequences reads a row as a sequence of single numbers, and does not learn their positions in a few epochs",
}


@parametrize_with_checks(  # type: ignore[untyped-decorator]
    [SequenceClassifier(hidden_size=8, epochs=12, batch_size=32, learning_rate=0.05, settings={"train.threads": 1})],
    expected_failed_checks=lambda _: CLASSIFIER_FAILURES,
    xfail_strict=False,  # the last bits may happen to be the same
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@pytest.mark.sampled(8)
def test_the_checks_of_scikit_learn_for_classifiers(estimator: BaseEstimator, check: Any) -> None:
    check(estimator)


@parametrize_with_checks(  # type: ignore[untyped-decorator]
    [SequenceRegressor(hidden_size=4, epochs=2, learning_rate=0.02, settings={"train.threads": 1})],
    expected_failed_checks=lambda _: REGRESSOR_FAILURES,
    xfail_strict=True,
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@pytest.mark.sampled(12)
def test_the_checks_of_scikit_learn_for_regressors(estimator: BaseEstimator, check: Any) -> None:
    check(estimator)


def test_numbers_are_predicted_and_scored_by_r2() -> None:
    values = np.random.default_rng(1).normal(size=(40, 5, 2)).astype(np.float32)
    targets = 100 + 3 * values[:, :, 0].mean(axis=1)
    estimator = SequenceRegressor(
        hidden_size=8,
        epochs=40,
        learning_rate=0.02,
        random_state=0,
        settings={"train.threads": 1, "task.pooling": "mean"},
    )
    predicted = estimator.fit(values, targets).predict(values)
    assert predicted.shape == (40,)
    assert estimator.score(values, targets) == pytest.approx(r2_score(targets, predicted))
    assert estimator.score(values, targets) > 0.8
    both = np.stack([targets, -values[:, 0, 1]], axis=1)
    estimator = SequenceRegressor(epochs=1, **SMALL).fit(list(values), both)
    assert estimator.predict(list(values)).shape == (40, 2)
    copy = pickle.loads(pickle.dumps(estimator))  # noqa: S301  made here
    assert np.array_equal(copy.predict(values), estimator.predict(values))
    assert SequenceRegressor(epochs=1, **SMALL).fit(TEXTS, STARS).predict(TEXTS).shape == (12,)


def test_labels_that_look_like_numbers_stay_classes() -> None:
    estimator = SequenceTagger(epochs=1, **SMALL).fit([["a", "b"]] * 4, [["0.5", "1.5"]] * 4)
    assert {label for row in estimator.predict([["a", "b"]]) for label in row} <= {"0.5", "1.5"}


@pytest.mark.parametrize(
    "texts",
    [TEXTS, np.array(TEXTS), pd.Series(TEXTS), pd.DataFrame({"review": TEXTS}), np.array(TEXTS, dtype=object)[:, None]],
    ids=["list", "array", "series", "frame", "column"],
)
def test_texts_are_classified(texts: Any) -> None:
    estimator = SequenceClassifier(**SMALL, **LEARNS).fit(texts, STARS)
    assert estimator.classes_.tolist() == [1, 5]
    assert estimator.predict(texts).tolist() == STARS
    probabilities = estimator.predict_proba(texts)
    assert np.allclose(probabilities.sum(axis=1), 1)
    assert (estimator.classes_[probabilities.argmax(axis=1)] == STARS).all()
    assert estimator.score(texts, STARS) == 1.0


def test_vectors_are_classified() -> None:
    values = np.random.default_rng(1).normal(size=(20, 6, 2)).astype(np.float32)
    labels = np.where(values[:, :, 0].mean(axis=1) > 0, "up", "down")
    estimator = SequenceClassifier(**SMALL, **LEARNS)
    whole = estimator.fit(values, labels).predict_proba(values)
    assert np.array_equal(estimator.fit(list(values), labels).predict_proba(list(values)), whole)
    shorter = [value[: 3 + index % 3] for index, value in enumerate(values)]
    assert estimator.fit(shorter, labels).predict(shorter).shape == (20,)


def test_classes_of_any_type_come_back() -> None:
    for classes in ([True, False], ["", "x"], [0.0, 2.0], [" a", "a"]):
        labels = [classes[star == 5] for star in STARS]
        estimator = SequenceClassifier(epochs=1, **SMALL).fit(TEXTS, labels)
        assert set(estimator.predict(TEXTS).tolist()) <= set(classes)


def test_a_pipeline_a_grid_search_and_cross_validation() -> None:
    lower = FunctionTransformer(lambda texts: [text.lower() for text in texts])
    pipeline = make_pipeline(lower, SequenceClassifier(**SMALL, **LEARNS))
    texts = np.array([text.upper() for text in TEXTS])
    assert pipeline.fit(texts, STARS).score(texts, STARS) == 1.0
    assert cross_val_score(SequenceClassifier(epochs=1, **SMALL), texts, STARS, cv=2).shape == (2,)
    search = GridSearchCV(SequenceClassifier(epochs=1, **SMALL), {"cell": ["gru", "elman"]}, cv=2)
    search.fit(texts, STARS)
    assert search.best_estimator_.model_.task.encoder.cell == search.best_params_["cell"]
    numbers = np.random.default_rng(2).normal(size=(12, 5))
    scaled = make_pipeline(StandardScaler(), SequenceClassifier(epochs=1, **SMALL)).fit(numbers, STARS)
    assert scaled.predict(numbers).shape == (12,)


def test_an_estimator_is_pickled_and_saved_with_its_model(tmp_path: Path) -> None:
    estimator = SequenceClassifier(epochs=2, **SMALL).fit(TEXTS, STARS)
    expected = estimator.predict_proba(TEXTS)
    content = pickle.dumps(estimator)
    again = pickle.loads(content)  # noqa: S301
    assert np.array_equal(again.predict_proba(TEXTS), expected)
    assert len(content) < 100_000
    run = again.save(tmp_path / "run")
    answers = seqloom.load(run).predict(TEXTS)
    assert np.array_equal([[answer.probabilities[name] for name in ("1", "5")] for answer in answers], expected)
    kept = SequenceClassifier(epochs=1, output=tmp_path / "kept", **SMALL).fit(TEXTS, STARS)
    assert (tmp_path / "kept" / "config.toml").is_file()
    assert "model_" not in vars(clone(kept))


def test_the_same_seed_gives_the_same_model() -> None:
    first, second, other = (
        SequenceClassifier(epochs=1, **{**SMALL, "random_state": seed}).fit(TEXTS, STARS).predict_proba(TEXTS)
        for seed in (3, 3, 4)
    )
    assert np.array_equal(first, second)
    assert not np.array_equal(first, other)


def test_words_and_frames_are_tagged(tmp_path: Path) -> None:
    sentences = [text.split() for text in TEXTS]
    labels = [["ADJ", "ADJ", "NOUN"]] * len(TEXTS)
    tagger = SequenceTagger(**SMALL, **LEARNS).fit(sentences, labels)
    assert tagger.classes_.tolist() == ["ADJ", "NOUN"]
    assert tagger.predict(sentences[:1]) == labels[:1]
    assert tagger.score(sentences, labels) == 1.0
    assert pickle.loads(pickle.dumps(tagger)).predict(sentences) == labels  # noqa: S301
    frames = [np.eye(3, dtype=np.float32)] * 4
    framed = SequenceTagger(epochs=1, **SMALL).fit(frames, [["a", "b", "a"]] * 4)
    assert len(framed.predict(frames)[0]) == 3


def test_series_are_forecast() -> None:
    series = np.sin(np.arange(120) / 5)
    forecaster = SequenceForecaster(history=16, horizon=2, epochs=8, learning_rate=0.02, **SMALL).fit(series)
    assert forecaster.predict(series).shape == (2, 1)
    assert forecaster.score(series) > 0.8  # 0: no better than the mean
    scores = cross_val_score(forecaster, series, cv=TimeSeriesSplit(2))
    assert scores.shape == (2,)
    frame = pd.DataFrame({"day": pd.date_range("2020-01-01", periods=120), "value": series})
    fitted = SequenceForecaster(history=16, epochs=1, **SMALL).fit(frame)
    assert fitted.predict(frame).shape == (1, 1)
    assert "bidirectional" not in fitted.get_params()


def test_mistakes_are_explained() -> None:
    with pytest.raises(NotFittedError):
        SequenceClassifier().predict(TEXTS)
    with pytest.raises(ValueError, match="found only one class, 5"):
        SequenceClassifier().fit(TEXTS, [5] * 12)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        SequenceClassifier().fit(TEXTS, STARS[:3])
    with pytest.raises(ValueError, match=r"arguments: train.epochs: expected an integer, got 1.5"):
        SequenceClassifier(epochs=1.5).fit(TEXTS, STARS)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r'unknown key "task\.poling"; did you mean "task\.pooling"'):
        SequenceClassifier(settings={"task.poling": "mean"}).fit(TEXTS, STARS)


def test_a_missing_text_is_named() -> None:
    with pytest.raises(ValueError, match=r"X: there is no text in row 3 \(1 of 4 are missing\)"):
        SequenceClassifier(epochs=1).fit(["a", "b", None, "c"], [1, 2, 1, 2])


def test_pairs_of_texts() -> None:
    X = [("a b", "b"), ("a", "b c"), ("c", "c a"), ("b b", "c")] * 3
    y = [1, 0, 1, 0] * 3
    model = SequenceClassifier(epochs=1, **SMALL).fit(X, y)
    table = pd.DataFrame(X, columns=["first", "second"])
    np.testing.assert_allclose(model.predict_proba(X), model.predict_proba(table))
    assert model.predict_proba(X).shape == (12, 2)
