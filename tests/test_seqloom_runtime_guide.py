"""Searches of seqloom_runtime with a lexicon and a language model: the answers of Seqloom's own searches."""

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.contracts import tiny
from tests.tasks.transcribe.test_transcribe_with_language_model import train_language_model
from tests.test_seqloom_runtime import Exported, assert_same, without_references
from typer.testing import CliRunner

import seqloom_runtime
from seqloom import workflow
from seqloom.cli.main import app
from seqloom.decoding.frames.frame_search import Guide
from seqloom.decoding.frames.language_models import NGramLM
from seqloom.decoding.frames.lexicon import Lexicon
from seqloom.decoding.frames.prefix_beam import PrefixBeam
from seqloom.decoding.searches import parse_search
from seqloom.model import load
from seqloom.models.ngram.kneser_ney import estimate
from seqloom.models.ngram.ngram import NGram
from seqloom.models.transcription.search_guide import parse_language_model
from seqloom.onnx.guide import export_guide
from seqloom.run_config import Config
from seqloom.training.config import TrainConfig

BLANKS = 7  # token of the space


def frames(draw: np.random.Generator, time: int, vocabulary: int) -> torch.Tensor:  # (1, T, V)
    logits = draw.normal(0, draw.choice([0.5, 2.0, 4.0]), (1, time, vocabulary))
    if draw.random() < 0.2:
        logits[draw.random(logits.shape) < 0.1] = -np.inf
        logits[:, :, 0] = draw.normal(0, 1, time)
    return torch.from_numpy(logits).log_softmax(dim=-1).float()


def ngram(draw: np.random.Generator, words: int) -> NGram:
    """Of words 0 … words - 1, an unknown one, start and end; no two have the same probability."""
    texts = [draw.integers(0, words + 1, draw.integers(1, 6)).tolist() for _ in range(12)]
    order = int(draw.integers(1, 4))
    model = estimate(texts, order=order, start=words + 1, end=words + 2, vocabulary=words + 3)
    tables = [values + np.where(values > -np.inf, -draw.random(len(values)), 0) for values in model.log_probabilities]
    return replace(model, log_probabilities=tuple(table.astype(np.float32) for table in tables))


def lexicon(draw: np.random.Generator) -> Lexicon:
    """Words of one to four tokens; some share a spelling, some have several, some consist of others."""
    separator = BLANKS if draw.random() < 0.5 else None
    names = [f"word {number}" for number in range(int(draw.integers(2, 15)))]
    pairs = [
        (name, draw.integers(1, BLANKS, draw.integers(1, 5)).tolist())
        for name in names
        for _ in range(1 + (draw.random() < 0.25))
    ]
    return Lexicon(pairs, separator=separator)


def guide(draw: np.random.Generator, *, words: bool, vocabulary: int) -> Guide:
    tree = lexicon(draw) if words else None
    count = len(tree) if tree is not None else vocabulary
    # Without a language model, words that are spelled alike have the same score, and which one is found is arbitrary.
    ambiguous = tree is not None and (tree.separator is None or len(tree.words_at) > len(np.unique(tree.leaves[0])))
    lm = None
    if ambiguous or draw.random() < 0.7:
        unknown = draw.integers(count) if draw.random() < 0.5 else count
        ids = np.where(np.arange(count) == unknown, -1, draw.permutation(count))
        lm = NGramLM(ngram(draw, count), vocabulary_ids=ids, unknown=count if draw.random() < 0.7 else None)
    word_score, unk_score = (float(draw.choice([0.0, draw.normal()])) for _ in range(2))
    rescore = lm is not None and not ambiguous and draw.random() < 0.4
    return Guide(tree, lm, float(draw.choice([0.2, 0.5, 1.3])), word_score, unk_score, rescore)


def settings(draw: np.random.Generator, *, words: bool) -> dict[str, Any]:
    options: dict[str, Any] = {"size": int(draw.choice([2, 5, 20, 64])), "nbest": int(draw.choice([1, 3]))}
    if draw.random() < 0.3:
        options["merge"] = "max"
    if draw.random() < 0.3:
        options["per_node"] = int(draw.integers(1, 5))
    if draw.random() < 0.3:
        options["threshold"] = float(draw.uniform(1, 8))
    if draw.random() < 0.3:
        options["token_threshold"] = 0.02
    if words and draw.random() < 0.3:
        options["histories"] = int(draw.integers(1, 5))
    return options


def runtime_guide(guide: Guide, vocabulary: int) -> seqloom_runtime.Guide | None:
    description, _ = export_guide(guide)
    return None if description is None else seqloom_runtime.Guide(description, vocabulary, None)


@pytest.mark.parametrize("words", [True, False])
def test_many_random_searches_over_frames(words: bool) -> None:
    """Words, tokens, frames and scores of 300 searches."""
    compared = 0
    for seed in range(300):
        draw = np.random.default_rng([seed, words])
        vocabulary = BLANKS + 1
        chosen, options = guide(draw, words=words, vocabulary=vocabulary), settings(draw, words=words)
        table = frames(draw, int(draw.integers(0, 25)), vocabulary)
        (expected,) = PrefixBeam(**options)(table, torch.tensor([table.shape[1]]), guide=chosen)
        found = seqloom_runtime.PrefixBeam(options, runtime_guide(chosen, vocabulary))(table[0].numpy())
        # Both sum in double precision; Seqloom by a table that is exact to 2e-11.
        scores = [transcript.score for transcript in expected]
        np.testing.assert_allclose([each.score for each in found], scores, rtol=1e-7, atol=1e-7, err_msg=f"{seed}")
        for left, right in zip(found, expected, strict=True):
            if sum(math.isclose(right.score, score, abs_tol=1e-6) for score in scores) > 1:
                continue
            assert (left.tokens, list(left.words), left.frames) == (right.tokens, right.words, right.frames), seed
            assert list(left.spans) == right.spans, seed
            assert (left.acoustic, left.language) == pytest.approx((right.acoustic, right.language), abs=1e-6), seed
            compared += 1
    assert compared > 200


@pytest.mark.parametrize("order", [1, 2, 3])
def test_the_next_word_of_an_ngram_model(order: int) -> None:
    draw = np.random.default_rng(order)
    texts = [draw.integers(0, 6, draw.integers(1, 8)).tolist() for _ in range(20)]
    model = estimate(texts, order=order, start=6, end=7, vocabulary=8)
    runtime = runtime_guide(Guide(None, NGramLM(model, vocabulary_ids=np.arange(8))), 8)
    assert runtime is not None
    assert isinstance(runtime.lm, seqloom_runtime.NGram)
    for _ in range(20):
        state, context = runtime.lm.start, model.start_state()
        for word in draw.integers(0, 6, 6).tolist():
            expected = model.next(context)[0]
            np.testing.assert_allclose(runtime.lm.following(state), expected, rtol=1e-12)
            value, state = runtime.lm.score(state, word)
            assert value == pytest.approx(expected[word], rel=1e-12)
            context = model.advance(context, np.array([word]))


LANGUAGE_MODELS: dict[str, Any] = {
    "ngram": {"model": "ngram", "order": 3},
    "neural": {"decoder": {"hidden_size": 5}, "embedding_size": 4, "tie_embeddings": False},
    "transformer": {"decoder": tiny.TRANSFORMER, "embedding_size": 4},
}
CASES = [
    (model, search, kind, method)
    for model, searches in {
        "transcribe": ["prefix_beam size=6 nbest=3", "prefix_beam"],
        "transcribe, joint": ["beam size=4 nbest=3", "greedy", "prefix_beam nbest=2"],
        "transcribe, attention": ["beam size=4 nbest=4 length_penalty=none", "greedy"],
    }.items()
    for search in searches
    for kind in ("", *LANGUAGE_MODELS)
    for method in ("fusion", "rescore")
    if method == "fusion" or (kind and search != "greedy")
]


@pytest.mark.parametrize("words", [True, False])
@pytest.mark.parametrize(("name", "search", "kind", "method"), CASES)
@pytest.mark.sampled(6)
def test_guided_transcripts(
    name: str, search: str, kind: str, method: str, words: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every search × language model × lexicon, with a model of random weights."""
    monkeypatch.setattr("seqloom.run_plots.draw", lambda *_, **__: None)
    (tmp_path / "words.txt").write_text("".join(f"{word}\n" for word in tiny.WORDS))
    model = f"word_score={0.3 if words else 0.1} "
    if kind:
        language = train_language_model(tmp_path, "words" if words else "characters", **LANGUAGE_MODELS[kind])
        model = f"{language} weight=0.7 unk_score=-0.4 method={method} {model}"
    options: dict[str, Any] = {"search": parse_search(search), "lm": parse_language_model(model)}
    if words:
        options["lexicon"] = str(tmp_path / "words.txt")
    exported = Exported(name, tmp_path, **options)
    draw = np.random.default_rng(3)
    inputs = [*exported.questions, *(draw.normal(size=(length, 3)) for length in (12, 7, 1))]
    expected = [without_references(exported, answer) for answer in exported.answers(inputs)]
    runtime: Any = seqloom_runtime.load(exported.file)
    answers = runtime.predict(inputs)
    assert_same(answers, expected)
    assert any(answer["language"] for answer in answers) == bool(kind)
    if search.startswith("prefix_beam"):
        assert any(answer["words"] for answer in answers)


@pytest.mark.parametrize("kind", ["", *LANGUAGE_MODELS])
@pytest.mark.parametrize(
    ("search", "method"),
    [("greedy", "fusion"), ("beam size=4 nbest=2", "fusion"), ("beam size=4 nbest=2", "rescore")],
)
def test_guided_translations(
    kind: str, search: str, method: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("seqloom.run_plots.draw", lambda *_, **__: None)
    (tmp_path / "allowed.txt").write_text("A\nCD\nX\n")
    options: dict[str, Any] = {"search": parse_search(search), "lexicon": str(tmp_path / "allowed.txt")}
    if kind:
        language = train_language_model(tmp_path, "words", texts="A CD\nCD X X\nX A\n", **LANGUAGE_MODELS[kind])
        options["lm"] = parse_language_model(f"{language} weight=0.8 method={method}")
    exported = Exported("translate", tmp_path, **options)
    inputs = ["a cd é", "", "b x", "eff eff a b cd"]
    expected = exported.answers(inputs)
    for answer, truth in zip(seqloom_runtime.load(exported.file).predict(inputs), expected, strict=True):
        assert_same(answer["nbest"], truth["nbest"])
        assert {*answer["text"].split()} <= {"A", "CD", "X"}


def test_a_neural_language_model_is_a_file_of_its_own(tmp_path: Path) -> None:
    language = train_language_model(tmp_path, "characters", **LANGUAGE_MODELS["neural"])
    options: dict[str, Any] = {"search": parse_search("prefix_beam"), "lm": parse_language_model(str(language))}
    exported = Exported("transcribe", tmp_path, **options)
    (tmp_path / "model.lm.onnx").unlink()
    with pytest.raises(seqloom_runtime.ModelError, match=r"is missing: the file \.lm\.onnx"):
        seqloom_runtime.load(exported.file)


def test_the_search_can_be_changed_without_its_guide(tmp_path: Path) -> None:
    (tmp_path / "words.txt").write_text("a\nab\n")
    options: dict[str, Any] = {"search": parse_search("prefix_beam"), "lexicon": str(tmp_path / "words.txt")}
    exported = Exported("transcribe", tmp_path, **options)
    runtime: Any = seqloom_runtime.load(exported.file)
    for search in ("best_path", "prefix_beam"):
        (tmp_path / search).mkdir()
        runtime.search, runtime.guide = {"name": search}, None
        free = Exported("transcribe", tmp_path / search, search=parse_search(search))
        free.module = exported.module
        expected = [without_references(free, answer) for answer in free.answers(free.questions)]
        assert_same(runtime.predict(free.questions), expected)


def test_a_trained_transcriber(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A trained model with a lexicon and an n-gram model, exported by the command: the transcripts of ``predict``."""
    monkeypatch.setattr("seqloom.run_plots.draw", lambda *_, **__: None)
    case = tiny.CASES["transcribe"]
    fields = {**case.fields, "encoder": {"hidden_size": 24}, "augment": {}, "time_reduction": {}}
    task: Any = tiny.build(case._replace(fields=fields), tmp_path).task
    train = TrainConfig(updates=250, threads=1, learning_rate=0.01)
    run = workflow.train(Config(task, train), output=tmp_path / "run").path
    language = train_language_model(tmp_path, "words", model="ngram", order=2)
    (tmp_path / "allowed.txt").write_text("".join(f"{word}\n" for word in (*tiny.WORDS, "ac", "bc", "aca")))
    options = ["--lexicon", str(tmp_path / "allowed.txt"), "--lm", f"{language} weight=0.5 unk_score=-1"]
    options += ["--search", "prefix_beam nbest=2"]
    result = CliRunner().invoke(app, ["export", str(run), str(tmp_path / "model.onnx"), *options])
    assert result.exit_code == 0, result.output
    model = load(run, search=options[5], lexicon=options[1], lm=options[3])
    inputs = [json.loads(line)["strokes"] for line in (tmp_path / "dev-t.jsonl").read_text().splitlines()]
    answers = seqloom_runtime.load(tmp_path / "model.onnx").predict(inputs)
    expected = [json.loads(json.dumps(model.task.to_json(answer))) for answer in model.predict(inputs)]
    for answer, truth in zip(answers, expected, strict=True):
        assert_same(answer, {name: truth[name] for name in answer})
    assert sum(len(answer["words"]) for answer in answers) > len(answers) / 2
