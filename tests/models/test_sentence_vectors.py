"""Sentence vectors of every encoder, pooled by hand; padding, batches and nearest sentences."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.contracts.tiny import CASES, build

from seqloom.layers.layer import Memory
from seqloom.model import Model
from seqloom.models.sentence_vectors import SENTENCE_POOLINGS, SentenceIndex, sentence_vectors
from seqloom.testing.tasks import fit

TEXTS = ["a cd é", "b", "", "a b a b cd"]
ENCODERS = [
    "language_model",
    "language_model, bidirectional",
    "language_model, masked",
    "language_model, masked, characters",
    "classify, attention",
    "tag",
    "translate",
]


@pytest.fixture(scope="module", params=ENCODERS)
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Model:
    settings = build(CASES[request.param], tmp_path_factory.mktemp("task"))
    case = fit(settings.task, settings.task.train)
    return Model(settings._replace(task=case.task), case.module)


@pytest.mark.filterwarnings("ignore:.*its vector says nothing")
def test_every_pooling_equals_pooling_by_hand(model: Model) -> None:
    pooled: dict[str, Any] = {
        "mean": lambda rows: rows.mean(axis=0),
        "max": lambda rows: rows.max(axis=0),
        "first": lambda rows: rows[0],
        "last": lambda rows: rows[-1],
    }
    for text in TEXTS:
        examples = list(model.read([text]))
        with torch.no_grad():
            memory = model.task.encode(model.module, model.task.collate(examples))
        rows = memory.values[0][memory.mask[0]].numpy()
        for name, pool in pooled.items():
            expected = pool(rows) if len(rows) else np.zeros(memory.values.shape[2])
            (vector,) = model.embed([text], pooling=name)  # type: ignore[arg-type]
            np.testing.assert_allclose(vector, expected, rtol=1e-6, atol=1e-7)


@pytest.mark.filterwarnings("ignore:.*its vector says nothing")
def test_a_vector_does_not_depend_on_padding_or_on_the_batch(model: Model) -> None:
    poolings: list[Any] = ["mean", "max", "first", "last"]
    for pooling in poolings:
        together = model.embed(TEXTS, pooling=pooling)
        assert together.dtype == np.float32
        alone = np.concatenate([model.embed([text], pooling=pooling) for text in TEXTS])
        np.testing.assert_allclose(together, alone, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(model.embed(TEXTS, pooling=pooling, batch_size=3), alone, rtol=1e-4, atol=1e-5)


def test_an_empty_text_has_no_vector(model: Model) -> None:
    with pytest.warns(UserWarning, match=r"1 of 2 inputs is empty \(input:2\): its vector says nothing"):
        vectors = model.embed([TEXTS[0], ""])
    assert len(vectors) == 2


@pytest.mark.filterwarnings("ignore:.*its vector says nothing")
def test_attention_is_that_of_the_model(model: Model) -> None:
    own: Any = getattr(model.module, "pooling", None)
    if own is None:
        with pytest.raises(TypeError, match="this model has no attention pooling: train a classifier"):
            model.embed(TEXTS, pooling="attention")
        return
    examples = list(model.read(TEXTS))
    with torch.no_grad():
        memory = model.task.encode(model.module, model.task.collate(examples))
        weights = own.weights(memory).numpy()
    expected = np.einsum("bt,btd->bd", weights, memory.values.numpy())
    np.testing.assert_allclose(model.embed(TEXTS, pooling="attention"), expected, rtol=1e-4, atol=1e-5)


def test_words_of_language_models_without_the_boundary(tmp_path: Path) -> None:
    for name in ("language_model, bidirectional", "language_model, masked"):
        folder = tmp_path / name
        folder.mkdir()
        settings = build(CASES[name], folder)
        case = fit(settings.task, settings.task.train)
        model = Model(settings._replace(task=case.task), case.module)
        words = model.embed_words(["a cd é"])[0]
        top = np.array([layers[-1] for layers in words.vectors])
        np.testing.assert_allclose(model.embed(["a cd é"], pooling="mean")[0], top.mean(axis=0), rtol=1e-5)


@pytest.mark.parametrize("fill", [float("nan"), 1e30])
def test_padding_is_never_read(fill: float) -> None:
    values = torch.randn(2, 4, 3)
    mask = torch.tensor([[True, True, False, False], [False] * 4])
    values[~mask] = fill
    for name in SENTENCE_POOLINGS[:-1]:
        vectors = sentence_vectors(torch.nn.Identity(), Memory(values, mask, None), name)
        short = Memory(values[:1, :2], mask[:1, :2], None)
        torch.testing.assert_close(vectors[:1], sentence_vectors(torch.nn.Identity(), short, name))
        assert not vectors[1].any()


def test_unknown_poolings_and_models_without_an_encoder(tmp_path: Path) -> None:
    memory = Memory(torch.zeros(1, 1, 1), torch.ones(1, 1, dtype=torch.bool), None)
    with pytest.raises(ValueError, match="pooling is 'sum', expected one of mean, max, first, last, attention"):
        sentence_vectors(torch.nn.Identity(), memory, "sum")
    settings = build(CASES["language_model, ngram"], tmp_path)
    case = fit(settings.task, settings.task.train)
    with pytest.raises(TypeError, match=r'task\.model = "ngram" has no layers'):
        Model(settings._replace(task=case.task), case.module).embed(TEXTS, pooling="mean")


def test_the_nearest_sentences_by_brute_force() -> None:
    draw = np.random.default_rng(1)
    vectors = draw.normal(size=(40, 5)).astype(np.float32)
    vectors[7] = 0
    index = SentenceIndex([f"text {number % 35}" for number in range(40)], vectors, "mean")
    query = draw.normal(size=5).astype(np.float32)
    cosines: dict[str, float] = {}
    for number, vector in enumerate(vectors):
        norm = float(np.linalg.norm(vector) * np.linalg.norm(query))
        value = float(vector @ query) / norm if norm else 0.0
        name = f"text {number % 35}"
        cosines[name] = max(cosines.get(name, -2.0), value)
    expected = sorted(cosines, key=lambda name: -cosines[name])[:6]
    nearest = index.nearest(query, count=6)
    assert [sentence.text for sentence in nearest] == expected
    similarities = [sentence.similarity for sentence in nearest]
    assert similarities == pytest.approx([cosines[name] for name in expected], abs=1e-6)
    assert len(index.nearest(query, count=100)) == 35


def test_the_number_of_sentences_is_positive() -> None:
    index = SentenceIndex(["a"], np.ones((1, 2), np.float32), "mean")
    with pytest.raises(ValueError, match="count is 0, expected at least 1"):
        index.nearest(np.ones(2, np.float32), count=0)


def test_a_sentence_is_nearest_to_itself(model: Model) -> None:
    texts = ["a cd é b", "b", "a b a b cd"]
    index = model.index_sentences(texts)
    (first, *_) = model.nearest(texts[2], index)
    assert first.similarity == pytest.approx(1.0, abs=1e-5)
    assert first.text == texts[2] or not model.task.input_text(next(iter(model.read([texts[2]]))))
