"""seqloom_runtime: the answers of Seqloom, without it."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.contracts import tiny
from tests.contracts.registry import randomize
from tests.contracts.test_export import EXPORTED

import seqloom_runtime
from seqloom.data.text.tokenizers import TextConfig, Tokenizer
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


class Exported:
    """A model with random weights, and the file that it is exported to."""

    def __init__(self, name: str, folder: Path) -> None:
        case = tiny.CASES[name]
        task: Any = tiny.build(case, folder).task
        self.task = task.fit(task.read(folder / case.file))
        self.module = self.task.build_model().eval()
        randomize(self.module, dtype=torch.float32)
        self.questions = list(case.questions)
        self.file = folder / "model.onnx"
        with torch.no_grad():
            model = self.task.onnx_model(self.module)
            exported.write(model, self.file, [list(task.read(folder / case.file))[:4]], metadata={}, runtime=True)

    def answers(self, inputs: list[Any]) -> list[dict[str, Any]]:
        examples = list(self.task.read_inputs(inputs))
        with torch.no_grad():
            answers = self.task.predict(self.module, self.task.collate(examples)).answers
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


@pytest.mark.parametrize("name", [name for name in EXPORTED if not name.startswith("translate")])
def test_answers_of_every_task(name: str, tmp_path: Path) -> None:
    model = Exported(name, tmp_path)
    inputs = model.questions
    answers = seqloom_runtime.load(model.file).predict(inputs)
    expected = model.answers(inputs)
    for answer in expected:  # what only Seqloom knows: time stamps, and the observed values
        for key in ("times", "truth", "warning"):
            answer.pop(key, None)
    assert_same(answers, expected)


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
        assert "".join(runtime.generate(prompt, length=40, **options)) == text


SEARCHES: list[dict[str, Any]] = [
    {"name": "greedy"},
    {"name": "beam", "size": 1},
    {"name": "beam", "size": 4, "nbest": 3},
    {"name": "beam", "size": 5, "nbest": 5, "length_penalty": "gnmt", "alpha": 0.6, "min_length": 3},
    {"name": "beam", "size": 4, "nbest": 2, "length_penalty": "none", "no_repeat_ngram": 2, "threshold": 2.0},
    {"name": "beam", "size": 6, "per_node": 2, "patience": 0.5},
]


@pytest.mark.parametrize(
    "name", [name for name, case in tiny.CASES.items() if case.name == "translate" and "vectors" not in name]
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
