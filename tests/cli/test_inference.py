"""``predict --vectors`` and ``explain --nearest``: vectors of words and sentences, and sentences near each other."""

import json
from pathlib import Path

import numpy as np
import pytest
from tests.contracts.tiny import CASES, build
from typer.testing import CliRunner, Result

from seqloom import workflow
from seqloom.cli.main import app

TEXTS = ["a cd é", "b x", "a b a"]


def call(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A masked language model, and a classifier."""
    paths = {}
    for name in ("language_model, masked", "classify"):
        folder = tmp_path_factory.mktemp("task")
        paths[name] = workflow.train(build(CASES[name], folder, updates=2), output=folder / "run").path
    return paths


@pytest.fixture(scope="module")
def sentences(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("texts") / "texts.txt"
    path.write_text("\n".join(TEXTS) + "\n")
    return path


def word_vectors(run: Path, sentences: Path) -> list[np.ndarray]:  # (words, D) each, in the highest layer
    result = call("predict", run, sentences, "--vectors", "--json")
    assert result.exit_code == 0, result.output
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    assert [row["words"] for row in rows] == [text.split() for text in TEXTS]
    return [np.array([layers[-1] for layers in row["vectors"]]) for row in rows]


def test_sentence_vectors_are_pooled_word_vectors(runs: dict[str, Path], sentences: Path) -> None:
    run = runs["language_model, masked"]
    words = word_vectors(run, sentences)
    for pooling, pool in (("mean", np.mean), ("max", np.max)):
        expected = np.stack([pool(rows, axis=0) for rows in words])
        printed = call("predict", run, sentences, "--vectors", "--pooling", pooling)
        assert printed.exit_code == 0, printed.output
        shown = np.array([line.split() for line in printed.stdout.splitlines()], dtype=float)
        np.testing.assert_allclose(shown, expected, rtol=1e-4, atol=1e-6)  # six digits are printed
        as_json = call("predict", run, sentences, "--vectors", "--pooling", pooling, "--json")
        vectors = [json.loads(line)["vector"] for line in as_json.stdout.splitlines()]
        np.testing.assert_allclose(vectors, expected, rtol=1e-4, atol=1e-6)


def test_the_nearest_sentences_have_the_largest_cosine(runs: dict[str, Path], sentences: Path, tmp_path: Path) -> None:
    run = runs["language_model, masked"]
    vectors = np.stack([rows.mean(axis=0) for rows in word_vectors(run, sentences)])
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    cosines = dict(zip(TEXTS, vectors @ vectors[1], strict=True))
    nearest = sorted(TEXTS, key=lambda text: -cosines[text])
    options = ["--nearest", sentences, "--output", tmp_path]
    explained = call("explain", run, TEXTS[1], *options, "--json")
    assert explained.exit_code == 0, explained.output
    found = json.loads(explained.stdout)["nearest"]
    assert [each["text"] for each in found] == nearest
    assert [each["similarity"] for each in found] == pytest.approx([cosines[text] for text in nearest], abs=1e-5)
    printed = call("explain", run, TEXTS[1], *options)
    assert printed.exit_code == 0, printed.output
    _, table = printed.stdout.split("Nearest sentences, by the cosine of their vectors:\n")
    assert table.split("\n")[:4] == ["similarity  sentence", *(f"{cosines[text]:<10.3f}  {text}" for text in nearest)]


def test_word_vectors_of_a_classifier_name_those_of_sentences(runs: dict[str, Path], sentences: Path) -> None:
    refused = call("predict", runs["classify"], sentences, "--vectors")
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert "add --pooling mean for one vector per text" in refused.stderr
    advised = call("predict", runs["classify"], sentences, "--vectors", "--pooling", "mean")
    assert advised.exit_code == 0, advised.output
    assert len(advised.stdout.splitlines()) == len(TEXTS)
