"""Models that are loaded: predictions, options, ensembles, and what a task refuses."""

import math
import re
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.contracts.tiny import CASES, build
from torch import Tensor, nn

from seqloom import workflow
from seqloom.checkpoint import RunError, Snapshot
from seqloom.config import ConfigError
from seqloom.data.readers.text_files import resolve
from seqloom.decoding.tokens.beam import Beam
from seqloom.info import describe_run
from seqloom.model import Model, load
from seqloom.run import Run
from seqloom.run_config import load_config
from seqloom.training_data import Sources, data_readers


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("classify")
    return workflow.train(build(CASES["classify"], folder, updates=3, evaluate_every=2), output=folder / "run")


class Mean(nn.Module):
    """Each output is the mean of what was read so far."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.map = nn.Linear(size, 5)
        self.output_size = 5

    def forward(self, x: Tensor) -> Tensor:
        mapped: Tensor = self.map(x)
        return mapped.cumsum(dim=1) / torch.arange(1, x.shape[1] + 1).view(1, -1, 1)


def test_a_run_with_a_custom_layer_needs_it_to_load(tmp_path: Path) -> None:
    chosen = build(CASES["classify"], tmp_path, updates=2)
    made = workflow.train(chosen, output=tmp_path / "run", layer=Mean)
    with pytest.raises(ValueError, match=r"trained with the custom layer Mean: pass it again"):
        load(made.path)
    answers = load(made.path, layer=Mean).predict(["it goes up", "low"])
    assert len(answers) == 2
    assert describe_run(made.path, layer=Mean)["task"] == "classify"
    assert "Mean" in made.config
    assert "tests" not in made.config  # a name, never a place to import from


TRAINED_BY_GRADIENT = {case.name: name for name, case in reversed(CASES.items()) if "," not in name}


@pytest.mark.parametrize("name", TRAINED_BY_GRADIENT)
@pytest.mark.parametrize(("value", "words"), [(math.nan, "1 of "), (3e38, "values up to 3.0e+38")])
def test_bad_weights_are_named(name: str, value: float, words: str, tmp_path: Path) -> None:
    config = build(CASES[TRAINED_BY_GRADIENT[name]], tmp_path)
    task = config.task.fit(config.task.read(Path(config.task.train)))
    assert task.learned is not None
    module = task.build_model()
    weights, (*_, last) = dict(module.state_dict()), (name for name, _ in module.named_parameters())
    weights[last] = weights[last].clone()
    weights[last].view(-1)[-1] = value
    learned = task.learned.model_dump_json()
    run = Run.create(tmp_path / "run", config=config.text(), learned=learned, environment={})
    run.save("best", Snapshot(weights, {}, {}))
    with pytest.raises(RunError, match=re.escape(f"{run.path}: the weights are too large or not finite")) as caught:
        load(run.path)
    assert f"({last}: {words}" in str(caught.value)


def test_the_best_or_the_last_checkpoint_is_loaded(run: Run) -> None:
    for name in ("best", "last"):
        model = load(run.path, checkpoint=name)
        expected = run.load(name).model
        assert all(torch.equal(tensor, expected[key]) for key, tensor in model.module.state_dict().items())
        assert not model.module.training


def test_predictions_are_made_before_the_next_batch_is_read(run: Run) -> None:
    model = load(run.path)
    texts_read: list[str] = []

    def questions() -> Iterator[Any]:
        for text in ("up", "down", "low"):
            texts_read.append(text)
            yield from model.task.read([text])

    answers = model.predict_batches(questions(), batch_size=1)
    next(answers)
    assert texts_read == ["up"]
    assert [len(some) for some in answers] == [1, 1]


def test_predictions_do_not_depend_on_the_batch_size(run: Run) -> None:
    model = load(run.path)
    texts = ["up", "it goes low below under", "", "what is up", "high"] * 3
    alone, together = (model.predict(texts, batch_size=size) for size in (1, 7))
    for one, other in zip(alone, together, strict=True):
        assert one.label == other.label
        assert asdict(one)["probabilities"] == pytest.approx(asdict(other)["probabilities"], abs=1e-6)


def test_a_text_of_unknown_words_is_reported(run: Run) -> None:
    answers = load(run.path).predict(["high", "zzz qqq", "zzz"])
    assert len(answers) == 3
    assert repr(answers).splitlines()[-1].startswith("2 of 3: no word of the text occurs in the training data")
    assert not load(run.path).predict("high").notes


def test_a_model_is_evaluated_on_its_current_device(run: Run) -> None:
    model = load(run.path)
    elsewhere = model.config._replace(train=model.config.train.model_copy(update={"device": "meta"}))
    labelled = [("it goes up", "up"), ("low", "down")]
    other = Model(elsewhere, model.module, baseline=model.baseline)
    assert other.evaluate(labelled) == model.evaluate(labelled)


def test_an_evaluation_on_the_training_data_is_noticed(run: Run, tmp_path: Path) -> None:
    """The same content under another name is the same file; held-out examples were not trained on."""
    file = tmp_path / "copy.txt"
    file.write_text(CASES["classify"].train)
    model = load(run.path)
    assert model.evaluate(str(file))["in_train"] == 18
    task = model.task.model_copy(update={"dev": "", "dev_fraction": 0.5})
    parted = Model(model.config._replace(task=task), model.module, trained_on=model.trained_on)
    held_out = sum(1 for _ in data_readers(parted.config, Sources(train=file)).dev())
    assert 0 < held_out < 18
    assert parted.evaluate(str(file))["in_train"] == 18 - held_out
    file.write_text(CASES["classify"].dev)
    assert "in_train" not in model.evaluate(str(file))


def test_unsupported_actions_are_refused(run: Run, tmp_path: Path) -> None:
    model = load(run.path)
    cannot = "^a model of the task classify cannot"
    with pytest.raises(TypeError, match=rf"{cannot} generate text \(tasks that can: language_model\)$"):
        model.generate("x")
    with pytest.raises(ValueError, match=r"x\.arpa: a model of .* is exported as \.onnx, \.o or \.wasm$"):
        model.export(tmp_path / "x.arpa")
    with pytest.raises(TypeError, match=rf"{cannot} stream \(tasks that can: transcribe\)$"):
        model.open_stream()
    vectors = "give contextual word vectors"
    instead = "; add --pooling mean for one vector per text, or call embed in Python$"
    with pytest.raises(TypeError, match=rf"{cannot} {vectors} \(tasks that can: language_model\){instead}"):
        model.embed_words(["x"])
    assert model.embed(["x"]).shape[0] == 1
    (tmp_path / "empty.txt").touch()
    with pytest.raises(ValueError, match="there are no examples"):
        model.evaluate(str(tmp_path / "empty.txt"))


def test_a_model_is_built_from_a_configuration_and_a_module(run: Run) -> None:
    settings = load_config(run)
    module = settings.task.build_model()
    module.load_state_dict(run.load("best").model)
    assert Model(settings, module).predict(["low"]) == load(run.path).predict(["low"])
    assert isinstance(run.load("best"), Snapshot)


@pytest.fixture(scope="module")
def translators(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("translators")
    seeds = (1, 2)
    configs = [build(CASES["translate, transformer"], folder, seed=seed, learning_rate=0.003) for seed in seeds]
    return [workflow.train(config, output=folder / str(seed)).path for config, seed in zip(configs, seeds, strict=True)]


def test_top_words_is_for_word_vectors_only(run: Run) -> None:
    refusal = (
        r"^a model of the task classify cannot be restricted to the most frequent words \(tasks that can: embed\)$"
    )
    with pytest.raises(TypeError, match=refusal):
        load(run.path).evaluate(["x"], top_words=5)


def test_the_search_can_be_replaced_when_a_run_is_loaded(translators: list[Path]) -> None:
    questions = ["a cd é", "b"]
    greedy, beam = (load(translators[0], search=search) for search in ("greedy", "beam size=4 nbest=3"))
    for first, several in zip(greedy.predict(questions), beam.predict(questions), strict=True):
        assert len(first.nbest) == 1
        assert len(several.nbest) == 3
        assert several.nbest[0].log_probability >= first.nbest[0].log_probability - 1e-5
    with pytest.raises(ConfigError, match=r'unknown key "search\.sise"; did you mean "search\.size"'):
        load(translators[0], search="beam sise=4")
    with pytest.raises(
        ConfigError,
        match=r'^command line: task\.search\.name: expected one of: "greedy", "beam", "sample"; got "best_path"$',
    ):
        load(translators[0], search="best_path")
    (typed,), (text,) = (
        load(translators[0], search=search).predict(["b"]) for search in (Beam(size=4, nbest=3), "beam size=4 nbest=3")
    )
    assert typed == text


def test_an_ensemble_averages_predictions(translators: list[Path]) -> None:
    questions = ["a cd é", "b x", "eff"]
    alone, other = (load(path).predict(questions) for path in translators)
    twice = load(translators[0], ensemble=[translators[0]]).predict(questions)
    assert [answer.text for answer in twice] == [answer.text for answer in alone]
    pairs = [(text, "a b") for text in questions]
    together = load(translators[0], ensemble=translators[1:])
    losses = [load(path).evaluate(pairs)["loss"] for path in translators]
    assert together.evaluate(pairs)["loss"] < max(losses)
    assert len(together.predict(questions)) == len(other)


def test_runs_with_other_vocabularies_cannot_form_an_ensemble(translators: list[Path], tmp_path: Path) -> None:
    other = workflow.train(build(CASES["translate, characters"], tmp_path), output=tmp_path / "other")
    with pytest.raises(ValueError, match="cannot form an ensemble: they have different vocabularies"):
        load(translators[0], ensemble=[other.path])


def test_predictions_can_be_constrained_to_a_file(translators: list[Path], tmp_path: Path) -> None:
    config = load_config(Run.open(translators[0])).task
    words = [symbol for symbol in config.learned.target.vocabulary.tokens if symbol.isalpha()]  # type: ignore[union-attr]
    allowed = [words[0], f"{words[1]} {words[0]} {words[1]}", f"{words[1]} {words[1]}"]
    (tmp_path / "answers.txt").write_text("\n".join([*allowed, "xyz"]) + "\n")
    for search in ("greedy", "beam size=3 nbest=3", "sample"):
        model = load(translators[0], search=search, constrain=str(tmp_path / "answers.txt"))
        for answer in model.predict(["a cd é", "", "b x"]):
            assert {candidate.text for candidate in answer.nbest} <= set(allowed)
    (tmp_path / "unknown.txt").write_text("xyz\n")
    with pytest.raises(ValueError, match="contains no output whose tokens all occur"):
        load(translators[0], constrain=str(tmp_path / "unknown.txt")).predict(["a"])


def test_translations_are_guided_by_a_lexicon_and_a_language_model(translators: list[Path], tmp_path: Path) -> None:
    config = load_config(Run.open(translators[0])).task
    words = [symbol for symbol in config.learned.target.vocabulary.tokens if symbol.isalpha()]  # type: ignore[union-attr]
    lexicon, arpa = tmp_path / "words.txt", tmp_path / "words.arpa"
    lexicon.write_text(f"{words[0]}\n{words[1]}\nxyz\n")
    arpa.write_text(
        f"\\data\\\nngram 1=4\n\n\\1-grams:\n-99 <s>\n-0.1 </s>\n-9 {words[0]}\n-0.1 {words[1]}\n\n\\end\\\n"
    )
    sources = ["a cd é", "", "b x"]
    for search in ("greedy", "beam size=3 nbest=3"):
        model = load(translators[0], search=search, lexicon=str(lexicon))
        assert "'xyz'" in model.task.prediction_notes[0]
        texts = {candidate.text for answer in model.predict(sources) for candidate in answer.nbest}
        assert {word for text in texts for word in text.split()} <= set(words[:2])
        assert load(translators[0], search=search).predict(sources) != model.predict(sources)
    for allowed in (str(lexicon), ""):
        for answer in load(translators[0], search="beam", lm=f"{arpa} weight=50", lexicon=allowed).predict(sources):
            assert set(answer.text.split()) <= {words[1]}
    rescored = load(translators[0], search="beam size=9 nbest=2", lm=f"{arpa} weight=50 method=rescore")
    assert {len(answer.nbest) for answer in rescored.predict(sources)} == {2}
    with pytest.raises(ValueError, match="cannot be combined with a lexicon"):
        load(translators[0], constrain=str(lexicon), lexicon=str(lexicon))


@pytest.mark.parametrize("method", ["fusion", "rescore"])
def test_translations_have_the_parts_of_their_scores(translators: list[Path], tmp_path: Path, method: str) -> None:
    """The model's part is what teacher forcing gives, the other one what the language model gives to the text."""
    config = load_config(Run.open(translators[0])).task
    tokens = config.learned.target.vocabulary.tokens  # type: ignore[union-attr]
    unigrams = {token: -0.2 - 0.1 * number for number, token in enumerate(tokens) if token.isalpha()}
    rows = "".join(f"{value:.4f} {token}\n" for token, value in unigrams.items())
    arpa = tmp_path / "words.arpa"
    arpa.write_text(f"\\data\\\nngram 1={len(unigrams) + 2}\n\n\\1-grams:\n-99 <s>\n-0.5 </s>\n{rows}\n\\end\\\n")
    search = "beam size=6 nbest=3 length_penalty=none"
    model = load(translators[0], search=search, lm=f"{arpa} weight=0.7 method={method}")
    free = load(translators[0], search=search)
    for source in ("a cd é", "b x"):
        (answer,) = model.predict([source])
        ended = [each for each in answer.nbest if len(each.log_probabilities) > len(each.tokens)]
        assert ended
        for candidate in ended:
            expected = math.log(10) * (-0.5 + sum(unigrams[token] for token in candidate.tokens))
            assert candidate.language == pytest.approx(expected, abs=1e-4)
            (forced,) = free.predict([(source, candidate.text)])
            assert candidate.model == pytest.approx(sum(forced.target_log_probabilities), abs=1e-4)
            assert candidate.score == pytest.approx(candidate.model + 0.7 * candidate.language, abs=1e-4)
        explanation = model.explain(source, beam=True)
        note = "the tree shows the search, before the language model reorders its n-best list"
        assert (note in explanation.notes) is (method == "rescore")
        assert all("language" not in candidate for candidate in free.task.to_json(free.predict([source])[0])["nbest"])


@pytest.mark.parametrize("search", ["beam", "beam coverage_penalty=0.1"])
def test_the_beam_shows_what_the_lexicon_excludes(translators: list[Path], tmp_path: Path, search: str) -> None:
    config = load_config(Run.open(translators[0])).task
    words = [symbol for symbol in config.learned.target.vocabulary.tokens if symbol.isalpha()]  # type: ignore[union-attr]
    (tmp_path / "words.txt").write_text(f"{words[0]}\n{words[1]}\n")
    model = load(translators[0], search=search, lexicon=str(tmp_path / "words.txt"))
    explanation = model.explain("a cd é", beam=True)
    fates = {(node.token in (*words[:2], "</s>"), node.status) for node in explanation.beam if node.parent >= 0}
    assert (False, "not_in_lexicon") in fates
    assert (True, "not_in_lexicon") not in fates
    assert {status for known, status in fates if not known} <= {"not_in_lexicon", "suppressed"}


def test_an_impossible_search_is_refused(translators: list[Path], tmp_path: Path) -> None:
    config = load_config(Run.open(translators[0])).task
    words = [symbol for symbol in config.learned.target.vocabulary.tokens if symbol.isalpha()]  # type: ignore[union-attr]
    (tmp_path / "answers.txt").write_text(f"{words[0]}\n")
    with pytest.raises(ValueError, match="no output that its settings allow"):
        load(translators[0], search="beam size=2 min_length=30", constrain=str(tmp_path / "answers.txt")).predict(["a"])
    with pytest.raises(ValueError, match=r"--search contains '5', expected a name and key=value pairs"):
        load(translators[0], search="beam 5")


def test_an_option_that_the_task_does_not_have_is_refused(run: Run, translators: list[Path]) -> None:
    with pytest.raises(
        ValueError, match=r"^the task classify has no option 'search' \(available: format, encoding, folder\)$"
    ):
        load(run.path, search="greedy")
    options = "search, constrain, lexicon, lm, format, encoding"
    for given in ({"captions": "x.txt"}, {"folder": "x"}):
        with pytest.raises(ValueError, match=rf"^the task translate has no option '\w+' \(available: {options}\)$"):
            load(translators[0], **given)  # type: ignore[arg-type]


def test_a_classifier_forms_an_ensemble_with_itself(run: Run) -> None:
    alone, twice = load(run.path), load(run.path, ensemble=[run.path])
    texts = [example.content for example in alone.task.read(resolve(alone.task.dev or alone.task.train))][:5]
    for expected, actual in zip(alone.predict(texts), twice.predict(texts), strict=True):
        assert actual.label == expected.label
        assert actual.probability == pytest.approx(expected.probability, abs=1e-6)


def test_taggers_form_an_ensemble_if_their_outputs_are_of_one_kind(tmp_path: Path) -> None:
    crf, linear = (
        workflow.train(build(CASES[name], tmp_path, updates=2), output=tmp_path / name).path
        for name in ("tag, crf", "tag")
    )
    alone, twice = load(crf), load(crf, ensemble=[crf])
    sentences = ["a cd é", "b x"]
    for expected, actual in zip(alone.predict(sentences), twice.predict(sentences), strict=True):
        assert actual.labels == expected.labels
        assert actual.probabilities == pytest.approx(expected.probabilities, abs=1e-6)
    with pytest.raises(ValueError, match=r"cannot form an ensemble: they differ in task\.model or task\.output$"):
        load(crf, ensemble=[linear])


def test_a_neural_language_model_and_an_ngram_form_an_ensemble(tmp_path: Path) -> None:
    neural, ngram, both = (
        workflow.train(build(CASES[name], tmp_path, updates=2), output=tmp_path / name).path
        for name in ("language_model", "language_model, ngram", "language_model, bidirectional")
    )
    lines = ["a cd é", "b x"]
    alone, counted, together = load(neural), load(ngram), load(neural, ensemble=[ngram])
    answers = zip(*(model.predict(lines) for model in (alone, counted, together)), strict=True)
    for first, second, mean in answers:
        pairs = zip(first.log_probabilities, second.log_probabilities, strict=True)
        expected = [math.log((math.exp(one) + math.exp(other)) / 2) for one, other in pairs]
        assert mean.log_probabilities == pytest.approx(expected, abs=1e-6)
    assert together.evaluate(lines)["perplexity"] < max(
        model.evaluate(lines)["perplexity"] for model in (alone, counted)
    )
    with pytest.raises(
        ValueError, match=r"cannot form an ensemble: they differ in task\.objective or task\.direction$"
    ):
        load(neural, ensemble=[both])
    with pytest.raises(TypeError, match="cannot be part of an ensemble: it does not only predict the next token"):
        load(both, ensemble=[both])


def test_runs_with_other_reading_directions_cannot_form_an_ensemble(translators: list[Path], tmp_path: Path) -> None:
    case = CASES["translate, transformer"]
    other = build(case._replace(fields={**case.fields, "reverse_source": True}), tmp_path)
    path = workflow.train(other, output=tmp_path / "other").path
    with pytest.raises(ValueError, match="cannot form an ensemble: they read their sources in different directions"):
        load(translators[0], ensemble=[path])


def test_export_compares_answers_on_the_dev_data(run: Run, tmp_path: Path) -> None:
    result = load(run.path).export(tmp_path / "model.onnx")
    assert result is not None
    assert result.examples == len(CASES["classify"].dev.splitlines())
    assert result.size == (tmp_path / "model.onnx").stat().st_size


def test_export_compares_answers_on_other_inputs(run: Run, tmp_path: Path) -> None:
    result = load(run.path).export(tmp_path / "model.onnx", check=["it goes up", "", "what"])
    assert result is not None
    assert result.examples == 3


def test_export_reads_no_data_but_those_of_the_run(run: Run, tmp_path: Path) -> None:
    model = load(run.path)
    changed = Model(model.config, model.module, trained_on=dict.fromkeys(model.trained_on, "0"))
    with pytest.raises(ValueError, match=r"has changed since the run was trained.*name other inputs \(--check FILE"):
        changed.export(tmp_path / "model.onnx")
    unknown = Model(model.config, model.module)
    with pytest.raises(ValueError, match="the run has no file with its data"):
        unknown.export(tmp_path / "model.onnx")
    assert not (tmp_path / "model.onnx").exists()
