"""Back-off n-gram models against the definition, batches against single texts, tables against their checks."""

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from safetensors.torch import load_file, save_file
from torch import Tensor

from seqloom.models.ngram.kneser_ney import estimate
from seqloom.models.ngram.ngram import NGram

START, END, V = 0, 1, 30


def sentences(count: int, *, seed: int = 0) -> list[list[int]]:
    random = np.random.default_rng(seed)
    return [(2 + random.binomial(V - 4, random.random(), size)).tolist() for size in random.integers(0, 9, count)]


@pytest.fixture(scope="module", params=[1, 2, 3, 5])
def model(request: pytest.FixtureRequest) -> NGram:
    return estimate(sentences(200), order=request.param, start=START, end=END, vocabulary=V)


def by_definition(model: NGram, context: tuple[int, ...], word: int) -> float:
    """Back-off over a dictionary of the tables."""
    tables: dict[tuple[int, ...], tuple[float, float]] = {}
    names: list[tuple[int, ...]] = [(word,) for word in range(V)]
    for order, values in enumerate(model.log_probabilities, start=1):
        if order > 1:
            names = [(*names[key // V], key % V) for key in model.keys[order - 2].tolist()]
        backoffs = model.log_backoffs[order - 1].tolist() if order < model.order else [0.0] * len(values)
        tables |= dict(zip(names, zip(values.tolist(), backoffs, strict=True), strict=True))
    total = 0.0
    while (*context, word) not in tables:
        total += tables.get(context, (0.0, 0.0))[1]
        context = context[1:]
    return total + tables[(*context, word)][0]


def test_scores_match_the_definition_of_back_off(model: NGram) -> None:
    texts = sentences(2, seed=1)
    for text, actual in zip(texts, model.score(texts), strict=True):
        whole = (START, *text, END)
        expected = []
        for at in range(1, len(whole)):
            context = whole[max(0, at - model.order + 1) : at]
            expected.append(by_definition(model, context, whole[at]))
        np.testing.assert_allclose(actual, expected, rtol=1e-12)


@settings(deadline=None, max_examples=50)
@given(data=st.data(), batch=st.integers(1, 5))
def test_every_context_gives_a_distribution(model: NGram, data: st.DataObject, batch: int) -> None:
    rows = st.lists(st.integers(-1, V - 1), min_size=model.order - 1, max_size=model.order - 1)
    state = np.array(data.draw(st.lists(rows, min_size=batch, max_size=batch)), dtype=np.int64)
    log_probs = model.next(state)
    # A float32 logarithm of at most 8 is wrong by 2e-7.
    np.testing.assert_allclose(np.exp(log_probs).sum(axis=1), 1, atol=1e-6)
    assert (log_probs[:, START] == -np.inf).all()
    words = np.array([data.draw(st.integers(0, V - 1)) for _ in range(batch)])
    np.testing.assert_array_equal(model.log_probability(words, state), log_probs[np.arange(batch), words])


def test_a_batch_matches_single_texts(model: NGram) -> None:
    texts = sentences(40, seed=2)
    together = model.score(texts)
    assert [len(row) for row in together] == [len(text) + 1 for text in texts]
    for text, row in zip(texts, together, strict=True):
        np.testing.assert_array_equal(model.score([text])[0], row)
    assert model.score([]) == []


def test_single_steps_match_the_scores(model: NGram) -> None:
    texts = [text for text in sentences(60, seed=3) if len(text) == 4]
    state = model.start_state(len(texts))
    columns = []
    for words in np.array([[*text, END] for text in texts]).T:
        columns.append(model.next(state)[np.arange(len(texts)), words])
        state = model.advance(state, words)
    np.testing.assert_array_equal(np.stack(columns, axis=1), np.stack(model.score(texts)))
    np.testing.assert_array_equal(state, model.start_state(len(texts)))


@settings(deadline=None, max_examples=20)
@given(ids=st.permutations(range(V)), more=st.integers(0, 3), seed=st.integers(0, 99))
def test_renumbered_words_have_the_same_scores(model: NGram, ids: list[int], more: int, seed: int) -> None:
    new = np.array(ids)
    new[new == V - 1] += more  # some ids stay unused
    renumbered = model.renumber(new, vocabulary=V + more)
    assert (renumbered.start, renumbered.end, renumbered.order, renumbered.vocabulary) == (
        new[START],
        new[END],
        model.order,
        V + more,
    )
    texts = sentences(20, seed=seed)
    for row, expected in zip(renumbered.score([new[text].tolist() for text in texts]), model.score(texts), strict=True):
        np.testing.assert_array_equal(row, expected)
    states = np.random.default_rng(seed).integers(0, V, (3, model.order - 1))
    np.testing.assert_array_equal(renumbered.next(new[states])[:, new], model.next(states))
    unused = sorted(set(range(V + more)) - set(new.tolist()))
    assert (renumbered.log_probabilities[0][unused] == -np.inf).all()


@pytest.mark.parametrize(
    ("ids", "vocabulary", "message"),
    [
        pytest.param(range(V - 1), V, "expected 30 different ids", id="too few"),
        pytest.param([0, *range(V - 1)], V, "expected 30 different ids", id="twice"),
        pytest.param(range(1, V + 1), V, "expected ids from 0 to 29", id="large"),
        pytest.param(range(-1, V - 1), V, "expected ids from 0 to 29", id="negative"),
    ],
)
def test_invalid_ids_are_rejected(ids: range, vocabulary: int, message: str) -> None:
    model = estimate(sentences(20), order=2, start=START, end=END, vocabulary=V)
    with pytest.raises(ValueError, match=message):
        model.renumber(np.array(ids), vocabulary=vocabulary)


def test_saved_and_loaded(model: NGram, tmp_path: Path) -> None:
    save_file(model.tensors(), tmp_path / "model.safetensors")
    again = NGram.from_tensors(load_file(tmp_path / "model.safetensors"))
    assert (again.vocabulary, again.start, again.end, again.order) == (V, START, END, model.order)
    assert again.fallbacks == model.fallbacks
    texts = sentences(20, seed=4)
    for row, expected in zip(again.score(texts), model.score(texts), strict=True):
        np.testing.assert_array_equal(row, expected)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        pytest.param("keys.2", None, "expected one-dimensional tensors .*keys.2", id="missing"),
        pytest.param("keys.9", torch.zeros(1), "; found .*keys.9", id="unknown"),
        pytest.param("keys.2", torch.zeros(3), "keys.2", id="dtype"),
        pytest.param("log_backoffs.1", torch.zeros(V, 1), "expected one-dimensional tensors", id="shape"),
        pytest.param("symbols", torch.tensor([V, 0]), "symbols: expected 3 integers .* found 2", id="symbols"),
        pytest.param("symbols", torch.tensor([V, V, 0]), "start is 30 and end is 0, expected two", id="start"),
        pytest.param("symbols", torch.tensor([1 << 62, 0, 1]), "order 1: expected one value for each", id="huge"),
        pytest.param("log_backoffs.1", torch.zeros(3), "order 1: expected one value for each of 30", id="size"),
        pytest.param("keys.2", torch.tensor([1, 1]), "order 2: keys are not sorted", id="unsorted"),
        pytest.param("keys.2", torch.tensor([V * V]), "order 2: keys .* refer to missing rows of order 1", id="row"),
        pytest.param("log_probabilities.1", torch.full((V,), torch.nan), "positive or NaN", id="nan"),
        pytest.param("log_backoffs.1", torch.full((V,), torch.inf), "back-off is not finite", id="infinite"),
    ],
)
def test_invalid_tensors_are_rejected(name: str, value: Tensor | None, message: str) -> None:
    model = estimate(sentences(20), order=2, start=START, end=END, vocabulary=V)
    tensors = {key: tensor for key, tensor in model.tensors().items() if key != name}
    if value is not None:
        tensors[name] = value
    with pytest.raises(ValueError, match=message):
        NGram.from_tensors(tensors)


@pytest.mark.parametrize(
    ("words", "contexts", "message"),
    [
        pytest.param([2], [[2]], r"contexts have shape \(1, 1\), expected \(B, 2\)", id="order"),
        pytest.param([2], [[2, V]], "contexts contain ids outside of -1 to 29", id="context"),
        pytest.param([2, 3], [[2, 3]], "expected 1 words", id="rows"),
        pytest.param([-1], [[2, 3]], "expected 1 words with ids from 0 to 29", id="word"),
    ],
)
def test_invalid_words_and_contexts_are_rejected(words: list[int], contexts: list[list[int]], message: str) -> None:
    model = estimate(sentences(20), order=3, start=START, end=END, vocabulary=V)
    given_words: NDArray[np.int64] = np.array(words)
    with pytest.raises(ValueError, match=message):
        model.log_probability(given_words, np.array(contexts))
