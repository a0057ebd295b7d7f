"""Explanations against step-by-step computations; they change no later prediction; the command and its errors."""

import json
import math
import shutil
import sys
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from tests.contracts.tiny import CASES, Case, _caption, _classify, _tag, _translate, build
from tests.tasks.transcribe.test_transcribe_with_language_model import transcriber
from typer.testing import CliRunner, Result

from seqloom.cli.main import app
from seqloom.config import Document
from seqloom.data.text.vocabulary import END
from seqloom.explain import explain, explain_all, traces
from seqloom.insight.explanation import Explanation
from seqloom.layers.layer import coverage
from seqloom.model import Model, load
from seqloom.models.decoder import step
from seqloom.models.ensemble import Ensemble
from seqloom.run_config import Config
from seqloom.training.self_trained import CountingModel
from seqloom.workflow import train

CLOSE = 1e-6  # float32, sums of some dozen terms
HEADS = {"cell": "transformer", "hidden_size": 8, "layers": 1, "options": {"heads": 2}}


def untrained_model(case: Case, folder: Path) -> Model:
    """A model with a fitted vocabulary and random weights."""
    config = build(case, folder)
    examples = list(config.task.read(folder / case.file))
    task = config.task.fit(examples)
    torch.manual_seed(3)
    module: Any = task.build_model()
    if isinstance(module, CountingModel):
        module.count(examples)
    for parameter in module.parameters():
        parameter.data *= 2  # further from chance
    return Model(Config(task, config.train), module, task=task.for_prediction())


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", CASES)
def test_explaining_changes_nothing(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    model = untrained_model(case, tmp_path)
    before = [asdict(answer) for answer in model.predict(case.questions)]
    random = torch.get_rng_state()
    for question in case.questions:
        if isinstance(question, str) and not question:
            continue
        (answer,) = model.predict([question])
        result = explain(model, question, beam=model.task.uses_search, heads=True)
        if not any("the beam shown" in note for note in result.notes):
            assert asdict(result.prediction) == asdict(answer)
        json.dumps(result.to_dict())
        traces(model, question)
    assert torch.equal(random, torch.get_rng_state())
    assert [asdict(answer) for answer in model.predict(case.questions)] == before


def stepwise_attention(model: Model, source: Any, symbols: list[str]) -> np.ndarray:  # (T, S)
    """The attention of a model with one attention layer, step by step: what its coverage grows by."""
    task: Any = model.task
    module: Any = model.module
    (example,) = task.read_inputs([source])
    learned = getattr(task.learned, "target", None) or task.learned.text
    state = module.start(*task.collate([example]).inputs, coverage=True)
    seen: list[Any] = [coverage(state)]
    for symbol in [END, *symbols]:
        with torch.no_grad():
            _, state = step(module.decoder, torch.tensor([learned.vocabulary.index(symbol)]), state)
        seen.append(coverage(state))
    grown: np.ndarray = torch.diff(torch.cat(seen), dim=0).numpy()
    return grown


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"attention": {"style": "bahdanau", "score": "additive"}},
        {"encoder": HEADS, "decoder": HEADS},
        {"reverse_source": True},
    ],
    ids=["after", "before", "transformer", "reversed"],
)
def test_attention_is_what_coverage_grows_by(fields: dict[str, Any], tmp_path: Path) -> None:
    model = untrained_model(_translate(**fields), tmp_path)
    result = explain(model, "a cd b b é")
    assert result.attention is not None
    assert result.attention.columns == ["a", "cd", "b", "b", "é", END]
    assert result.attention.rows[: len(result.prediction.tokens)] == result.prediction.tokens
    expected = stepwise_attention(model, "a cd b b é", result.prediction.tokens)[: len(result.attention.rows)]
    if fields.get("reverse_source"):
        expected = expected[:, [4, 3, 2, 1, 0, 5]]
    np.testing.assert_allclose(result.attention.weights, expected, atol=CLOSE)
    assert result.notes == []


def test_the_mean_of_the_heads_is_shown(tmp_path: Path) -> None:
    decoder = {**HEADS, "layers": 2}
    model = untrained_model(_translate(encoder=HEADS, decoder=decoder, search={"name": "greedy"}), tmp_path)
    result = explain(model, "a cd b", heads=True)
    assert [head.name for head in result.heads] == [f"layer {n}, head {m}" for n in (1, 2) for m in (1, 2)]
    assert result.attention is not None
    assert result.attention.name == "layer 2, mean of 2 heads"
    weights = np.array([head.weights for head in result.heads])
    np.testing.assert_allclose(weights.sum(axis=-1), 1, atol=CLOSE)
    np.testing.assert_allclose(weights[2:].mean(axis=0), result.attention.weights, atol=CLOSE)
    both = stepwise_attention(model, "a cd b", result.prediction.tokens)[
        : len(result.attention.rows)
    ]  # the mean of both layers
    np.testing.assert_allclose(weights.mean(axis=0), both, atol=CLOSE)


def test_cells_are_rows_and_columns_of_the_image(tmp_path: Path) -> None:
    case = _caption()
    model = untrained_model(case, tmp_path)
    result = explain(model, case.questions[0])
    assert result.grid == (3, 3)
    assert result.image is not None
    assert result.image.shape == (10, 10, 3)
    expected = stepwise_attention(model, case.questions[0], result.prediction.tokens)[: len(result.nbest_tokens[0])]
    np.testing.assert_allclose(result.image_attention.reshape(-1, 9), expected, atol=CLOSE)
    vector = explain(untrained_model(_caption(image_pooling="mean"), tmp_path), case.questions[0])
    assert vector.attention is None
    assert vector.notes == ["attention is not shown: the source is a single vector"]


def test_a_model_without_attention_has_a_note(tmp_path: Path) -> None:
    result = explain(untrained_model(CASES["translate, no attention"], tmp_path), "a b")
    assert result.attention is None
    assert "no attention" in result.notes[0]
    assert result.prediction.nbest


def test_unknown_tokens_are_noted(tmp_path: Path) -> None:
    result = explain(untrained_model(CASES["translate"], tmp_path), "a what b")
    assert result.attention is not None
    assert result.attention.columns == ["a", "what", "b", END]
    assert result.notes == ["not in the vocabulary, read as <unk>: 'what'"]


def branch_tokens(explanation: Explanation, number: int) -> list[str]:
    """The tokens from the root of the search tree to a branch."""
    branches = {branch.number: branch for branch in explanation.beam}
    symbols: list[str] = []
    while branches[number].parent >= 0:
        symbols.insert(0, branches[number].token)
        number = branches[number].parent
    return symbols


def test_the_branches_of_the_beam_are_the_n_best(tmp_path: Path) -> None:
    search = {"name": "beam", "size": 4, "nbest": 3, "length_penalty": "gnmt"}
    model = untrained_model(_translate(search=search), tmp_path)
    result = explain(model, "a cd b", beam=True)
    ends = sorted((branch for branch in result.beam if branch.status == "in_nbest"), key=lambda branch: -branch.score)
    assert [branch_tokens(result, branch.number) for branch in ends] == result.nbest_tokens
    assert [branch.score for branch in ends] == [candidate.score for candidate in result.prediction.nbest]
    for branch in result.beam:  # of each step at most as many as the beam is wide
        alive = [node for node in result.beam if node.length == branch.length and node.status == "extended"]
        assert len(alive) <= 4
    assert explain(model, "a cd b").beam == []


def test_a_default_beam_is_shown_for_greedy_search(tmp_path: Path) -> None:
    result = explain(untrained_model(_translate(search={"name": "greedy"}), tmp_path), "a cd b", beam=True)
    assert result.notes == ["the model decodes with greedy; the beam shown has size 5"]
    assert len(result.prediction.nbest) == 3


def test_labels_and_their_alternatives(tmp_path: Path) -> None:
    model = untrained_model(_tag(encoder={**HEADS, "bidirectional": True}), tmp_path)
    module: Any = model.module
    text = "Anna sees New York"
    (example,) = model.task.read_inputs([text])
    with torch.no_grad():
        logits = module(model.task.collate([example]).inputs)[0][0].double().numpy()
    expected = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    result = explain(model, text, heads=True)
    names: Any = model.task.learned
    for choice, row, word in zip(result.label_choices, expected, text.split(), strict=True):
        second, first = np.argsort(row)[-2:]
        assert (choice.word, choice.label, choice.alternative) == (
            word,
            *(names.labels.names[n] for n in (first, second)),
        )
        assert (choice.probability, choice.alternative_probability) == pytest.approx(
            (row[first], row[second]), abs=CLOSE
        )
    assert result.attention is not None
    assert (result.attention.rows, result.attention.columns) == (text.split(), text.split())
    assert len(result.heads) == 2
    np.testing.assert_allclose(np.sum(result.attention.weights, axis=1), 1, atol=CLOSE)


def test_pooling_weight_of_each_word(tmp_path: Path) -> None:
    model = untrained_model(_classify(pooling="attention"), tmp_path)
    module: Any = model.module
    (example,) = model.task.read_inputs(["it goes up"])
    with torch.no_grad():
        memory = module.encoder(*model.task.collate([example]).inputs)
    values = memory.values[0].double().numpy()
    pooling = {name: tensor.double().numpy() for name, tensor in module.pooling.state_dict().items()}
    scores = np.tanh(values @ pooling["project.weight"].T + pooling["project.bias"]) @ pooling["query.weight"][0]
    result = explain(model, "it goes up").token_values
    assert result is not None
    assert result.tokens == ["it", "goes", "up"]
    np.testing.assert_allclose(result.values, np.exp(scores) / np.exp(scores).sum(), atol=CLOSE)


def test_attention_received_by_each_word(tmp_path: Path) -> None:
    result = explain(untrained_model(_classify(encoder=HEADS), tmp_path), "it goes up")
    assert result.attention is not None
    assert result.token_values is not None
    np.testing.assert_allclose(result.token_values.values, np.array(result.attention.weights).mean(axis=0))
    plain = explain(untrained_model(_classify(), tmp_path), "it goes up")
    assert plain.token_values is None
    assert plain.attribution is not None
    assert explain(untrained_model(_classify(), tmp_path), "it goes up", method="none").attribution is None


KEYS = ("tokens", "values", "expected")


@pytest.mark.parametrize("name", ["language_model", "language_model, ngram"])
def test_surprisal_is_measured_in_bits(name: str, tmp_path: Path) -> None:
    result = explain(untrained_model(CASES[name], tmp_path), "a cd é")
    assert result.token_values is not None
    assert result.token_values.tokens == ["a", "cd", "é", END]
    assert math.prod(2**-value for value in result.token_values.values) == pytest.approx(
        math.exp(result.prediction.log_probability)
    )
    seen = 0
    for token, value, expected in zip(*(getattr(result.token_values, key) for key in KEYS), strict=True):
        probabilities = [probability for _, probability in expected]
        assert probabilities == sorted(probabilities, reverse=True)
        seen += token in dict(expected)
        assert dict(expected).get(token, 2**-value) == pytest.approx(2**-value)
    assert seen


def test_subwords_are_readable(tmp_path: Path) -> None:
    bytes_ = {"unit": "subwords", "vocab_size": 280}
    unigram = {"unit": "subwords", "vocab_size": 16, "algorithm": "unigram"}
    model = untrained_model(_translate(source=bytes_, target=unigram), tmp_path)
    result = explain(model, "a cd é")
    assert result.attention is not None
    assert "".join(result.attention.columns[:-1]).startswith("a cd ")
    assert not any("▁" in symbol or "Ġ" in symbol for symbol in (*result.attention.columns, *result.attention.rows))


def test_gate_traces_are_labelled_with_the_tokens_read(tmp_path: Path) -> None:
    model = untrained_model(
        _translate(reverse_source=True, encoder={"cell": "gru", "hidden_size": 6, "bidirectional": False}), tmp_path
    )
    output = explain(model, "a cd b").nbest_tokens[0]
    result = {trace.name.partition(".")[0]: labels for trace, labels in traces(model, "a cd b")}
    assert result == {"encoder": ["b", "cd", "a", END], "decoder": ["<s>", *output][: len(output)]}
    ((trace, labels), *_) = traces(untrained_model(_tag(), tmp_path), "Anna sees Paris")  # none of the characters
    assert labels == ["Anna", "sees", "Paris"]
    assert next(iter(trace.gates.values())).shape[:2] == (1, 3)


def test_an_ensemble_is_explained_without_attention(tmp_path: Path) -> None:
    model = untrained_model(_translate(encoder={"cell": "gru", "hidden_size": 6, "bidirectional": False}), tmp_path)
    ensemble = Model(model.config, Ensemble([model.module, model.module]))
    result = explain(ensemble, "a cd b", beam=True)
    assert result.attention is None
    assert result.notes[-1] == "attention is not shown for an ensemble: explain one of its models"
    assert result.prediction.text == explain(model, "a cd b", beam=True).prediction.text
    labels = {tuple(names) for trace, names in traces(ensemble, "a cd b") if "encoder" in trace.name}
    assert labels == {("a", "cd", "b", END)}


def test_empty_inputs_and_tasks_without_search(tmp_path: Path) -> None:
    model = untrained_model(_tag(), tmp_path)
    with pytest.raises(ValueError, match="the input is empty"):
        explain(model, " ")
    with pytest.raises(ValueError, match="the task tag does not use a search"):
        explain(model, "Anna", beam=True)


def call(*arguments: object, text: str = "") -> Result:
    return CliRunner().invoke(app, ["explain", *map(str, arguments)], input=text)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    result = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("seqloom.run_plots.draw", lambda *_, **__: None)  # plots take time
        names = ("translate", "tag", "classify, attention", "classify, numbers", "language_model", "forecast")
        for name in (*names, "language_model, bidirectional", "tag, contextual vectors"):
            folder = tmp_path_factory.mktemp("explain")
            result[name] = train(build(CASES[name], folder, updates=1), output=folder / "run").path
    return result


def test_the_command_prints_text_and_plots(runs: dict[str, Path]) -> None:
    result = call(runs["translate"], "a cd b", "--search", "beam size=3 nbest=2", "--beam", "--heads", "--gates")
    assert (result.exit_code, result.stderr) == (0, "")
    lines = result.stdout.splitlines()
    assert lines[0].startswith("a cd b → ")
    assert sum(line.startswith("   score ") for line in lines) == 2
    assert any(line.endswith("  n-best #2") for line in lines)
    plots = {path.name for path in (runs["translate"] / "explain").iterdir()}
    assert {"attention.png", "heads.png", "beam.png"} < plots
    assert sum(name.startswith("gates-") for name in plots) == 3  # two directions
    assert load(runs["translate"]).predict(["a cd b"])  # the run is as it was


@pytest.mark.skipif(sys.platform == "win32", reason="needs links of POSIX")
@pytest.mark.parametrize("name", ["explain/labels.png", "explain/1"])
def test_a_link_inside_a_run_is_not_written_through(name: str, runs: dict[str, Path], tmp_path: Path) -> None:
    run, outside = tmp_path / "run", tmp_path / "outside"
    shutil.copytree(runs["tag"], run)
    (run / "explain").mkdir(exist_ok=True)
    outside.mkdir()
    precious = outside / "labels.png"
    precious.write_text("precious")
    (run / name).unlink(missing_ok=True)
    (run / name).symlink_to(outside if name.endswith("1") else precious)
    result = call(run, *["Anna sees Paris"] * (2 if name.endswith("1") else 1))
    assert result.exit_code
    assert f"{run / name}" in result.stderr
    assert "found a link" in result.stderr
    assert precious.read_text() == "precious"


def test_the_command_prints_json(runs: dict[str, Path], tmp_path: Path) -> None:
    result = call(runs["translate"], "a cd b", "b", "--json", "--output", tmp_path)
    first, second = map(json.loads, result.stdout.splitlines())
    assert (first["source"], second["source"]) == ("a cd b", "b")
    assert (first["attention"]["columns"], second["attention"]["columns"]) == (["a", "cd", "b", END], ["b", END])
    assert first["plots"] == [str(tmp_path / "1" / "attention.png")]
    assert first["prediction"]["text"] == load(runs["translate"]).predict(["a cd b"])[0].text


@pytest.mark.parametrize(
    ("name", "source", "expected"),
    [
        ("tag", "Anna sees Paris", "alternative"),
        ("classify, attention", "it goes up", "Pooling weight"),
        ("language_model", "a cd é", "Surprisal in bits"),
    ],
)
def test_every_task(name: str, source: str, expected: str, runs: dict[str, Path], tmp_path: Path) -> None:
    result = call(runs[name], "-", "--output", tmp_path, "--gates", text=f"{source}\n")
    assert (result.exit_code, result.stderr) == (0, "")
    assert expected in result.stdout
    assert (tmp_path / ("labels.png" if name == "tag" else "tokens.png")).read_bytes().startswith(b"\x89PNG")


def test_which_words_mattered(runs: dict[str, Path], tmp_path: Path) -> None:
    text = "it goes <b>up</b>"
    result = call(runs["classify, attention"], text, "--method", "occlusion", "--target", "down", "--output", tmp_path)
    assert (result.exit_code, result.stderr) == (0, "")
    assert "Which words mattered for down (occlusion):" in result.stdout
    assert "replaces" not in result.stdout
    page = (tmp_path / "explanation.html").read_text(encoding="utf-8")
    assert page.startswith("<!doctype html>")
    assert "&lt;b&gt;up" in page
    assert "<b>up" not in page
    assert "http" not in page  # nothing is loaded from elsewhere
    assert f"<h1>Explanation of a prediction of {load(runs['classify, attention']).name}" in page
    assert (tmp_path / "attribution.png").read_bytes().startswith(b"\x89PNG")
    tagged = call(runs["tag"], "Anna sees Paris", "--word", "sees", "--json", "--output", tmp_path)
    actual = json.loads(tagged.stdout)
    assert actual["page"] == str(tmp_path / "explanation.html")
    again = call(runs["classify, attention"], text, "--output", tmp_path)
    assert "explanation.html (replaces the page of the last explanation; --output chooses" in again.stdout
    assert (actual["attribution"]["word"], actual["attribution"]["method"]) == ("sees", "integrated_gradients")
    assert actual["attribution"]["words"] == ["Anna", "sees", "Paris"]
    expected = load(runs["tag"]).explain("Anna sees Paris", word="sees")
    assert json.loads(expected.to_json())["attribution"] == actual["attribution"]


def test_a_word_in_several_contexts(runs: dict[str, Path], tmp_path: Path) -> None:
    run = runs["language_model, bidirectional"]
    result = call(run, "a cd b", "eff cd", "--output", tmp_path)
    assert (result.exit_code, result.stderr) == (0, "")
    (line,) = [line for line in result.stdout.splitlines() if line.startswith("a [cd] b")]
    assert line.split()[3:6] == ["eff", "[cd]", "1.000"]
    assert (tmp_path / "contexts.png").read_bytes().startswith(b"\x89PNG")
    *_, last = map(json.loads, call(run, "a cd b", "eff cd", "--json").stdout.splitlines())
    (pair,) = last["contexts"]
    (_, first, _), (_, second) = (text.vectors for text in load(run).embed_words(["a cd b", "eff cd"]))
    layers = [(np.array(left), np.array(right)) for left, right in zip(first, second, strict=True)]
    expected = [left @ right / np.linalg.norm(left) / np.linalg.norm(right) for left, right in layers]
    assert pair["similarities"] == pytest.approx(expected)
    assert "no word occurs twice" in call(run, "a", "b").stdout
    assert "occurs" not in call(run, "a b").stdout


def test_layer_weights_of_a_tagger(runs: dict[str, Path], tmp_path: Path) -> None:
    run = runs["tag, contextual vectors"]
    result = call(run, "Anna sees Paris", "--output", tmp_path, "--gates")
    assert (result.exit_code, result.stderr) == (0, "")
    assert "Weights of the language model's layers" in result.stdout
    (actual,) = map(json.loads, call(run, "Anna sees Paris", "--json").stdout.splitlines())
    assert actual["layer_weights"]["layers"] == ["embedding", "layer 1", "layer 2"]
    assert sum(actual["layer_weights"]["weights"]) == pytest.approx(1)
    assert not any("pretrained" in path.name for path in tmp_path.iterdir())


def test_tasks_that_read_no_text_take_files(runs: dict[str, Path], tmp_path: Path) -> None:
    (tmp_path / "numbers.csv").write_text("0.0,0.2,0.4,0.6,rise\n1.0,0.0,fall\n")
    result = call(runs["classify, numbers"], tmp_path / "numbers.csv")
    assert result.exit_code == 0, result.output
    assert "Which channels and time steps mattered" in result.stdout
    note = f"{tmp_path / 'numbers.csv'}: only the first of several examples is explained"
    assert result.stderr == f"note: {note}\n"
    model = load(runs["classify, numbers"])
    assert model.explain(tmp_path / "numbers.csv").notes == [note]
    (tmp_path / "one.csv").write_text("0.0,0.2,0.4,0.6,rise\n")
    assert model.explain(tmp_path / "one.csv").notes == []
    by_path = model.explain(str(tmp_path / "numbers.csv")).attribution
    by_array = model.explain(next(iter(model.read(tmp_path / "numbers.csv"))).content).attribution
    assert by_path is not None
    assert by_array is not None
    assert by_path.channel_values == by_array.channel_values
    forecast = call(runs["forecast"], runs["forecast"].parent / "t.csv", "--gates", "--output", tmp_path)
    assert forecast.exit_code == 0, forecast.output
    assert "mattered for the change of " in forecast.stdout
    assert list(tmp_path.glob("gates-*.png"))
    assert "<polyline" in (tmp_path / "explanation.html").read_text()
    table = pd.read_csv(runs["forecast"].parent / "t.csv")
    forecaster = load(runs["forecast"])
    in_memory, in_file = (
        forecaster.explain(source).attribution for source in (table, runs["forecast"].parent / "t.csv")
    )
    assert in_memory is not None
    assert in_file is not None
    assert in_memory.channel_values == in_file.channel_values
    texts = load(runs["tag"]).explain(pd.DataFrame({"words": [["a", "b"], ["c"]]}))
    assert texts.notes == ["data: only the first of several examples is explained"]


def test_without_matplotlib_text_is_printed(runs: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    result = call(runs["translate"], "a cd b")
    assert result.exit_code == 0
    assert "Attention weights, one row per output position:" in result.stdout
    assert "Plots" not in result.stdout
    assert result.stderr == "No plots: matplotlib.figure is not installed; run pip install 'seqloom[plots]'\n"


def test_the_number_of_paths_can_be_chosen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("seqloom.run_plots.draw", lambda *_, **__: None)
    run = transcriber(tmp_path)
    (tmp_path / "x.jsonl").write_text(json.dumps({"strokes": [[0.0, 1.0, 0.0]] * 8}) + "\n")
    counts = {}
    for options in (["--paths"], ["--max-paths", "3"], ["--paths", "--max-paths", "5000"]):
        result = call(run, tmp_path / "x.jsonl", "--target", "ab", *options, "--json")
        assert result.exit_code == 0, result.output
        paths = json.loads(result.stdout)["paths"]
        counts[len(paths["paths"])] = paths["count"]
        total = sum(path["probability"] for path in paths["paths"])
        assert (total == pytest.approx(paths["probability"])) is (len(paths["paths"]) == paths["count"])
    # Of 8 frames, 2 are a and b; the other 6 extend one of them or the blanks around them: 10 choose 4 ways.
    assert counts == {20: 210, 3: 210, 210: 210}


def test_errors_are_readable(runs: dict[str, Path], tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for arguments, expected in (
        ((runs["translate"], "a", "--output", tmp_path / "file"), f"cannot write to {tmp_path / 'file'}: "),
        ((runs["translate"], ""), "the input is empty"),
        ((runs["translate"], "-"), "no input was given"),
        ((runs["translate"], "a", "--search", "beem"), "beem"),
        ((runs["tag"], "Anna", "--beam"), "does not use a search"),
        ((runs["tag"], "Anna", "--word", "Rome"), "neither a word of the input nor a position"),
        ((runs["classify, attention"], "it", "--method", "saliency"), "allowed: integrated_gradients, "),
        ((runs["translate"], "a", "--target", "x"), "tasks that can: classify, forecast, tag"),
        ((tmp_path / "nowhere", "a"), "nowhere"),
    ):
        result = call(*arguments)
        assert result.exit_code == 1
        assert expected in result.stderr
        assert "Traceback" not in result.output


def test_examples_are_chosen_by_number(runs: dict[str, Path], tmp_path: Path) -> None:
    run = runs["translate"]
    (tmp_path / "dev.tsv").write_text("a b\tB A\ncd\tCD\né\tÉ\n")
    chosen = [call(run, tmp_path / "dev.tsv", "--example", 3, "--example", 1, "--json", "--output", tmp_path / "out")]
    chosen.append(
        call(run, "-", "--example", 3, "--example", 1, "--json", "--output", tmp_path / "out", text="a b\ncd\né\n")
    )
    for result in chosen:
        assert [json.loads(line)["source"] for line in result.stdout.splitlines()] == ["é", "a b"]
    for arguments, expected in (
        ((tmp_path / "dev.tsv", "--example", 4), "dev.tsv: there is no example 4; it has 3"),
        (("a b", "--example", 1), "--example chooses from a file or from standard input, but 'a b' is a text"),
        ((), "dev-t.tsv --example 3"),
    ):
        result = call(run, *arguments)
        assert result.exit_code == 1
        assert expected in result.stderr


def test_gates_are_drawn_for_standard_input_and_numbered_examples(runs: dict[str, Path], tmp_path: Path) -> None:
    (tmp_path / "dev.txt").write_text("up it goes up\ndown low below it\n")
    run = runs["classify, attention"]
    for source, text, options in (("-", "it goes up\n", ()), (tmp_path / "dev.txt", "", ("--example", 2))):
        folder = tmp_path / str(len(options))
        result = call(
            run, source, "--gates", "--method", "none", "--plots", "svg", "--output", folder, *options, text=text
        )
        assert result.exit_code == 0, result.output
        drawn = sorted(folder.glob("gates-*.svg"))
        assert len(drawn) == 2  # forward and backward
        assert ("below" in drawn[0].read_text()) is bool(options)


def test_a_network_is_unrolled_over_the_input_and_its_translation(runs: dict[str, Path], tmp_path: Path) -> None:
    result = call(runs["translate"], "a cd", "--unroll", "--json", "--plots", "svg", "--output", tmp_path)
    assert result.exit_code == 0, result.output
    explanation = json.loads(result.stdout)
    network = explanation["network"]
    assert network["inputs"]["encoder"] == ["a", "cd", "</s>"]
    generated = explanation["nbest_tokens"][0]
    assert network["outputs"]["decoder"] == generated
    assert network["inputs"]["decoder"] == ["<s>", *generated][: len(generated)]
    kinds = Counter(edge["kind"] for edge in network["edges"])
    assert kinds["memory"] == 2 * 3 * len(generated)  # both directions, at three tokens, for each output
    assert kinds["state"] == 2
    assert (tmp_path / "unrolled.svg").is_file()


def test_embedding_map(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "t.txt").write_text("the king has a crown\nthe queen has a crown\na man has a hat\n" * 9)
    values = {"task.name": "embed", "task.train": str(tmp_path / "t.txt"), "task.vector_size": 6, "train.threads": 1}
    settings = Config.build(
        Document.empty([f"{name}={json.dumps(value)}" for name, value in values.items()]), defaults=False
    )
    model = load(train(settings, output=tmp_path / "run").path)
    explain_all(model, ["king", "queen man", "hat"], tmp_path / "new")
    messages = capsys.readouterr().out
    assert [line.split()[0] for line in messages.splitlines()[:5]] == ["word", "king", "queen", "man", "hat"]
    assert (tmp_path / "new" / "embedding_map.png").read_bytes().startswith(b"\x89PNG")
    explain_all(model, ["king", "queen"], tmp_path / "new", as_json=True)
    result = json.loads(capsys.readouterr().out)
    assert result["embedding_map"]["words"] == ["king", "queen"]
    assert result["embedding_map"]["explained_variance"][0] == pytest.approx(1)
    with pytest.raises(ValueError, match="'kning' has no vector; did you mean 'king'"):
        explain_all(model, ["king", "kning"], tmp_path)
    with pytest.raises(ValueError, match=r"'zzz' has no vector; words that occur at least 5 times have one"):
        explain_all(model, ["king", "zzz"], tmp_path)
    explain_all(model, ["king"], tmp_path / "new", as_json=True)
    words = json.loads(capsys.readouterr().out)["embedding_map"]
    assert words["centre"] == words["words"][0] == "king"
    neighbours = next(model.predict_batches(model.read(model.inputs.source("king"))))[0].words
    assert words["words"][1:] == neighbours


def test_an_analogy_is_drawn_with_its_answer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "t.txt").write_text("the king has a crown\nthe queen has a crown\na man has a hat\n" * 9)
    values = {"task.name": "embed", "task.train": str(tmp_path / "t.txt"), "task.vector_size": 6, "train.threads": 1}
    settings = Config.build(
        Document.empty([f"{name}={json.dumps(value)}" for name, value in values.items()]), defaults=False
    )
    model = load(train(settings, output=tmp_path / "run").path)
    explain_all(model, ["king - man + hat"], tmp_path / "new", as_json=True)
    words = json.loads(capsys.readouterr().out)["embedding_map"]
    (analogy,) = words["analogies"]
    places = dict(zip(words["words"], words["coordinates"], strict=True))
    answer = next(model.predict_batches(model.read(model.inputs.source("king - man + hat"))))[0].words[0]
    assert words["words"] == ["king", "man", "hat", answer]
    assert [analogy[name] for name in ("positive", "negative", "base", "answer")] == ["king", "man", "hat", answer]
    for axis in (0, 1):
        expected = places["king"][axis] - places["man"][axis] + places["hat"][axis]
        assert analogy["point"][axis] == pytest.approx(expected)
