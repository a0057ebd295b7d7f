"""Pairs of texts: both columns are found and read, and each text is encoded as it would be alone."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.contracts import tiny
from tests.contracts.registry import randomize

from seqloom.data.readers.text_files import DataError
from seqloom.model import Model
from seqloom.models.sentence_vectors import sentence_vectors
from seqloom.run_config import Config
from seqloom.tasks.classify import Classify

TABLE = 'id,premise,hypothesis,gold_label\n1,a b c,"b, a",yes\n2,c,a a,no\n3,b,c\tb,yes\n4,a,b,no\n'


@pytest.fixture
def table(tmp_path: Path) -> Path:
    (tmp_path / "train.csv").write_text(TABLE)
    return tmp_path / "train.csv"


def resolved(source: Any, **options: Any) -> tuple[Classify, tuple[str, ...]]:
    return Classify.model_validate_json(json.dumps({"train": "train.csv", **options})).resolve(source)


def test_usual_names_show_a_pair(table: Path) -> None:
    task, notes = resolved(table)
    assert notes[0] == (
        "text from column 2 'premise', second text from column 3 'hypothesis', label from column 4 'gold_label'; "
        "not read: column 'id'"
    )
    assert [(example.content, example.label) for example in task.read(table)] == [
        ("a b c\tb, a", "yes"),
        ("c\ta a", "no"),
        ("b\tc b", "yes"),  # a tab within a text is a blank
        ("a\tb", "no"),
    ]


@pytest.mark.parametrize(
    "names",
    [("sentence1", "sentence2"), ("Sentence_A", "Sentence_B"), ("question1", "question2"), ("text_a", "text_b")],
)
def test_other_usual_names(names: tuple[str, str], tmp_path: Path) -> None:
    (tmp_path / "x.tsv").write_text("\t".join((*names, "label")) + "\na b\tc d\tx\nb\tc\ty\n")
    task, _ = resolved(tmp_path / "x.tsv")
    assert (task.text_column, task.second_text_column) == names


def test_a_chosen_text_column_alone_means_single_texts(table: Path) -> None:
    task, _ = resolved(table, text_column="hypothesis", label_column="gold_label")
    assert not task.reads_pairs
    assert next(iter(task.read(table))).content == "b, a"
    with pytest.raises(ValueError, match="set text_column, the column of the first text, too"):
        Classify(train="x", second_text_column="hypothesis")


def test_a_missing_text_is_an_error_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_text(
        '{"premise": "a b", "hypothesis": "c", "label": "x"}\n{"premise": "a b", "hypothesis": null, "label": "x"}\n'
    )
    with pytest.raises(DataError, match=r"x\.jsonl:2: 'hypothesis': expected a string, found no value"):
        resolved(tmp_path / "x.jsonl")


def random_model(name: str, folder: Path) -> Model:
    config = tiny.build(tiny.CASES[name], folder)
    task: Any = config.task.fit(config.task.read(Path(config.task.train)))
    module = task.build_model()
    randomize(module)
    return Model(Config(task, config.train), module)


@pytest.fixture
def pairs(tmp_path: Path) -> Model:
    return random_model("classify, pairs", tmp_path)


def test_logits_are_those_of_the_formula(pairs: Model) -> None:
    """[u; v; |u − v|; u ∘ v], each text encoded alone."""
    task: Any = pairs.task
    module: Any = pairs.module
    examples = list(task.read([("it goes", "up up down"), ("down", "left it")]))
    with torch.no_grad():
        actual = module(*task.collate(examples).inputs)
        single = task.single_texts()
        for row, example in enumerate(examples):
            u, v = (
                module.pooling.pooling(module.encoder(*single.collate(list(single.read([text]))).inputs))[0]
                for text in example.content.split("\t")
            )
            features = torch.cat([u, v, (u - v).abs(), u * v])
            expected = module.output(module.hidden(features))
            torch.testing.assert_close(actual[row], expected)  # rounding only


def test_inputs_in_every_form_have_the_same_answer(pairs: Model, tmp_path: Path) -> None:
    (tmp_path / "two.tsv").write_text("it goes\tup down\n")
    (tmp_path / "named.csv").write_text("id,sentence2,sentence1\n7,up down,it goes\n")
    forms: list[Any] = ["it goes ||| up down", ["it goes\tup down"], [("it goes", "up down")]]
    forms += [[["it goes", "up down"]], str(tmp_path / "two.tsv"), tmp_path / "named.csv"]
    answers = [pairs.predict(form)[0] for form in forms]
    assert len({answer.probability for answer in answers}) == 1
    swapped = pairs.predict([("up down", "it goes")])[0]
    assert swapped.probability != answers[0].probability


@pytest.mark.parametrize("text", ["it goes", "it ||| goes ||| up"])
def test_other_than_two_texts_are_refused(pairs: Model, text: str) -> None:
    with pytest.raises(DataError, match=r"expected two texts with a tab or \|\|\| between them, found (one|3)"):
        pairs.predict([text])


def test_an_attribution_covers_both_texts(pairs: Model) -> None:
    for method in ("integrated_gradients", "occlusion"):
        attribution = pairs.explain("it goes ||| up down left", method=method).attribution
        assert attribution is not None
        assert attribution.tokens == ["it", "goes", "‖", "up", "down", "left"]
        assert attribution.values[2] == pytest.approx(0, abs=1e-12)  # rounding of the score in other batches
        assert all(value for index, value in enumerate(attribution.values) if index != 2)
    integrated = pairs.explain("it goes ||| up down left", method="integrated_gradients").attribution
    assert integrated is not None
    assert sum(integrated.values) == pytest.approx(integrated.score - integrated.baseline_score, rel=0.02)


def test_attention_pooling_is_shown_for_both_texts(tmp_path: Path) -> None:
    model = random_model("classify, pairs with attention", tmp_path)
    explanation = model.explain("it goes ||| up down left", method="none", heads=True)
    assert explanation.token_values is not None
    assert explanation.token_values.tokens == ["it", "goes", "‖", "up", "down", "left"]
    values = explanation.token_values.values
    assert (sum(values[:2]), values[2], sum(values[3:])) == pytest.approx((1, 0, 1))
    assert explanation.attention is not None
    weights = np.array(explanation.attention.weights)
    assert weights[:2].sum(axis=1) == pytest.approx(1)
    assert not weights[:2, 2:].any()
    assert not weights[3:, :3].any()
    assert len(explanation.heads) == 4


def test_sentence_vectors_are_those_of_single_texts(pairs: Model) -> None:
    vectors = pairs.embed(["it goes", "up"], pooling="mean")
    single = pairs.for_single_texts()
    with torch.no_grad():
        memory = single.task.encode(pairs.module, single.task.collate(list(single.task.read(["it goes", "up"]))))
        expected = sentence_vectors(pairs.module, memory, "mean")
    np.testing.assert_allclose(vectors, expected.numpy(), rtol=1e-6)


def test_python_tuples_of_three_are_labelled_pairs() -> None:
    rows = [("a b", "c", 1), ("b", "c d", 0)]
    task, notes = resolved(rows)
    assert notes[0] == "pairs of texts with a label each"
    assert [(example.content, example.label) for example in task.read(rows)] == [("a b\tc", "1"), ("b\tc d", "0")]
    assert task.label_type == "integer"
