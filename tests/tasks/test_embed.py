"""Word vectors: training, questions, scores, export, and invalid texts."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.contracts.tiny import literal
from tests.killing import timeless_rows

from seqloom import config, workflow
from seqloom.data.builtin.analogies import generate
from seqloom.data.readers.text_files import DataError, Location
from seqloom.data.readers.word_questions import Question, read_questions
from seqloom.data.readers.word_vectors import read_vectors
from seqloom.evaluation import predict_all
from seqloom.interrupt import Interrupted
from seqloom.model import Model, load
from seqloom.run import Run
from seqloom.run_config import Config
from seqloom.tasks.embed import Embed
from seqloom.training.progress import Progress


def build(train: Path, **values: Any) -> Config:
    defaults = {
        "task.name": "embed",
        "task.train": str(train),
        "train.threads": 1,
        "train.epochs": 3,
        "train.learning_rate": 0.05,
    }
    defaults |= {"task.min_count": 1, "task.vector_size": 20, "train.schedule": "linear", "train.decay": 0.0}
    values = defaults | {name.replace("__", "."): value for name, value in values.items()}
    document = config.Document.empty([f"{name}={literal(value)}" for name, value in values.items()])
    return Config.build(document, defaults=False)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("embed")
    for name in ("train", "dev", "test"):
        (path / f"{name}.txt").write_text("".join(f"{line}\n" for line in generate(name, seed=1)))
    workflow.train(build(path / "train.txt", task__dev=str(path / "dev.txt")), output=path / "run")
    return path


@pytest.fixture(scope="module")
def model(folder: Path) -> Model:
    return load(folder / "run")


def test_analogies_are_solved(model: Model, folder: Path) -> None:
    scores = model.evaluate(folder / "test.txt")
    assert scores["score"] == scores["accuracy"] > 0.9
    assert scores["questions"] == scores["answerable"] == 284
    assert {"family", "capitals", "past"} <= set(scores)
    baseline = build(folder / "train.txt", task__model="one_hot")
    workflow.train(baseline, output=folder / "one_hot")
    assert load(folder / "one_hot").evaluate(folder / "test.txt")["accuracy"] < 0.05


def test_questions_are_answered(model: Model) -> None:
    texts = ["king - man + woman", "Paris", "boy girl", "duke king soup prince", "kng", "soup king - man", "king kng"]
    sums, near, pair, odd, unknown, unclear, half = model.predict(texts)
    assert sums.words[0] == str(sums).split()[0] == "queen"
    assert len(near.words) == 10
    assert "paris" not in near.words
    assert sorted(near.scores, reverse=True) == near.scores
    assert -1 <= pair.scores[0] <= 1
    assert float(str(pair)) == pytest.approx(pair.scores[0], abs=1e-4)
    assert str(odd) == "soup"
    assert len(odd.scores) == 4
    assert str(unknown) == "unknown: kng (known: king)"
    assert str(unclear).startswith("not understood: expected one or more words")
    assert (half.unknown, half.scores) == (["kng"], [])


def test_similar_words(model: Model, tmp_path: Path) -> None:
    units = torch.nn.functional.normalize(model.module.get_parameter("vectors"), dim=1).numpy()
    find = model.task.fitted.vocabulary.find  # type: ignore[attr-defined]
    pairs = [("king", "queen"), ("king", "soup"), ("paris", "france"), ("walk", "duke")]
    cosines = [float(units[find(one)] @ units[find(other)]) for one, other in pairs]
    texts = [f"{one}\t{other}\t{value:.9f}\n" for (one, other), value in zip(pairs, cosines, strict=True)]
    (tmp_path / "pairs.tsv").write_text("# head\n" + "".join(texts) + "nobody\tking\t1\n")
    scores = model.evaluate(tmp_path / "pairs.tsv")
    assert (scores["spearman"], scores["pairs"], scores["known_pairs"]) == (pytest.approx(1), 5, 4)
    (tmp_path / "reversed.tsv").write_text(
        "".join(f"{a}\t{b}\t{-v}\n" for (a, b), v in zip(pairs, cosines, strict=True))
    )
    assert model.evaluate(tmp_path / "reversed.tsv")["spearman"] == pytest.approx(-1)


def test_evaluation_with_the_most_frequent_words(model: Model, folder: Path) -> None:
    task = model.task.model_copy(update={"top_words": 30})
    some = Model(Config(task, model.config.train), model.module)
    known = model.task.fitted.vocabulary  # type: ignore[attr-defined]
    (answer,) = some.predict(["the"])
    assert set(answer.words) <= {known[number] for number in range(30)}
    (rare,) = some.predict([known[len(known) - 1]])
    assert rare.unknown == [known[len(known) - 1]]
    assert some.evaluate(folder / "test.txt")["answerable"] < 284
    assert some.evaluate(folder / "test.txt") == model.evaluate(folder / "test.txt", top_words=30)


def test_score_equals_its_sums(model: Model) -> None:
    analogy, pair, plain = (
        Question(Location("q", 1), "analogy", ("king", "man", "woman"), (1, -1, 1), truth="queen"),
        Question(Location("q", 2), "similarity", ("king", "queen"), (1, 1), human=0.5),
        Question(Location("q", 3), "neighbours", ("king",), (1,)),
    )
    for questions in ([analogy, pair], [analogy, plain, plain], [analogy, pair, pair]):
        answers = predict_all(model.config, model.module, questions)
        score, sums = model.task.score(answers, questions), model.task.metric_sums(answers, questions)
        assert (sums is None) is (questions.count(pair) == 2)
        assert sums is None or sums.whole == score["score"] == score["accuracy"]


def test_export_writes_the_vectors(model: Model, tmp_path: Path) -> None:
    for name in ("v.txt", "v.vec", "v.bin"):
        model.export(tmp_path / name)
        words, vectors = read_vectors(tmp_path / name)
        assert words == list(model.task.fitted.vocabulary)  # type: ignore[attr-defined]
        np.testing.assert_array_equal(vectors, model.module.get_parameter("vectors").numpy())
    with pytest.raises(ValueError, match=r"word vectors are exported as \.txt, \.vec or \.bin"):
        model.export(tmp_path / "v.arpa")


def test_an_interrupted_run_resumes(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("seqloom.models.word2vec.Word2Vec.examples_per_update", 5)
    monkeypatch.setattr("seqloom.data.text.passages.SIZE", 1 << 14)
    settings = build(folder / "train.txt", train__epochs=2)
    whole = workflow.train(settings, output=tmp_path / "whole")
    updates: list[int] = []

    @contextmanager
    def interrupt_after_seven() -> Iterator[Callable[[], bool]]:
        yield lambda: updates[-1:] == [7]

    listeners: list[workflow.Listener] = [lambda _, event: updates.append(event.update)]
    with monkeypatch.context() as patch:
        patch.setattr(workflow, "interruptible", interrupt_after_seven)
        with pytest.raises(Interrupted):
            workflow.train(settings, output=tmp_path / "left", listeners=listeners)
    events: list[Progress] = []
    again = workflow.resume(tmp_path / "left", listeners=[lambda _, event: events.append(event)])
    assert events[0].update == 8
    first, second = (Run.open(run.path).load("last") for run in (whole, again))
    assert all(torch.equal(first.model[name], second.model[name]) for name in first.model)
    assert timeless_rows(whole.path) == timeless_rows(again.path)


@pytest.mark.parametrize(
    ("text", "fields", "message"),
    [
        ("", {}, "no word occurs; training needs at least two"),
        ("\n \n", {}, "no word occurs"),
        ("word word word\n", {}, "only one word occurs at least 1 times"),
        ("one two three\n", {"task__min_count": 5}, r"no word occurs at least 5 times \(task.min_count\)"),
        (": group\na b c d\n", {}, "train.txt:2: found a question with its answer; task.train needs plain text"),
    ],
)
def test_invalid_training_texts(text: str, fields: dict[str, Any], message: str, tmp_path: Path) -> None:
    (tmp_path / "train.txt").write_text(text)
    with pytest.raises(DataError, match=message):
        workflow.train(build(tmp_path / "train.txt", **fields), output=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_plain_text_cannot_be_predicted(model: Model, folder: Path) -> None:
    with pytest.raises(DataError, match=r"train\.txt:\d+: found plain text, expected analogies or pairs of words"):
        model.evaluate(folder / "train.txt")


def test_two_words_are_enough(tmp_path: Path) -> None:
    (tmp_path / "train.txt").write_text("a b\n" * 3)
    for kind in ("skipgram", "cbow"):
        for negative in (0, 5):
            settings = build(tmp_path / "train.txt", task__model=kind, task__negative=negative)
            trained = load(workflow.train(settings, output=tmp_path / f"{kind}{negative}").path)
            assert trained.predict(["a"])[0].words == ["b"]


def test_learned_counts_are_run_length_encoded() -> None:
    task = Embed(train="x", min_count=1).fit(Embed(train="x").read([" ".join(f"w{number}" for number in range(999))]))
    assert task.fitted.counts == ((1, 999),)
    assert task.fitted.frequencies.tolist() == [1] * 999
    assert len(task.fitted.model_dump_json()) < 999 * 6 + 100


def test_word_vectors_have_no_loss() -> None:
    task = Embed(train="x")
    with pytest.raises(TypeError, match=r"^a model of the task embed cannot be trained by gradient descent"):
        task.loss(torch.nn.Identity(), None)  # type: ignore[arg-type]


@pytest.mark.parametrize("text", ["king - man + woman", "king", "king man woman"])
def test_a_question_is_written_as_it_was_typed(text: str) -> None:
    (question,) = read_questions([text], encoding="utf-8")
    assert question.text == text
