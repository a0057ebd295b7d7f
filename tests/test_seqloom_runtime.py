"""seqloom_runtime: the answers of Seqloom, without it."""

import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.contracts import tiny
from tests.contracts.test_export import ALL_KNOWN, EXPORTED, OTHERS, find_case, known_in_advance

import seqloom_runtime
from seqloom.answers import EMPTY_INPUT
from seqloom.data.readers import pixels
from seqloom.data.readers.audio_files import Audio, read_audio, resample
from seqloom.data.text.tokenizers import TextConfig, Tokenizer
from seqloom.decoding.frames.prefix_beam import PrefixBeam
from seqloom.decoding.searches import parse_search
from seqloom.decoding.tokens.beam import Beam
from seqloom.decoding.tokens.greedy import Greedy
from seqloom.decoding.tokens.sample import Sample
from seqloom.formats import single_precision
from seqloom.onnx import exported

TEXTS = [
    "the clouds are in the sky, don't they?  Well...",
    "Ünïcode ² Ⅷ ١٢ 漢字かな hello_world 3.14 e.g. U.S. x-y",
    "tabs\tand\nnew lines   end ",
    "🙂🙂 emoji ne\u0301e 'quoted' \"twice\" (a/b)",
]


def fitted(unit: str, algorithm: str, split: str, *, lowercase: bool) -> Tokenizer:
    options: dict[str, Any] = {"unit": unit, "algorithm": algorithm, "split": split, "lowercase": lowercase}
    return TextConfig(**options, vocab_size=330 if unit == "subwords" else 0).fit(TEXTS * 3, specials=("</s>",))


TOKENIZERS = [
    fitted("characters", "bpe", "whitespace", lowercase=True),
    fitted("words", "bpe", "whitespace", lowercase=False),
    fitted("words", "bpe", "punctuation", lowercase=True),
    fitted("words", "bpe", "lines", lowercase=False),
    fitted("subwords", "bpe", "whitespace", lowercase=False),
    fitted("subwords", "unigram", "whitespace", lowercase=True),
]
READERS = [seqloom_runtime.Tokenizer(tokenizer.model_dump(mode="json")) for tokenizer in TOKENIZERS]
ALPHABET = st.one_of(
    st.sampled_from("the cloudsare  \n\t\x1c,.'’\"-_(/)x3²漢か🙂\u0301ÀéİＡ▁"), st.characters(codec="utf-8")
)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.text(alphabet=ALPHABET, max_size=30))
def test_tokens_of_any_text(text: str) -> None:
    for tokenizer, reader in zip(TOKENIZERS, READERS, strict=True):
        ids = tokenizer.encode(text)
        assert reader.encode(text) == ids
        assert reader.decode(ids) == tokenizer.decode(ids)


def test_readable_tokens() -> None:
    for tokenizer, reader in zip(TOKENIZERS, READERS, strict=True):
        tokens = tokenizer.vocabulary.tokens
        assert [reader.readable(index) for index in range(len(tokens))] == [
            tokenizer.readable(token) for token in tokens
        ]


@pytest.mark.parametrize("value", [0.1, float(np.float32(0.1)), -3.5e-7, 123456.789012345, 1e20, 0.0, 2.0])
def test_numbers_are_written_as_by_seqloom(value: float) -> None:
    assert seqloom_runtime._shorten({"x": [value]}) == {"x": [single_precision(value)]}


@pytest.mark.parametrize(("tokenizer", "reader"), list(zip(TOKENIZERS, READERS, strict=True)))
def test_any_ids_are_decoded(tokenizer: Tokenizer, reader: Any) -> None:
    for row in np.random.default_rng(2).integers(0, len(tokenizer.vocabulary), (20, 30)):
        assert reader.decode(row.tolist()) == tokenizer.decode(row.tolist())


ALLOWED = ["CD B", "CD B A", "A", "B B B"]
"""Outputs of a translator, in the words of the case."""


class Exported:
    """A model with random weights, and the file that it is exported to."""

    def __init__(self, name: str, folder: Path, **options: Any) -> None:
        case = find_case(name)
        task, self.module = tiny.fit_random(case, folder)
        self.task = task.with_options(**options)
        self.questions = list(case.questions)
        self.file = folder / "model.onnx"
        with torch.no_grad():
            model = self.task.onnx_model(self.module)
            exported.write(model, self.file, [list(task.read(folder / case.file))[:4]], metadata={}, parts=True)

    def answers(self, inputs: list[Any]) -> list[dict[str, Any]]:
        examples = list(self.task.read_inputs(inputs))
        with torch.no_grad():
            answers = self.task.for_prediction().predict(self.module, self.task.collate(examples)).answers
        return [json.loads(json.dumps(self.task.to_json(answer))) for answer in answers]


def assert_same(answer: Any, expected: Any) -> None:
    """The same structure and texts; numbers within float32's rounding."""
    if isinstance(expected, dict):
        assert answer.keys() == expected.keys()
        for name, value in expected.items():
            assert_same(answer[name], value)
    elif isinstance(expected, list):
        assert len(answer) == len(expected)
        for left, right in zip(answer, expected, strict=True):
            assert_same(left, right)
    elif isinstance(expected, float):
        assert answer == pytest.approx(expected, rel=2e-5, abs=2e-5)
    else:
        assert answer == expected


def with_noise(item: Any) -> Any:
    """Sound as it is recorded: the deviation of the features of a pure tone is rounding only."""
    noise = np.random.default_rng(9)
    if isinstance(item, Audio):
        return Audio((item.samples + noise.normal(0, 0.1, len(item.samples))).astype(np.float32), item.rate)
    is_sound = isinstance(item, np.ndarray) and item.ndim == 1
    return item + noise.normal(0, 0.1, len(item)) if is_sound else item


REFERENCES = ("truth", "warning", "image", "name", "loss", "target_log_probabilities", "target_correct", "unknown")


def without_references(model: "Exported", answer: dict[str, Any]) -> dict[str, Any]:
    """What the runtime knows: no names of files, no observed values, of a forecast no time stamps."""
    unknown = (*REFERENCES, *(("times",) if model.task.name == "forecast" else ()))
    return {key: value for key, value in answer.items() if key not in unknown}


def without_warnings(answers: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Answers of the runtime, in which a warning stands beside those to empty texts."""
    return [{key: value for key, value in answer.items() if key != "warning"} for answer in answers]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", [*(name for name in EXPORTED if name != "translate, beam"), *OTHERS])
def test_answers_of_every_task(name: str, tmp_path: Path) -> None:
    model = Exported(name, tmp_path)
    inputs = [with_noise(item) for item in model.questions]
    answers = seqloom_runtime.load(model.file).predict(inputs)
    expected = model.answers(inputs)
    assert_same(without_warnings(answers), [without_references(model, answer) for answer in expected])


@pytest.mark.parametrize("search", [Greedy(), Beam(size=3, nbest=3)])
def test_constrained_outputs(search: Any, tmp_path: Path) -> None:
    """Only outputs of a list, of which one is the beginning of another; the graph itself searches without it."""
    (tmp_path / "allowed.txt").write_text("".join(f"{text}\n" for text in ALLOWED))
    model = Exported("translate", tmp_path, search=search, constrain=str(tmp_path / "allowed.txt"))
    answers = seqloom_runtime.load(model.file).predict(model.questions)
    expected = [without_references(model, answer) for answer in model.answers(model.questions)]
    assert_same(without_warnings(answers), expected)
    assert {each["text"] for answer in answers for each in answer["nbest"]} <= {*ALLOWED}
    graph = seqloom_runtime.load(model.file)
    assert graph.description["output"].pop("allowed")
    assert any(answer["text"] not in ALLOWED for answer in graph.predict(model.questions))


@pytest.mark.parametrize(
    "fields", [{}, {"history": 0, "output": "every_step"}, {"channel_independent": True, "output": "every_step"}]
)
def test_forecasts_with_covariates(fields: dict[str, Any], tmp_path: Path) -> None:
    """A table with a row for each step to forecast, in which only dates and what is known in advance stand."""
    case = known_in_advance(**ALL_KNOWN, **fields)
    task, module = tiny.fit_random(case, tmp_path)
    examples = list(task.read(tmp_path / f"dev-{case.file}"))
    (tmp_path / "ahead.csv").write_text(case.dev + "2024-03-31,1,,7\n2024-04-01,0,,7\n")
    with torch.no_grad():
        exported.write(task.onnx_model(module), tmp_path / "model.onnx", [examples], metadata={})
        questions = list(task.read_inputs(tmp_path / "ahead.csv"))
        (expected,) = task.for_prediction().predict(module, task.collate(questions)).answers
    header, *rows = [line.split(",") for line in (tmp_path / "ahead.csv").read_text().splitlines()]
    table = {name: [row[place] for row in rows] for place, name in enumerate(header)}
    model = seqloom_runtime.load(tmp_path / "model.onnx")
    (answer,) = model.predict([table])
    assert_same(answer["values"], json.loads(json.dumps(task.to_json(expected)))["values"])
    local = [f"{date} 00:00:00+02:00" for date in table["date"]]  # the day of the file, not the one before it in UTC
    (same,) = model.predict([{**table, "date": local}])
    assert same["values"] == answer["values"]
    with pytest.raises(seqloom_runtime.ModelError, match="expected 2 rows after the history, with the date, promotion"):
        model.predict([{name: values[:-1] for name, values in table.items()}])
    with pytest.raises(seqloom_runtime.ModelError, match="expected a table, a list for each column: promotion, sales"):
        model.predict([[[1.0, 2.0, 3.0]]])
    with pytest.raises(seqloom_runtime.ModelError, match=r"column 'date': expected dates such as 2024-08-27"):
        model.predict([{**table, "date": ["soon"] * len(rows)}])


def test_words_with_features(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A tagger of two columns reads a list of the word and its columns, for each word."""
    case = tiny.CASES["tag, crf"]
    train, dev = ("".join(_with_feature(row) for row in text.splitlines()) for text in (case.train, case.dev))
    fields = {**case.fields, "feature_columns": [1], "feature_size": 3}
    task, module = tiny.fit_random(case._replace(train=train, dev=dev, fields=fields), tmp_path)
    examples = list(task.read(tmp_path / f"dev-{case.file}"))
    with torch.no_grad():
        exported.write(task.onnx_model(module), tmp_path / "model.onnx", [examples], metadata={})
        expected = task.predict(module, task.collate(examples)).answers
    model = seqloom_runtime.load(tmp_path / "model.onnx")
    rows = [[list(pair) for pair in zip(each.words, each.features[0], strict=True)] for each in examples]
    answers = model.predict(rows)
    assert [answer["labels"] for answer in answers] == [list(answer.labels) for answer in expected]
    monkeypatch.setattr("sys.stdin", io.StringIO(json.dumps(rows[0]) + "\n"))
    assert seqloom_runtime.main([str(tmp_path / "model.onnx")]) == 0
    assert json.loads(capsys.readouterr().out)["labels"] == answers[0]["labels"]
    for item in ("the Anna", ["the", "Anna"], [["the", "3", "3"]]):
        with pytest.raises(
            seqloom_runtime.ModelError, match="expected for each word a list of the word and its columns 1"
        ):
            model.predict([item])


def _with_feature(row: str) -> str:
    """A line of a CoNLL file with the length of the word as its second column."""
    word, _, label = row.partition(" ")
    return f"{word} {len(word)} {label}\n" if row else "\n"


def test_tokens_of_a_text_are_scored(tmp_path: Path) -> None:
    model: Any = seqloom_runtime.load(Exported("language_model", tmp_path).file)
    (score,) = model.predict(["a b cd"])
    tokens = list(model.score_tokens("a b cd\na", alternatives=2))
    assert [(token.text, token.token) for token in tokens] == [
        *[("a", "a"), (" b", "b"), (" cd", "cd")],
        *[("\n", "</s>"), ("a", "a")],
    ]
    np.testing.assert_allclose([token.log_probability for token in tokens[:4]], score["log_probabilities"], rtol=1e-5)
    assert all(len(token.alternatives) == 2 for token in tokens)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"temperature": 0.0},
        {"temperature": 0.7, "top_k": 3},
        {"top_p": 0.8, "seed": 5},
        {"min_p": 0.2, "temperature": 1.3},
    ],
)
@pytest.mark.parametrize("name", ["language_model, characters", "language_model, transformer"])
def test_generated_text(name: str, options: dict[str, Any], tmp_path: Path) -> None:
    model = Exported(name, tmp_path)
    runtime: Any = seqloom_runtime.load(model.file)
    for prompt in ("a cd", "a\nb", ""):
        tokens = model.task.generate(model.module, prompt, length=40, sample=Sample(**options))
        text = "".join(token.text for token in tokens)
        assert "".join(runtime.generate(prompt, length=40, lines=0, **options)) == text
        lines = text.splitlines(keepends=True)  # the text has no other line ends
        for count in (1, 2):
            assert "".join(runtime.generate(prompt, length=40, lines=count, **options)) == "".join(lines[:count])
        assert "".join(runtime.generate(prompt, length=40, **options)) == "".join(lines[:1])


@pytest.mark.parametrize("name", ["language_model, masked", "language_model, masked, characters"])
def test_masked_language_models_fill_and_score(name: str, tmp_path: Path) -> None:
    model = Exported(name, tmp_path)
    texts = ["a [MASK] é", "a cd é", "[MASK]", "", "b[MASK]cd [MASK] x", " ".join(["a"] * 40)]
    runtime = seqloom_runtime.load(model.file)
    assert isinstance(runtime, seqloom_runtime.MaskedLanguageModel)
    assert_same(runtime.predict(texts), model.answers(texts))


SEARCHES: list[dict[str, Any]] = [
    {"name": "greedy"},
    {"name": "beam", "size": 1},
    {"name": "beam", "size": 4, "nbest": 3},
    {"name": "beam", "size": 5, "nbest": 5, "length_penalty": "gnmt", "alpha": 0.6, "min_length": 3},
    {"name": "beam", "size": 4, "nbest": 2, "length_penalty": "none", "no_repeat_ngram": 2, "threshold": 2.0},
    {"name": "beam", "size": 6, "per_node": 2, "patience": 0.5},
]


@pytest.mark.parametrize(
    "name",
    [
        name
        for name, case in tiny.CASES.items()
        if case.name == "translate" and not any(kind in name for kind in ("vectors", "ngram", "hybrid"))
    ],
)
def test_translations_by_every_search(name: str, tmp_path: Path) -> None:
    model = Exported(name, tmp_path)
    runtime: Any = seqloom_runtime.load(model.file)
    inputs = ["a cd é", "", "b x", "eff eff a b cd", "a"]
    for search in SEARCHES:
        runtime.search = search
        model.task = model.task.with_options(search=find_search(search))
        answers = runtime.predict(inputs)
        for answer, expected in zip(answers, model.answers(inputs), strict=True):
            fields = ("text", "score", "log_probability", "tokens", "log_probabilities")
            nbest = [{field: candidate[field] for field in fields} for candidate in expected["nbest"]]
            assert_same(answer["nbest"], nbest)
            assert_same(answer["text"], expected["text"])


@pytest.mark.parametrize("fit", ["crop", "pad"])
@pytest.mark.parametrize("shape", [(9, 12), (40, 7), (3, 3), (64, 65), (32, 32)])
def test_images_are_resized_as_by_pillow(shape: tuple[int, int], fit: Any) -> None:
    image = np.random.default_rng(shape[0]).integers(0, 256, (*shape, 3), dtype=np.uint8)
    found, expected = seqloom_runtime.square(image, 16, fit), pixels.from_array(image, size=16, resize=fit)
    # Pillow averages columns first, or rows where that is less work: rounding in between may differ by one level.
    assert np.abs(found.astype(int) - expected.astype(int)).max() <= 1
    columns = seqloom_runtime.line_columns(image, 16)
    np.testing.assert_allclose(columns, pixels.line_from_array(image, height=16), atol=1.01 / 255)


@pytest.mark.parametrize("rates", [(16000, 8000), (8000, 16000), (44100, 16000), (8000, 8000)])
def test_sound_is_resampled_as_by_seqloom(rates: tuple[int, int]) -> None:
    samples = np.random.default_rng(3).normal(size=500).astype(np.float32)
    # Sums of 20 to 60 products in single precision, in another order.
    np.testing.assert_allclose(seqloom_runtime.resample(samples, *rates), resample(samples, *rates), atol=2e-6)


@pytest.mark.parametrize("subtype", ["PCM_U8", "PCM_16", "PCM_24", "PCM_32", "FLOAT", "DOUBLE"])
def test_wav_files(tmp_path: Path, subtype: str) -> None:
    stereo = np.random.default_rng(4).uniform(-0.9, 0.9, (300, 2))
    soundfile.write(tmp_path / "a.wav", stereo, 8000, subtype=subtype)
    samples, rate = seqloom_runtime.read_sound(tmp_path / "a.wav")
    expected = read_audio(tmp_path / "a.wav")
    assert rate == expected.rate == 8000
    np.testing.assert_allclose(samples, expected.samples, atol=1e-7)
    (tmp_path / "a.wav").write_bytes((tmp_path / "a.wav").read_bytes()[:30])
    with pytest.raises(seqloom_runtime.ModelError, match="no samples"):
        seqloom_runtime.read_sound(tmp_path / "a.wav")


FRAME_SEARCHES: list[dict[str, Any]] = [
    {"size": 3},
    {"size": 20, "nbest": 4},
    {"size": 20, "nbest": 3, "merge": "max", "threshold": 3.0},
    {"size": 20, "per_node": 2, "token_threshold": 0.1},
]


@pytest.mark.parametrize("settings", FRAME_SEARCHES)
def test_prefix_beam_of_seqloom(settings: dict[str, Any]) -> None:
    tables = torch.from_numpy(np.random.default_rng(5).normal(0, 2, (5, 25, 6))).log_softmax(dim=-1).float()
    lengths = torch.tensor([25, 13, 1, 0, 20])
    expected = PrefixBeam(**settings)(tables, lengths, blank=0)
    search = seqloom_runtime.PrefixBeam(settings)
    for table, length, transcripts in zip(tables.numpy(), lengths.tolist(), expected, strict=True):
        found = search(table[:length])
        assert [transcript.tokens for transcript in found] == [transcript.tokens for transcript in transcripts]
        assert [transcript.frames for transcript in found] == [transcript.frames for transcript in transcripts]
        np.testing.assert_allclose(
            [each.score for each in found], [each.score for each in transcripts], rtol=1e-9
        )  # both in double precision


@pytest.mark.parametrize(
    ("name", "searches"),
    [
        ("transcribe, attention", ["greedy", "beam size=4 nbest=3"]),
        ("transcribe, joint", ["greedy", "beam size=1", "beam size=4 nbest=4", "best_path", "prefix_beam nbest=2"]),
    ],
)
def test_transcripts_by_every_search(name: str, searches: list[str], tmp_path: Path) -> None:
    model = Exported(name, tmp_path)
    runtime: Any = seqloom_runtime.load(model.file)
    inputs = [*model.questions, [[0.3, -1.0, 0.5]] * 7]
    for search in searches:
        model.task = model.task.with_options(search=parse_search(search))
        runtime.search = model.task.search.model_dump(mode="json")
        expected = [without_references(model, answer) for answer in model.answers(inputs)]
        assert_same(runtime.predict(inputs), expected)


def test_searches_that_a_transcriber_cannot_do(tmp_path: Path) -> None:
    runtime: Any = seqloom_runtime.load(Exported("transcribe, attention", tmp_path).file)
    runtime.search = {"name": "best_path"}
    with pytest.raises(seqloom_runtime.ModelError, match="needs a model with CTC"):
        runtime.predict([[[0.0, 1.0, 0.0]]])
    with pytest.raises(seqloom_runtime.ModelError, match="lag of prefix_beam is for streams"):
        seqloom_runtime.PrefixBeam({"lag": 5})


def test_beam_search_needs_the_parts(tmp_path: Path) -> None:
    model = Exported("translate", tmp_path)
    (tmp_path / "model.step.onnx").unlink()
    runtime: Any = seqloom_runtime.load(model.file)
    runtime.search = {"name": "beam"}
    with pytest.raises(seqloom_runtime.ModelError, match=r"needs the files \.encoder\.onnx and \.step\.onnx"):
        runtime.predict(["a"])
    with pytest.raises(seqloom_runtime.ModelError, match="is a part of a model"):
        seqloom_runtime.load(tmp_path / "model.encoder.onnx")


def find_search(settings: dict[str, Any]) -> Any:
    return Greedy() if settings["name"] == "greedy" else Beam(**settings)


@pytest.fixture(scope="module")
def classifier(tmp_path_factory: pytest.TempPathFactory) -> Exported:
    return Exported("classify", tmp_path_factory.mktemp("classifier"))


def test_many_inputs_are_answered_in_order(classifier: Exported) -> None:
    runtime = seqloom_runtime.load(classifier.file)
    inputs = [" ".join(["high", "low"][: number % 3]) for number in range(2 * seqloom_runtime.BATCH + 3)]
    alone = {text: runtime.predict([text])[0] for text in set(inputs)}
    assert_same(runtime.predict(inputs), [alone[text] for text in inputs])


@pytest.mark.parametrize("position", [0, 100, -100, -70, -1])
def test_damaged_file_is_refused(classifier: Exported, tmp_path: Path, position: int) -> None:
    data = bytearray(classifier.file.read_bytes())
    data[position] ^= 1
    (tmp_path / "model.onnx").write_bytes(data)
    with pytest.raises(seqloom_runtime.ModelError, match="is damaged"):
        seqloom_runtime.load(tmp_path / "model.onnx")


def test_answers_to_empty_texts_have_a_warning(classifier: Exported) -> None:
    runtime = seqloom_runtime.load(classifier.file)
    empty, blank, known = runtime.predict(["", " \t", "up"])
    assert empty["warning"] == blank["warning"] == EMPTY_INPUT  # as Seqloom says
    assert "warning" not in known
    assert list(runtime.stream([""])) == [empty]


def test_wrong_inputs_are_refused(classifier: Exported) -> None:
    runtime = seqloom_runtime.load(classifier.file)
    with pytest.raises(seqloom_runtime.ModelError, match="expected a list of inputs, found one text"):
        runtime.predict("high")
    with pytest.raises(seqloom_runtime.ModelError, match="expected a text, found int"):
        runtime.predict([3])


def test_vectors_of_wrong_size_are_refused(tmp_path: Path) -> None:
    runtime = seqloom_runtime.load(Exported("classify, numbers", tmp_path).file)
    with pytest.raises(seqloom_runtime.ModelError, match=r"expected an array \(time, 2\), found one of shape \(1, 3\)"):
        runtime.predict([[[1.0, 2.0, 3.0]]])
    with pytest.raises(seqloom_runtime.ModelError, match="NaN"):
        runtime.predict([[[1.0, np.nan]]])


CHECK = "import runpy, sys; sys.argv = sys.argv[1:]; runpy.run_path(sys.argv[0], run_name='__main__')"


def test_command_without_torch_and_seqloom(classifier: Exported, tmp_path: Path) -> None:
    """A copy of the file alone answers lines as JSON; importing Seqloom, torch or pydantic fails."""
    script = tmp_path / "seqloom_runtime.py"
    script.write_bytes(Path(seqloom_runtime.__file__).read_bytes())
    blocked = "".join(f"sys.modules[{name!r}] = None; " for name in ("torch", "seqloom", "pydantic", "tokenizers"))
    command = [sys.executable, "-c", f"import sys; {blocked}{CHECK}", str(script), str(classifier.file)]
    result = subprocess.run(
        command, input="high over\nlow\n", capture_output=True, text=True, cwd=tmp_path, check=False
    )
    assert result.returncode == 0, result.stderr
    answers = [json.loads(line) for line in result.stdout.splitlines()]
    assert_same(answers, classifier.answers(["high over", "low"]))
    result = subprocess.run([*command[:-1], "missing.onnx"], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert (result.returncode, result.stderr) == (1, "seqloom_runtime: missing.onnx: No such file or directory\n")
    result = subprocess.run([*command[:-1], str(script)], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert result.returncode == 1
    assert "is damaged, or was not written by seqloom export" in result.stderr
