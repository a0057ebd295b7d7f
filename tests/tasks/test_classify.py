import dataclasses
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from pydantic import ValidationError
from sklearn import metrics
from tests.contracts.registry import randomize

from seqloom.data.batch import Batch
from seqloom.data.readers.labelled import Example
from seqloom.data.readers.text_files import DataError
from seqloom.models.classifier import GaussianNoise, TokenEmbedding
from seqloom.models.pooling import POOLINGS
from seqloom.tasks.classify import Classified, Classify, Learned

SMALL = {"encoder": {"hidden_size": 6, "bidirectional": True}, "embedding_size": 5}
TEXTS = [("a b c", "x"), ("b a", "y"), ("c", "x"), ("c c a b", "z"), ("b b", "y"), ("a", "x")]
RANDOM = np.random.default_rng(0)
VECTORS = [(3 + 5 * RANDOM.standard_normal((length, 2)), label) for length, label in zip((4, 1, 6), "xyx", strict=True)]


def task(**options: Any) -> Classify:
    return Classify.model_validate_json(json.dumps({"train": "train.txt", **SMALL, **options}))


def fitted(data: list[Any], **options: Any) -> tuple[Classify, list[Example]]:
    found = task(**options)
    examples = list(found.read(data))
    return found.fit(iter(examples)), examples


def logits_of(model: torch.nn.Module, batch: Batch) -> torch.Tensor:
    found: torch.Tensor = model(*batch.inputs)
    return found


def test_an_encoding_that_python_lacks_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValidationError, match="unknown text encoding; use utf-8, latin-1"):
        task(encoding="latin-11")
    (tmp_path / "x.txt").write_bytes(b"x sister\xf0city")
    assert [one.content for one in task(encoding="latin-1").read(tmp_path / "x.txt")] == ["sister\xf0city"]


@pytest.fixture(params=["texts", "vectors"])
def data(request: pytest.FixtureRequest) -> list[Any]:
    return TEXTS if request.param == "texts" else VECTORS


def test_fit_learns_labels_and_symbols() -> None:
    found, _ = fitted(TEXTS)
    assert found.learned is not None
    assert found.learned.text is not None
    assert found.learned.labels.names == ("x", "y", "z")
    assert set(found.learned.text.vocabulary.symbols[2:]) == {"a", "b", "c"}
    assert found.learned.weights == (1, 1, 1)


def test_fit_learns_mean_and_deviation_of_each_channel() -> None:
    found, examples = fitted(VECTORS)
    together = np.concatenate([values for values, _ in VECTORS])
    assert found.learned is not None
    np.testing.assert_allclose(found.learned.means, together.mean(axis=0), rtol=1e-6)
    np.testing.assert_allclose(found.learned.deviations, together.std(axis=0), rtol=1e-6)
    batch = found.collate(examples)
    real = batch.inputs.values[batch.inputs.mask].numpy()
    np.testing.assert_allclose(real, (together - together.mean(axis=0)) / together.std(axis=0), atol=1e-5)
    plain, _ = fitted(VECTORS, normalize=False)
    np.testing.assert_allclose(plain.collate(examples).inputs.values[0, :4].numpy(), VECTORS[0][0], rtol=1e-6)


def test_a_channel_that_never_changes_stays_finite() -> None:
    found, examples = fitted([(np.full((3, 1), 7.0), "x"), (np.full((2, 1), 7.0), "y")])
    assert torch.equal(found.collate(examples).inputs.values, torch.zeros(2, 3, 1))


def test_what_is_learnt_goes_through_json(data: list[Any]) -> None:
    found, examples = fitted(data)
    assert found.learned is not None
    again = found.model_copy(update={"learned": Learned.model_validate_json(found.learned.model_dump_json())})
    left, right = found.collate(examples), again.collate(examples)
    assert torch.equal(left.inputs.values, right.inputs.values)
    assert torch.equal(left.target, right.target)


@pytest.mark.parametrize(
    ("weights", "wanted"),
    [("none", [1, 1, 1]), ("balanced", [6 / 9, 1, 2]), ({"z": 5.0, "x": 0.5}, [0.5, 1, 5])],
)
def test_class_weights_and_smoothing_in_the_loss(weights: Any, wanted: list[float]) -> None:
    found, examples = fitted(TEXTS, class_weights=weights, label_smoothing=0.2)
    model = found.build_model().double().eval()
    randomize(model)
    batch = found.collate(examples)
    scores = logits_of(model, batch).log_softmax(dim=1).detach().numpy()
    total = 0.0
    for row, (_, label) in enumerate(TEXTS):
        number = "xyz".index(label)
        truth = np.full(3, 0.2 / 3)
        truth[number] += 0.8
        total -= wanted[number] * float(truth @ scores[row])
    loss = found.loss(model, batch)
    assert loss.items == 6
    assert loss.total.item() == pytest.approx(total, abs=1e-12)


@pytest.mark.parametrize("pooling", POOLINGS)
def test_padding_and_batch_mates_are_invisible(data: list[Any], pooling: str) -> None:
    found, examples = fitted(data, pooling=pooling, class_weights="balanced")
    model = found.build_model().eval()
    randomize(model, dtype=torch.float32)
    whole = found.loss(model, found.collate(examples))
    slopes = torch.autograd.grad(whole.total, list(model.parameters()), allow_unused=True, materialize_grads=True)
    parts = [found.loss(model, found.collate([example])) for example in examples]
    split = torch.autograd.grad(
        torch.stack([part.total for part in parts]).sum(),
        list(model.parameters()),
        allow_unused=True,
        materialize_grads=True,
    )
    assert sum(part.items for part in parts) == whole.items
    # Single precision, and sums in another order.
    for left, right in zip(slopes, split, strict=True):
        torch.testing.assert_close(left, right, rtol=1e-4, atol=1e-5)
    together = found.predict(model, found.collate(examples)).answers
    for example, answer in zip(examples, together, strict=True):
        (alone,) = found.predict(model, found.collate([example])).answers
        assert alone.label == answer.label
        assert alone.probability == pytest.approx(answer.probability, abs=1e-6)


def test_an_empty_text_gets_an_answer() -> None:
    found, _ = fitted(TEXTS)
    for pooling in POOLINGS:
        chosen = found.model_copy(update={"pooling": pooling})
        model = chosen.build_model().eval()
        (answer,) = chosen.predict(model, chosen.collate(list(chosen.read([""])))).answers
        wanted = model.output.bias.double().softmax(dim=0).tolist()
        assert list(answer.probabilities.values()) == pytest.approx(wanted, abs=1e-6)


def test_answers_are_the_softmax(data: list[Any]) -> None:
    found, examples = fitted(data)
    model = found.build_model().eval()
    batch = found.collate([dataclasses.replace(example, label=None) for example in examples])
    assert batch.target is None
    wanted = logits_of(model, batch).double().softmax(dim=1)
    for row, answer in zip(wanted, found.predict(model, batch).answers, strict=True):
        assert list(answer.probabilities.values()) == pytest.approx(row.tolist())
        assert answer.probability == max(answer.probabilities.values()) == answer.probabilities[answer.label]
        assert json.loads(json.dumps(dataclasses.asdict(answer)))["label"] == answer.label
    assert str(Classified("x", 0.25, {})) == "x\t0.2500"


def answers(found: list[str], names: str) -> Iterator[Classified]:
    for label, row in zip(found, RANDOM.dirichlet(np.ones(len(names)), size=len(found)).tolist(), strict=True):
        yield Classified(label, 0.5, dict(zip(names, row, strict=True)))


def test_scores_are_those_of_scikit_learn() -> None:
    found, examples = fitted(TEXTS)
    guesses = list(answers(["x", "x", "x", "z", "y", "y"], "xyz"))
    truth, labels = [example.label for example in examples], [guess.label for guess in guesses]
    score = found.score(guesses, examples)
    assert score["accuracy"] == pytest.approx(metrics.accuracy_score(truth, labels))
    assert score["macro_f1"] == pytest.approx(metrics.f1_score(truth, labels, average="macro"))
    rows = [list(guess.probabilities.values()) for guess in guesses]
    assert score["loss"] == pytest.approx(metrics.log_loss(truth, rows, labels=["x", "y", "z"]))
    assert score["confusion"]["counts"] == metrics.confusion_matrix(truth, labels).tolist()
    report = metrics.classification_report(truth, labels, output_dict=True)
    for name, row in score["per_label"].items():
        wanted = {key.replace("f1-score", "f1"): value for key, value in report[name].items()}
        assert row == pytest.approx(wanted)
    low, high = score["accuracy_interval"]
    assert low < score["accuracy"] < high
    assert json.loads(json.dumps(score)) == score


def test_a_label_unseen_in_training_is_wrong_and_has_no_loss() -> None:
    found, _ = fitted(TEXTS)
    examples = list(found.read([("a", "x"), ("b", "new")]))
    guesses = [Classified("x", 0.5, {"x": 0.5, "y": 0.3, "z": 0.2}) for _ in examples]
    score = found.score(guesses, examples)
    assert (score["accuracy"], score["unseen"], score["loss"]) == (0.5, 1, pytest.approx(math.log(2)))
    assert score["confusion"]["labels"] == ["x", "y", "z", "new"]
    model = found.build_model().eval()
    whole, alone = found.loss(model, found.collate(examples)), found.loss(model, found.collate(examples[:1]))
    assert whole.items == alone.items == 1
    torch.testing.assert_close(whole.total, alone.total)


def test_words_are_unknown_and_vectors_noisy_in_training_only() -> None:
    torch.manual_seed(0)
    found, _ = fitted(TEXTS, word_dropout=0.5)
    symbols = found.build_model().get_submodule("encoder.embed")
    assert isinstance(symbols, TokenEmbedding)
    ids = torch.cat([torch.full((1, 1000), 2), torch.zeros(1, 1000, dtype=torch.long)], dim=1)
    unknown, known = symbols.embedding.weight[1], symbols.embedding.weight[2]
    vectors = symbols(ids)
    is_unknown = (vectors[0, :1000] == unknown).all(dim=1)
    # Of 1000 coins the share is within 0.07 (four standard deviations).
    assert abs(is_unknown.float().mean().item() - 0.5) < 0.07
    assert bool((vectors[0, :1000][~is_unknown] == known).all())
    assert torch.equal(vectors[0, 1000:], torch.zeros(1000, 5))
    assert torch.equal(symbols.eval()(ids)[0, :1000], known.expand(1000, 5))
    noise, x = GaussianNoise(0.5), torch.zeros(1, 1000, 4)
    assert noise(x).std().item() == pytest.approx(0.5, rel=0.05)
    assert torch.equal(noise.eval()(x), x)


@pytest.mark.parametrize("pooling", POOLINGS)
def test_it_learns_which_symbol_comes_first(pooling: str) -> None:
    torch.manual_seed(0)
    data = [(" ".join(RANDOM.choice(list("abcd"), size=RANDOM.integers(1, 7)).tolist()), "") for _ in range(64)]
    found, examples = fitted([(text, text[0]) for text, _ in data], pooling=pooling)
    model, batch = found.build_model(), found.collate(examples)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.03)
    for _ in range(60):
        loss = found.loss(model, batch)
        optimizer.zero_grad()
        (loss.total / loss.items).backward()
        optimizer.step()
    assert found.score(found.predict(model.eval(), batch).answers, examples)["accuracy"] == 1


@pytest.mark.parametrize(
    ("data", "options", "message"),
    [
        ([], {}, "train.txt: found no examples to train on"),
        ([("a", "x"), "b"], {}, "input:2: no label"),
        ([("a", "x"), (np.ones((2, 1)), "y")], {}, "input:2: found both texts and vectors"),
        (
            [(np.ones((2, 1)), "x"), (np.ones((2, 3)), "y")],
            {},
            "input:2: expected 1 channels as in the first example, found 3",
        ),
        (TEXTS, {"class_weights": {"w": 1.0}}, "class_weights: the label 'w' does not occur"),
        (TEXTS, {"class_weights": {"x": -1.0}}, "class_weights: the weight of 'x' is -1.0"),
    ],
)
def test_what_cannot_be_learnt_from_is_named(data: list[Any], options: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        fitted(data, **options)


def test_what_does_not_fit_the_model_is_named() -> None:
    texts, _ = fitted(TEXTS)
    vectors, examples = fitted(VECTORS)
    with pytest.raises(DataError, match="input:1: found a text; the model was trained on vectors"):
        vectors.collate(list(vectors.read(["a"])))
    with pytest.raises(DataError, match="input:1: found vectors; the model was trained on texts"):
        texts.collate(examples)
    with pytest.raises(DataError, match="input:1: expected 2 channels, found 1"):
        vectors.collate(list(vectors.read([[1.0, 2.0]])))
    with pytest.raises(DataError, match="input:1: no label; evaluation needs"):
        texts.score([Classified("x", 1.0, {"x": 1.0})], list(texts.read(["a"])))
    with pytest.raises(ValueError, match="some examples of the batch have no label"):
        texts.loss(texts.build_model(), texts.collate(list(texts.read(["a"]))))
    with pytest.raises(ValueError, match="call fit first"):
        task().collate([])
    with pytest.raises(ValidationError, match=r"needs encoder\.bidirectional = true"):
        task(pooling="ends", encoder={})


def test_characters_are_counted_as_such() -> None:
    found, examples = fitted([("abc d", "x"), ("", "y")], text={"unit": "characters"})
    assert [len(example) for example in examples] == [5, 0]
    assert found.collate(examples).inputs.mask.sum(dim=1).tolist() == [5, 0]
