import dataclasses
import json
import math
import zipfile
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
from seqloom.data.readers.labelled import LabelledSequence
from seqloom.data.readers.text_files import DataError, Location
from seqloom.models.classifier import GaussianNoise, TokenEmbedding
from seqloom.models.pooling import POOLINGS
from seqloom.tasks.classify import Classify, Learned
from seqloom.tasks.targets.classes import Classification, LabelProbabilities

SMALL = {"encoder": {"hidden_size": 6, "bidirectional": True}, "embedding_size": 5}
TEXTS = [("a b c", "x"), ("b a", "y"), ("c", "x"), ("c c a b", "z"), ("b b", "y"), ("a", "x")]
RANDOM = np.random.default_rng(0)
VECTORS = [(3 + 5 * RANDOM.standard_normal((length, 2)), label) for length, label in zip((4, 1, 6), "xyx", strict=True)]


def task(**options: Any) -> Classify:
    return Classify.model_validate_json(json.dumps({"train": "train.txt", **SMALL, **options}))


def fitted(data: list[Any], **options: Any) -> tuple[Classify, list[LabelledSequence]]:
    unfitted = task(**options)
    examples = list(unfitted.read(data))
    return unfitted.fit(iter(examples)), examples


def logits_of(model: torch.nn.Module, batch: Batch) -> torch.Tensor:
    scores: torch.Tensor = model(*batch.inputs)
    return scores


def test_unknown_encodings_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValidationError, match="unknown text encoding; use utf-8, latin-1"):
        task(encoding="latin-11")
    (tmp_path / "x.txt").write_bytes(b"x sister\xf0city")
    assert [one.content for one in task(encoding="latin-1").read(tmp_path / "x.txt")] == ["sister\xf0city"]


@pytest.fixture(params=["texts", "vectors"])
def data(request: pytest.FixtureRequest) -> list[Any]:
    return TEXTS if request.param == "texts" else VECTORS


def test_fit_learns_labels_and_tokens() -> None:
    classifier, _ = fitted(TEXTS)
    assert classifier.learned is not None
    assert classifier.learned.text is not None
    assert classifier.learned.labels.names == ("x", "y", "z")
    assert set(classifier.learned.text.vocabulary.tokens[2:]) == {"a", "b", "c"}
    assert classifier.learned.weights == (1, 1, 1)


def test_fit_learns_mean_and_deviation_of_each_channel() -> None:
    classifier, examples = fitted(VECTORS)
    together = np.concatenate([values for values, _ in VECTORS])
    assert classifier.learned is not None
    assert classifier.learned.signal is not None
    np.testing.assert_allclose(classifier.learned.signal.mean, together.mean(axis=0), rtol=1e-6)
    np.testing.assert_allclose(classifier.learned.signal.deviation, together.std(axis=0), rtol=1e-6)
    batch = classifier.collate(examples)
    real = batch.inputs.values[batch.inputs.mask].numpy()
    np.testing.assert_allclose(real, (together - together.mean(axis=0)) / together.std(axis=0), atol=1e-5)
    plain, _ = fitted(VECTORS, normalize=False)
    np.testing.assert_allclose(plain.collate(examples).inputs.values[0, :4].numpy(), VECTORS[0][0], rtol=1e-6)


SENSORS = "id,time,ax,ay,az,activity\n7,0,1,20,300,sit\n7,1,4,50,600,sit\n8,0,7,80,900,walk\n8,1,9,90,100,walk\n"


def rearranged(path: Path, order: str) -> Path:
    """SENSORS with its columns in another order; a column that it does not have holds ones."""
    rows = [line.split(",") for line in SENSORS.splitlines()]
    names = order.split(",")
    places = [rows[0].index(name) if name in rows[0] else -1 for name in names]
    body = [",".join("1" if place < 0 else row[place] for place in places) for row in rows[1:]]
    path.write_text("\n".join([order, *body]) + "\n")
    return path


def test_channels_are_matched_by_name(tmp_path: Path) -> None:
    path = rearranged(tmp_path / "train.csv", "id,time,ax,ay,az,activity")
    unfitted, _ = task().resolve(path)
    classifier = unfitted.fit(unfitted.read(path))
    assert classifier.fitted.signal is not None
    assert classifier.fitted.signal.channel_names == ("ax", "ay", "az")
    expected = classifier.collate(list(classifier.read(path))).inputs.values
    for order in ("id,time,az,ay,ax,activity", "ay,activity,az,time,ax,id", "az,ay,ax,id,time"):
        other = rearranged(tmp_path / "other.csv", order)
        assert torch.equal(classifier.collate(list(classifier.read(other))).inputs.values, expected)
        classifier.check_inputs(list(unfitted.read(other)))  # development data are read before the task is fitted
    rearranged(tmp_path / "other.csv", "az,ay,ax,id,time")
    in_memory = [(np.array([[1.0, 20, 300], [4, 50, 600]]), None)]  # no names: by position
    assert torch.equal(classifier.collate(list(classifier.read(in_memory))).inputs.values, expected[:1])


@pytest.mark.parametrize(
    ("order", "message"),
    [
        ("id,time,x,ay,z,activity", "missing channels: ax, az; unknown channels: x, z; the training data have ax, ay"),
        ("id,time,ay,az,activity", "missing channel: ax; the training data have ax, ay, az: rename the columns"),
        ("id,time,ax,ay,az,temp,activity", "unknown channel: temp; the training data have ax, ay, az: remove the"),
    ],
)
def test_other_channels_are_named(tmp_path: Path, order: str, message: str) -> None:
    path = rearranged(tmp_path / "train.csv", "id,time,ax,ay,az,activity")
    unfitted, _ = task().resolve(path)
    classifier = unfitted.fit(unfitted.read(path))
    other = rearranged(tmp_path / "other.csv", order)
    with pytest.raises(DataError, match=rf"other\.csv: {message}"):
        classifier.collate(list(classifier.read(other)))
    with pytest.raises(DataError, match=message):
        classifier.check_inputs(list(unfitted.read(other)))


def test_recordings_in_several_files_may_order_their_channels_differently(tmp_path: Path) -> None:
    for label, text in (("sit", "time,ax,ay\n0,1,20\n1,3,40\n"), ("walk", "ay,ax,time\n60,5,0\n80,7,1\n")):
        (tmp_path / label).mkdir()
        (tmp_path / label / "1.csv").write_text(text)
    unfitted = task()
    classifier = unfitted.fit(unfitted.read(tmp_path))
    assert getattr(classifier.fitted.signal, "mean", ()) == (4, 50)
    (tmp_path / "walk" / "2.csv").write_text("ay,x,time\n60,5,0\n80,7,1\n")
    with pytest.raises(DataError, match=r"2\.csv: missing channel: ax; unknown channel: x"):
        unfitted.fit(unfitted.read(tmp_path))


def test_a_constant_channel_stays_finite() -> None:
    classifier, examples = fitted([(np.full((3, 1), 7.0), "x"), (np.full((2, 1), 7.0), "y")])
    assert torch.equal(classifier.collate(examples).inputs.values, torch.zeros(2, 3, 1))


def test_learned_state_survives_json(data: list[Any]) -> None:
    classifier, examples = fitted(data)
    assert classifier.learned is not None
    again = classifier.model_copy(update={"learned": Learned.model_validate_json(classifier.learned.model_dump_json())})
    left, right = classifier.collate(examples), again.collate(examples)
    assert torch.equal(left.inputs.values, right.inputs.values)
    assert torch.equal(left.target, right.target)


@pytest.mark.parametrize(
    ("weights", "expected"),
    [("none", [1, 1, 1]), ("balanced", [6 / 9, 1, 2]), ({"z": 5.0, "x": 0.5}, [0.5, 1, 5])],
)
def test_class_weights_and_smoothing_in_the_loss(weights: Any, expected: list[float]) -> None:
    classifier, examples = fitted(TEXTS, class_weights=weights, label_smoothing=0.2)
    model = classifier.build_model().double().eval()
    randomize(model)
    batch = classifier.collate(examples)
    scores = logits_of(model, batch).log_softmax(dim=1).detach().numpy()
    total = 0.0
    for row, (_, label) in enumerate(TEXTS):
        number = "xyz".index(label)
        truth = np.full(3, 0.2 / 3)
        truth[number] += 0.8
        total -= expected[number] * float(truth @ scores[row])
    loss = classifier.loss(model, batch)
    assert loss.items == 6
    assert loss.total.item() == pytest.approx(total, abs=1e-12)


@pytest.mark.parametrize("pooling", POOLINGS)
def test_padding_and_other_rows_have_no_effect(data: list[Any], pooling: str) -> None:
    classifier, examples = fitted(data, pooling=pooling, class_weights="balanced")
    model = classifier.build_model().eval()
    randomize(model, dtype=torch.float32)
    whole = classifier.loss(model, classifier.collate(examples))
    slopes = torch.autograd.grad(whole.total, list(model.parameters()), allow_unused=True, materialize_grads=True)
    parts = [classifier.loss(model, classifier.collate([example])) for example in examples]
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
    together = classifier.predict(model, classifier.collate(examples)).answers
    for example, answer in zip(examples, together, strict=True):
        (alone,) = classifier.predict(model, classifier.collate([example])).answers
        assert alone.label == answer.label
        assert alone.probability == pytest.approx(answer.probability, abs=1e-6)


def test_an_empty_text_can_be_classified() -> None:
    classifier, _ = fitted(TEXTS)
    for pooling in POOLINGS:
        chosen = classifier.model_copy(update={"pooling": pooling})
        model = chosen.build_model().eval()
        (answer,) = chosen.predict(model, chosen.collate(list(chosen.read([""])))).answers
        expected = model.output.bias.double().softmax(dim=0).tolist()
        assert list(answer.probabilities.values()) == pytest.approx(expected, abs=1e-6)


def test_probabilities_are_the_softmax(data: list[Any]) -> None:
    classifier, examples = fitted(data)
    model = classifier.build_model().eval()
    batch = classifier.collate([dataclasses.replace(example, label=None) for example in examples])
    assert batch.target is None
    expected = logits_of(model, batch).double().softmax(dim=1)
    for row, answer in zip(expected, classifier.predict(model, batch).answers, strict=True):
        assert list(answer.probabilities.values()) == pytest.approx(row.tolist())
        assert answer.probability == max(answer.probabilities.values()) == answer.probabilities[answer.label]
        assert json.loads(json.dumps(dataclasses.asdict(answer)))["label"] == answer.label
    assert str(Classification("x", 0.25, {})) == "x\t0.2500"


def answers(labels: list[str], names: str) -> Iterator[Classification]:
    for label, row in zip(labels, RANDOM.dirichlet(np.ones(len(names)), size=len(labels)).tolist(), strict=True):
        yield Classification(label, 0.5, dict(zip(names, row, strict=True)))


def test_scores_equal_scikit_learn() -> None:
    classifier, examples = fitted(TEXTS)
    guesses = list(answers(["x", "x", "x", "z", "y", "y"], "xyz"))
    truth, labels = [example.label for example in examples], [guess.label for guess in guesses]
    score = classifier.score(guesses, examples)
    assert score["accuracy"] == pytest.approx(metrics.accuracy_score(truth, labels))
    assert score["macro_f1"] == pytest.approx(metrics.f1_score(truth, labels, average="macro"))
    rows = [list(guess.probabilities.values()) for guess in guesses]
    assert score["loss"] == pytest.approx(metrics.log_loss(truth, rows, labels=["x", "y", "z"]))
    table = metrics.confusion_matrix(truth, labels, labels=list("xyz"))
    expected_counts = {(row, column): table[i, j] for i, row in enumerate("xyz") for j, column in enumerate("xyz")}
    for row in score["confusions"]:
        assert row["count"] == expected_counts[row["label"], row["predicted"]] > 0
    assert sum(row["count"] for row in score["confusions"]) == table.sum() - table.trace()
    report = metrics.classification_report(truth, labels, output_dict=True)
    for name, row in score["per_label"].items():
        expected = {key.replace("f1-score", "f1"): value for key, value in report[name].items()}
        assert row == pytest.approx(expected)
    low, high = score["accuracy_interval"]
    assert low < score["accuracy"] < high
    assert json.loads(json.dumps(score)) == score


def test_unseen_labels_are_errors_without_a_loss() -> None:
    classifier, _ = fitted(TEXTS)
    examples = list(classifier.read([("a", "x"), ("b", "new")]))
    guesses = [Classification("x", 0.5, {"x": 0.5, "y": 0.3, "z": 0.2}) for _ in examples]
    score = classifier.score(guesses, examples)
    assert (score["accuracy"], score["unseen"], score["loss"]) == (0.5, 1, pytest.approx(math.log(2)))
    assert score["confusions"] == [{"label": "new", "predicted": "x", "count": 1}]
    model = classifier.build_model().eval()
    whole, alone = (
        classifier.loss(model, classifier.collate(examples)),
        classifier.loss(model, classifier.collate(examples[:1])),
    )
    assert whole.items == alone.items == 1
    torch.testing.assert_close(whole.total, alone.total)


def test_word_dropout_and_noise_in_training_only() -> None:
    torch.manual_seed(0)
    classifier, _ = fitted(TEXTS, word_dropout=0.5)
    embed = classifier.build_model().get_submodule("encoder.embed")
    assert isinstance(embed, TokenEmbedding)
    ids = torch.cat([torch.full((1, 1000), 2), torch.zeros(1, 1000, dtype=torch.long)], dim=1)
    unknown, known = embed.embedding.weight[1], embed.embedding.weight[2]
    vectors = embed(ids)
    is_unknown = (vectors[0, :1000] == unknown).all(dim=1)
    # The fraction of 1000 draws is within 0.07 (four standard deviations).
    assert abs(is_unknown.float().mean().item() - 0.5) < 0.07
    assert bool((vectors[0, :1000][~is_unknown] == known).all())
    assert torch.equal(vectors[0, 1000:], torch.zeros(1000, 5))
    assert torch.equal(embed.eval()(ids)[0, :1000], known.expand(1000, 5))
    noise, x = GaussianNoise(0.5), torch.zeros(1, 1000, 4)
    assert noise(x).std().item() == pytest.approx(0.5, rel=0.05)
    assert torch.equal(noise.eval()(x), x)


@pytest.mark.parametrize("pooling", POOLINGS)
def test_training_learns_the_first_token(pooling: str) -> None:
    torch.manual_seed(0)
    random = np.random.default_rng(1)
    data = [(" ".join(random.choice(list("abcd"), size=random.integers(1, 7)).tolist()), "") for _ in range(64)]
    classifier, examples = fitted([(text, text[0]) for text, _ in data], pooling=pooling)
    model, batch = classifier.build_model(), classifier.collate(examples)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.03)
    for _ in range(300):  # other seeds take 34 to 82 updates
        loss = classifier.loss(model, batch)
        if loss.total < math.log(2):  # less than one wrong example costs
            break
        optimizer.zero_grad()
        (loss.total / loss.items).backward()
        optimizer.step()
    assert classifier.score(classifier.predict(model.eval(), batch).answers, examples)["accuracy"] == 1


@pytest.mark.parametrize(
    ("data", "options", "message"),
    [
        ([], {}, "train.txt: found no examples to train on"),
        ([("a", "x"), "b"], {}, "input:2: no label"),
        ([("a", "x"), (np.ones((2, 1)), "y")], {}, "input:2: found both texts and signals"),
        (
            [(np.ones((2, 1)), "x"), (np.ones((2, 3)), "y")],
            {},
            "input:2: expected frames of 1 feature as in the other examples, found frames of 3",
        ),
        (TEXTS, {"class_weights": {"w": 1.0}}, "class_weights: label 'w' does not occur"),
        (TEXTS, {"class_weights": {"x": -1.0}}, "class_weights: the weight of 'x' is -1.0"),
    ],
)
def test_invalid_training_data(data: list[Any], options: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        fitted(data, **options)


def test_inputs_of_the_wrong_kind() -> None:
    texts, _ = fitted(TEXTS)
    vectors, examples = fitted(VECTORS)
    with pytest.raises(DataError, match="input:1: found a text; the model was trained on frames of 2 features"):
        vectors.collate(list(vectors.read(["a"])))
    with pytest.raises(DataError, match="input:1: found frames of 2 features; the model was trained on texts"):
        texts.collate(examples)
    with pytest.raises(DataError, match=r"input:1: expected frames of 2 features .*, found frames of 1 feature"):
        vectors.collate(list(vectors.read([[1.0, 2.0]])))
    with pytest.raises(DataError, match="input:1: no label; evaluation needs"):
        texts.score([Classification("x", 1.0, {"x": 1.0})], list(texts.read(["a"])))
    with pytest.raises(ValueError, match="some examples of the batch have no label"):
        texts.loss(texts.build_model(), texts.collate(list(texts.read(["a"]))))
    with pytest.raises(ValueError, match="call fit first"):
        task().collate([])
    with pytest.raises(ValidationError, match=r"needs encoder\.bidirectional = true"):
        task(pooling="ends", encoder={"bidirectional": False})


def test_length_in_characters() -> None:
    classifier, examples = fitted([("abc d", "x"), ("", "y")], text={"unit": "characters"})
    assert [len(example) for example in examples] == [5, 0]
    assert classifier.collate(examples).inputs.mask.sum(dim=1).tolist() == [5, 0]


TABLE = "text,label\n" + "".join(f"film {number} was long,{'xy'[number % 2]}\n" for number in range(30))


def test_columns_of_the_training_data_become_explicit(tmp_path: Path) -> None:
    path = tmp_path / "train.csv"
    path.write_text(TABLE)
    resolved, notes = task().resolve(path)
    assert notes == ("text from column 1 'text', label from column 2 'label'",)
    assert (resolved.text_column, resolved.label_column) == ("text", "label")
    examples = list(resolved.read(path))
    assert [(example.content, example.label) for example in examples[:2]] == [
        ("film 0 was long", "x"),
        ("film 1 was long", "y"),
    ]
    assert len(examples) == 30
    trained = resolved.fit(examples)
    path.write_text("number,text\n1,a long film\n")  # to predict
    assert [(example.content, example.label) for example in trained.read(path)] == [("a long film", None)]
    path.write_text("a long film\nanother\n")
    assert [example.content for example in trained.read(path)] == ["a long film", "another"]


def test_one_named_column_never_serves_twice(tmp_path: Path) -> None:
    path = tmp_path / "train.csv"
    path.write_text(TABLE)
    for options in ({"text_column": "text"}, {"label_column": 1}, {"text_column": 0}, {"label_column": "label"}):
        resolved, _ = task(**options).resolve(path)
        example = next(resolved.read(path))
        assert (example.content, example.label) == ("film 0 was long", "x")
    with pytest.raises(DataError, match=r"task\.text_column and task\.label_column are both the column 'text'"):
        task(text_column="text", label_column="text").resolve(path)


@pytest.mark.parametrize("name", ["train.tsv", "train.txt"])
@pytest.mark.parametrize("separator", ["\t", " "])
def test_header_is_no_class(tmp_path: Path, name: str, separator: str) -> None:
    path = tmp_path / name
    path.write_text(f"label{separator}text\n" + f"x{separator}a b\ny{separator}b c\n" * 3)
    options = {"format": "lines"} if separator == " " else {}
    assert {example.label for example in task(**options).read(path)} == {"x", "y"}


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        ([("a", "x"), ("b", "x")], "all 2 examples have the same label 'x'"),
        ([("a", str(number)) for number in range(20)], "20 of 20 examples have a label that occurs only once"),
        ([("a", str(number % 19)) for number in range(22)], "16 of 22 examples have a label that occurs only once"),
    ],
)
def test_labels_that_are_no_classes_are_refused(data: list[Any], problem: str) -> None:
    with pytest.raises(DataError, match=rf"{problem}.*; is it the right column\? task.check_labels = false"):
        fitted(data)
    classifier, _ = fitted(data, check_labels=False)
    assert classifier.fitted.labels.names == tuple(sorted({label for _, label in data}))


def test_names_that_are_no_labels_are_refused(tmp_path: Path) -> None:
    one, many = tmp_path / "one" / "reviews", tmp_path / "many"
    for folder in (one, many):
        folder.mkdir(parents=True)
        for number in range(20):
            (folder / f"{number}.txt").write_text("a b\n")
    with zipfile.ZipFile(tmp_path / "one.zip", "w") as archive:
        for path in one.iterdir():
            archive.write(path, f"reviews/{path.name}")
    same, single = "all 20 examples have the same label 'reviews'", "20 of 20 examples have a label that occurs only"
    for name, problem in (("one", same), ("one.zip", same), ("many", single)):
        unfitted = task(train=str(tmp_path / name), target_type="class")
        doubt = "; are the folders, or the .txt files, named after their labels"
        with pytest.raises(DataError, match=rf"{problem}.*{doubt}\? task.check_labels = false"):
            unfitted.fit(unfitted.read(tmp_path / name))


def test_few_or_recurring_labels_are_accepted() -> None:
    for data in (
        [("a", str(number)) for number in range(19)],
        [("a", str(number // 2)) for number in range(40)],
        [("a", "x")],
    ):
        assert fitted(data)[0].learned is not None


def test_probabilities_are_a_compact_mapping() -> None:
    probabilities = LabelProbabilities({"x": 0, "y": 1}, np.array([0.25, 0.75]))
    assert probabilities == {"x": 0.25, "y": 0.75}
    assert (probabilities["y"], list(probabilities), len(probabilities)) == (0.75, ["x", "y"], 2)
    assert repr(probabilities) == "{'x': 0.25, 'y': 0.75}"
    answer = Classification("y", 0.75, probabilities)
    assert json.loads(json.dumps(dataclasses.asdict(answer)))["probabilities"] == {"x": 0.25, "y": 0.75}


@pytest.mark.parametrize(
    ("file", "advice"),
    [
        ("x.csv", "for each example: remove the rows without one$"),
        ("data", r"for each example: remove the rows without one \(pandas: data.dropna\(subset=\['y'\]\)\)$"),
        ("x.wav", "for each example: put the files of each label into a folder named after it, or list file and label"),
        ("x.txt", "for each example"),
    ],
)
def test_a_missing_label_comes_with_advice(file: str, advice: str) -> None:
    example = LabelledSequence(Location(file, 7), "a", None, 1)
    with pytest.raises(DataError, match=f"no label; training needs a label {advice}"):
        Classify(train="", label_column="y").fit([example])


def test_a_list_of_text_columns_is_explained() -> None:
    with pytest.raises(ValueError, match="expected one column, found a list: join the columns into one"):
        Classify.model_validate({"train": "x.csv", "text_column": ["title", "body"]})
