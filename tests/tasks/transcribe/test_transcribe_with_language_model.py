"""Transcription with a lexicon and a language model, from the configuration or at prediction time."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.contracts.tiny import CASES, WORDS, build

from seqloom import workflow
from seqloom.checkpoint import Snapshot
from seqloom.config import ConfigError
from seqloom.data.readers.text_files import resolve
from seqloom.model import Model, load
from seqloom.run import Run
from seqloom.run_config import Config
from seqloom.tasks.language_model import LanguageModel
from seqloom.training.config import TrainConfig

KINDS = pytest.mark.parametrize(
    "kind",
    [{"model": "ngram", "order": 3}, {"decoder": {"hidden_size": 5}, "embedding_size": 4, "tie_embeddings": False}],
    ids=["ngram", "neural"],
)
TEXTS = "a ab\nab cab\nabc b\nca cc a\ncab cab\nab a\nb\n"


@pytest.fixture(autouse=True)
def nothing_is_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("seqloom.run_plots.draw", lambda *_, **__: None)


def transcriber(folder: Path, **fields: Any) -> Path:
    """A run of an untrained model, scaled so that its transcripts are not empty."""
    case = CASES["transcribe, unidirectional"]
    settings = build(case._replace(fields=case.fields | fields), folder)
    task = settings.task.fit(settings.task.read(resolve(settings.task.train)))
    assert task.learned
    run = Run.create(folder / "run", config=settings.text(), learned=task.learned.model_dump_json(), environment={})
    torch.manual_seed(4)
    module = task.build_model()
    module.output.weight.data *= 8  # type: ignore[union-attr, operator]
    run.save("best", Snapshot(module.state_dict(), {}, {}))
    return run.path


def train_language_model(folder: Path, unit: str, *, texts: str = TEXTS, **fields: Any) -> Path:
    """Train a language model on the texts; returns its run."""
    path = folder / "texts.txt"
    path.write_text(texts)
    task = LanguageModel(train=str(path), dev_fraction=0.0, text={"unit": unit}, **fields)  # type: ignore[arg-type]
    return workflow.train(
        Config(task, TrainConfig(updates=2, threads=1)), output=folder / f"lm-{unit}-{len(fields)}"
    ).path


def recordings() -> list[Any]:
    random = np.random.default_rng(7)
    return [random.normal(size=(length, 3)) for length in (20, 11)]


def transcribe(model: Model) -> list[Any]:
    return model.predict(recordings())


def log_probability(model: Model, text: str) -> float:
    """The log-probability of a text and its end, computed by the language model itself."""
    return float(model.predict([text])[0].log_probability)


@KINDS
def test_a_character_language_model_changes_the_transcripts(kind: dict[str, Any], tmp_path: Path) -> None:
    run, language = transcriber(tmp_path), train_language_model(tmp_path, "characters", **kind)
    free = transcribe(load(run, search="prefix_beam"))
    model = load(run, lm=f"{language} weight=0.7 word_score=0.4")
    for answer in transcribe(model):
        expected = log_probability(load(language), answer.text)
        assert answer.language == pytest.approx(expected, rel=1e-4)
        total = answer.acoustic + 0.7 * answer.language + 0.4 * len(answer.tokens)
        assert answer.score == pytest.approx(total, rel=1e-6)
    assert all(answer.language == 0 for answer in free)
    assert [answer.text for answer in transcribe(model)] != [answer.text for answer in free]


def test_an_arpa_file_gives_the_same_transcripts(tmp_path: Path) -> None:
    run, language = transcriber(tmp_path), train_language_model(tmp_path, "characters", model="ngram", order=3)
    load(language).export(tmp_path / "m.arpa")
    there, here = transcribe(load(run, lm=str(language))), transcribe(load(run, lm=str(tmp_path / "m.arpa")))
    assert [answer.text for answer in there] == [answer.text for answer in here]
    assert [answer.score for answer in there] == pytest.approx([answer.score for answer in here], rel=1e-5)


def test_only_words_of_the_lexicon_occur(tmp_path: Path) -> None:
    run = transcriber(tmp_path)
    free, bound = (
        transcribe(load(run, search="prefix_beam")),
        transcribe(load(run, lexicon=str(tmp_path / "words.txt"))),
    )
    assert not {word for answer in free for word in answer.words} <= set(WORDS)
    for answer in bound:
        assert {*answer.words} <= set(WORDS)
        assert answer.text == " ".join(answer.words)
        assert len(answer.word_times) == len(answer.words) > 0
        assert -math.inf < answer.score == answer.acoustic


@KINDS
def test_a_lexicon_with_a_word_language_model(kind: dict[str, Any], tmp_path: Path) -> None:
    run, language = transcriber(tmp_path), train_language_model(tmp_path, "words", **kind)
    model = load(run, lexicon=str(tmp_path / "words.txt"), lm=f"{language} weight=1.5 word_score=-0.5 unk_score=-1")
    for answer in transcribe(model):
        assert answer.language == pytest.approx(log_probability(load(language), answer.text), rel=1e-4)
        total = answer.acoustic + 1.5 * answer.language - 0.5 * len(answer.words)
        assert answer.score == pytest.approx(total, rel=1e-6)  # each word is known


@KINDS
def test_a_language_model_rescores_the_n_best(kind: dict[str, Any], tmp_path: Path) -> None:
    """The transcripts of the search without the model, in the order of the sums with its log-probabilities."""
    run, language = transcriber(tmp_path), train_language_model(tmp_path, "characters", **kind)
    lm = load(language)
    free = transcribe(load(run, search="prefix_beam size=12 nbest=12"))
    rescored = transcribe(load(run, search="prefix_beam size=12 nbest=12", lm=f"{language} weight=2 method=rescore"))
    for before, after in zip(free, rescored, strict=True):
        sums = [each.acoustic + 2 * log_probability(lm, each.text) for each in before.nbest]
        order = np.argsort([-value for value in sums], kind="stable").tolist()
        assert [each.text for each in after.nbest] == [before.nbest[index].text for index in order]
        assert [each.score for each in after.nbest] == pytest.approx([sums[index] for index in order], rel=1e-4)
        assert [each.text for each in after.nbest] != [each.text for each in before.nbest]


def test_rescoring_is_refused_where_it_streams(tmp_path: Path) -> None:
    run, language = transcriber(tmp_path), train_language_model(tmp_path, "characters", model="ngram", order=2)
    with pytest.raises(ConfigError, match=r"search\.lag = 5 is for streams"):
        load(run, search="prefix_beam lag=5", lm=f"{language} method=rescore")
    with pytest.raises(ValueError, match="reorders whole transcripts: this model needs the whole recording"):
        load(run, lm=f"{language} method=rescore").open_stream()


def test_lexicon_and_language_model_in_the_configuration_can_stream(tmp_path: Path) -> None:
    language = train_language_model(tmp_path, "words", model="ngram", order=2)
    fields = {"search": {"name": "prefix_beam", "size": 16}, "lexicon": str(tmp_path / "words.txt")}
    model = load(transcriber(tmp_path, **fields, lm={"model": str(language), "weight": 0.5}), own_files=True)
    whole, stream = transcribe(model)[0], model.open_stream()
    values = recordings()[0]
    texts = [str(stream.feed(values[start : start + 3])) for start in range(0, len(values), 3)]
    last = stream.finish()
    assert (last.text, last.words) == (whole.text, whole.words)
    assert last.score == pytest.approx(whole.score, rel=1e-4)
    for before, after in zip(texts, [*texts[1:], last.text], strict=True):
        assert after.startswith(before)


def test_invalid_language_models(tmp_path: Path) -> None:
    run, words = transcriber(tmp_path), train_language_model(tmp_path, "words", model="ngram", order=2)
    with pytest.raises(ValueError, match="expected a language model of characters, found one of words"):
        transcribe(load(run, lm=str(words)))
    with pytest.raises(TypeError, match="is a run of the task transcribe, expected a language_model"):
        transcribe(load(run, lm=str(run)))
