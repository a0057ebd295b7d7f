"""Runs that are damaged or malicious, but well signed: an answer or a sentence, and nothing large is allocated."""

import json
import math
import os
import random
import re
import shutil
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
import tomli_w
import torch
from PIL import Image
from tests import fuzzing
from tests.contracts import tiny

from seqloom import checkpoint, info, model, terminal
from seqloom.checkpoint import RunError
from seqloom.config import ConfigError
from seqloom.data.readers import file_lists
from seqloom.data.readers.audio_files import read_audio
from seqloom.data.readers.text_files import DataError, Location, resolve
from seqloom.model import Model
from seqloom.run import Run
from seqloom.run_config import load_config
from seqloom.run_summary import changed_settings
from seqloom.warm_start import WarmStart
from seqloom.workflow import resume, train

NAMES = [
    *("embed", "tag, crf", "tag, hmm", "classify, subwords", "language_model, ngram", "language_model, unigram"),
    *("translate, beam", "translate, hybrid", "caption", "transcribe, beam", "transcribe, audio", "forecast"),
]


@pytest.fixture(scope="module")
def seeds(tmp_path_factory: pytest.TempPathFactory) -> dict[str, fuzzing.Seed]:
    folder = tmp_path_factory.mktemp("seeds")
    return {name: fuzzing.make_run(name, folder / str(number)) for number, name in enumerate(NAMES)}


Change = Callable[[Any], object]


def damaged(seed: fuzzing.Seed, path: Path, *, config: Change | None = None, learned: Change | None = None) -> Path:
    """A copy of a run with another configuration or vocabulary, signed again."""
    shutil.copytree(seed.path, path)
    if config:
        values = tomllib.loads((path / "config.toml").read_text())
        config(values["task"])
        (path / "config.toml").write_text(tomli_w.dumps(values))
    if learned:
        values = json.loads((path / "learned.json").read_text())
        learned(values)
        (path / "learned.json").write_text(json.dumps(values))
    fuzzing.sign(path)
    return path


def exactly(location: Path, message: str) -> str:
    """The pattern of a whole message."""
    return f"^{re.escape(f'{location}: {message}')}$"


def setter(dotted: str, value: Any) -> Change:
    def change(values: Any) -> None:
        *path, last = dotted.split(".")
        for step in path:
            values = values[step]
        values[last] = value

    return change


@pytest.mark.parametrize(("name", "key"), [("translate, beam", "encoder.hidden_size"), ("embed", "vector_size")])
def test_sizes_beyond_the_weights_are_refused(
    seeds: dict[str, fuzzing.Seed], tmp_path: Path, name: str, key: str
) -> None:
    path = damaged(seeds[name], tmp_path / "run", config=setter(key, 10**7))
    message = "the weights do not fit the configuration: the configuration describes a larger model"
    with pytest.raises(RunError, match=exactly(path, message)):
        model.load(path)


def test_a_learned_size_beyond_the_weights_is_refused(seeds: dict[str, fuzzing.Seed], tmp_path: Path) -> None:
    """It took minutes before: a list of so many numbers was made."""
    path = damaged(
        seeds["transcribe, audio"],
        tmp_path / "run",
        config=setter("normalize", "utterance"),
        learned=lambda values: values["statistics"].update(size=10**7, mean=[], deviation=[]),
    )
    message = "the weights do not fit the configuration: the configuration describes a larger model"
    outcome = fuzzing.use(path, seeds["transcribe, audio"].questions)
    assert (outcome.kind, outcome.text) == ("error", f"{path}: {message}")


@pytest.mark.parametrize(
    ("name", "key", "value", "most"),
    [
        ("translate, beam", "decoder.layers", 10**7, 1000),
        ("tag, crf", "encoder.layers", 2**62, 1000),
        ("transcribe, beam", "search.size", 10**9, 100_000),
        ("transcribe, beam", "search.nbest", 10**9, 100_000),
        ("transcribe, audio", "audio.sample_rate", 10**12, 1_000_000),
        ("transcribe, audio", "audio.window", 1e9, 1),
        ("forecast", "horizon", 10**9, 100_000),
        ("caption", "image_encoder.layers", 10**9, 20),
        ("caption", "max_length", 10**9, 10_000),
        ("caption", "image_size", 10**6, 4096),
    ],
)
def test_settings_have_limits(
    seeds: dict[str, fuzzing.Seed], tmp_path: Path, name: str, key: str, value: Any, most: int
) -> None:
    path = damaged(seeds[name], tmp_path / "run", config=setter(key, value))
    message = rf"config\.toml:\d+: task\.{key}: expected a number less than or equal to {most}, got {value}$"
    with pytest.raises(ConfigError, match=message):
        model.load(path)


def test_no_use_of_a_run_allocates_more_than_its_weights(seeds: dict[str, fuzzing.Seed], tmp_path: Path) -> None:
    path = damaged(seeds["tag, crf"], tmp_path / "info", config=setter("encoder.hidden_size", 10**5))
    with pytest.raises(
        RunError, match=r"the weights do not fit the configuration: the configuration describes a larger model$"
    ):
        info.describe_run(path)
    more = {"labels": {"names": [str(number) for number in range(5000)]}, "weights": [1.0] * 5000}
    path = damaged(seeds["classify, subwords"], tmp_path / "from", learned=lambda values: values.update(more))
    run = Run.open(path)
    config = load_config(run)
    with pytest.raises(RunError, match=r"the weights do not fit the configuration: .*expected the shape \(5000,"):
        WarmStart(run, config).adapt(config.task)


@pytest.mark.parametrize("value", [{"chunks": 10**9}, {"shapes": {"units": [10**9, 3]}}, {"shapes": {}}])
def test_tables_are_no_larger_than_the_weights(
    seeds: dict[str, fuzzing.Seed], tmp_path: Path, value: dict[str, Any]
) -> None:
    path = damaged(seeds["translate, hybrid"], tmp_path / "run", learned=lambda values: values["tables"].update(value))
    with pytest.raises(RunError, match=r"the weights do not fit the configuration|the model cannot be built"):
        model.load(path)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"examples": {"train": "x"}}, "examples.train"),
        ({"seconds": 1e999}, "seconds"),
        ({"settings": 7}, "settings"),
        ({"baseline_scores": {"accuracy": None}}, "baseline_scores.accuracy"),
    ],
)
def test_damaged_summaries_are_named(
    seeds: dict[str, fuzzing.Seed], tmp_path: Path, values: dict[str, Any], message: str
) -> None:
    path = damaged(seeds["embed"], tmp_path / "run")
    Run.open(path).write_summary(values)
    with pytest.raises(RunError, match=rf"summary\.json: {message}: Input should be"):
        info.describe_run(path)


def test_info_does_not_open_the_training_file(
    seeds: dict[str, fuzzing.Seed], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "secret.txt").write_text("a b\n" * 100)
    path = damaged(seeds["classify, subwords"], tmp_path / "run", config=setter("train", str(tmp_path / "secret.txt")))
    opened, open_path = [], Path.open

    def watched(file: Path, *arguments: Any, **options: Any) -> Any:
        opened.append(file.name)
        return open_path(file, *arguments, **options)

    monkeypatch.setattr(Path, "open", watched)
    changed_settings(load_config(Run.open(path)))
    assert "secret.txt" in opened  # a training does read it
    opened.clear()
    info.describe_run(path)
    assert "secret.txt" not in opened


@pytest.mark.parametrize(
    ("name", "key", "value", "message"),
    [
        ("embed", "counts", [[1, 7 * 10**8]], "counts: expected the occurrences of 5 words"),
        ("embed", "pairs", [[0, 1, 10**6]], "a phrase contains an id that is no word, expected ids from 0 to 4"),
        (
            *("transcribe, audio", "statistics.rate", 10**12),
            "statistics.rate: Input should be less than or equal to 1000000",
        ),
        (
            *("transcribe, beam", "statistics.deviation", [0.0, 1.0, 1.0]),
            "statistics: expected finite means and positive, finite standard deviations",
        ),
        ("caption", "signal.mean", [], "signal: expected as many means as standard deviations, found 0 and 3"),
        ("caption", "length_limit", 10**9, "length_limit: Input should be less than or equal to 10000"),
        ("forecast", "means", [0.0], "expected as many means as standard deviations, found 1 and 2"),
        ("tag, crf", "pairs", [["", "X"]], "pairs: 'X' is not a label"),
        ("tag, crf", "counts", [1], "counts: expected a number for each word"),
        ("classify, subwords", "weights", [1.0], "weights: expected one for each of 2 labels, found 1"),
    ],
)
def test_learned_values_that_contradict_each_other_are_refused(
    seeds: dict[str, fuzzing.Seed], tmp_path: Path, name: str, key: str, value: Any, message: str
) -> None:
    path = damaged(seeds[name], tmp_path / "run", learned=setter(key, value))
    task = name.partition(",")[0]
    with pytest.raises(RunError, match=exactly(path / "learned.json", f"does not fit the task {task} ({message})")):
        model.load(path)


def test_scales_of_other_targets_are_refused(seeds: dict[str, fuzzing.Seed], tmp_path: Path) -> None:
    path = damaged(seeds["forecast"], tmp_path / "run", learned=setter("horizon_changes", [[1.0, 1.0]] * 4))
    message = (
        "the model cannot be built from this configuration: expected the changes of 2 targets in 2 steps, found (4, 2)"
    )
    with pytest.raises(RunError, match=exactly(path, message)):
        model.load(path)


PADDING = {"strategy": {"Fixed": 10**9}, "direction": "Right", "pad_id": 0, "pad_type_id": 0, "pad_token": "x"}
REPLACE = {"type": "Replace", "pattern": {"String": "a"}, "content": "aaaa"}


KINDS = {
    "normalizer": ("", "Sequence"),
    "decoder": ("ByteLevel", "Metaspace"),
    "pre_tokenizer": ("ByteLevel", "Metaspace"),
}
BPE, UNIGRAM = "classify, subwords", "language_model, unigram"


@pytest.mark.parametrize("name", [BPE, UNIGRAM])
@pytest.mark.parametrize(
    ("part", "value", "message"),
    [
        ("padding", {**PADDING, "pad_to_multiple_of": None}, "the tokenizer has padding, which Seqloom does not write"),
        ("normalizer", REPLACE, "the normalizer of the tokenizer is 'Replace', expected '{kind}'"),
        ("decoder", REPLACE, "the decoder of the tokenizer is 'Replace', expected '{kind}'"),
        ("pre_tokenizer", None, "the pre_tokenizer of the tokenizer is '', expected '{kind}'"),
        (
            *("post_processor", {"type": "ByteLevel"}),
            "the tokenizer has post_processor, which Seqloom does not write",
        ),
        (
            *("added_tokens", [{"id": 0, "content": "x"}]),
            "the tokenizer has added_tokens, which Seqloom does not write",
        ),
        ("model", {}, "the tokenizer is of type 'None', expected BPE or Unigram"),
        ("model", None, "the tokenizer has no model"),
    ],
)
def test_tokenizers_other_than_ours_are_refused(
    seeds: dict[str, fuzzing.Seed], tmp_path: Path, name: str, part: str, value: Any, message: str
) -> None:
    kind = KINDS[part][name == UNIGRAM] if part in KINDS else ""
    check_tokenizer(seeds[name], tmp_path / "run", {part: value}, message.format(kind=kind))


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        (
            BPE,
            {"type": "BPE", "vocab": {"a": 7}, "merges": []},
            "expected the ids 0 to 0 for the pieces of the tokenizer",
        ),
        (
            *(UNIGRAM, {"type": "Unigram", "unk_id": 0, "vocab": [["a", math.nan]]}),
            "expected <unk> as the first piece of the tokenizer, and finite scores",
        ),
        (
            *(BPE, {"type": "Unigram", "unk_id": 0, "vocab": [["<unk>", 0.0]]}),
            "the pre_tokenizer of the tokenizer is 'ByteLevel', expected 'Metaspace'",
        ),
    ],
)
def test_damaged_pieces_are_refused(
    seeds: dict[str, fuzzing.Seed], tmp_path: Path, name: str, changes: dict[str, Any], message: str
) -> None:
    check_tokenizer(seeds[name], tmp_path / "run", {"model": changes}, message)


def check_tokenizer(seed: fuzzing.Seed, path: Path, changes: dict[str, Any], message: str) -> None:
    def change(values: Any) -> None:
        values["text"]["tokenizer"] = json.dumps(json.loads(values["text"]["tokenizer"]) | changes)

    damaged(seed, path, learned=change)
    task = seed.name.partition(",")[0]
    expected = f"does not fit the task {task} (text: {message})"
    with pytest.raises(RunError, match=exactly(path / "learned.json", expected)):
        model.load(path)


def test_replacements_within_a_normalizer_are_not_used(seeds: dict[str, fuzzing.Seed], tmp_path: Path) -> None:
    def change(values: Any) -> None:
        tokenizer = json.loads(values["text"]["tokenizer"])
        tokenizer["normalizer"]["normalizers"] = [REPLACE] * 40  # 4 to the power of 40 letters
        values["text"]["tokenizer"] = json.dumps(tokenizer)

    seed = seeds["language_model, unigram"]
    path = damaged(seed, tmp_path / "run", learned=change)
    assert model.load(path).predict(["a a"]) == model.load(seed.path).predict(["a a"])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda tensors: tensors.popitem(), "is missing"),
        (lambda tensors: tensors.update(x=torch.zeros(1)), "x is unknown"),
        (lambda tensors: tensors.update({name: tensor[:0] for name, tensor in tensors.items()}), "expected the shape"),
        (lambda tensors: tensors.update({name: tensor.long() for name, tensor in tensors.items()}), "found int64"),
    ],
)
@pytest.mark.parametrize("name", ["classify, subwords", "embed"])
def test_missing_unknown_and_misshapen_tensors_are_named(
    seeds: dict[str, fuzzing.Seed], tmp_path: Path, name: str, change: Change, message: str
) -> None:
    path = tmp_path / "run"
    shutil.copytree(seeds[name].path, path)
    file = path / "best" / "model.safetensors"
    tensors = checkpoint.read_tensors(file)
    change(tensors)
    file.unlink()
    checkpoint.write_tensors(file, tensors)
    fuzzing.sign(path)
    with pytest.raises(RunError, match=f"the weights do not fit the configuration: .*{message}"):
        model.load(path)


@pytest.mark.parametrize(
    ("tensors", "message"),
    [
        ({"a": ([2], 0, 8), "b": ([2], 4, 12)}, "invalid offset for tensor `b`"),
        ({"a": ([3], 0, 12), "b": ([3], 0, 12)}, "invalid offset for tensor"),
        ({"a": ([1], 0, 4), "b": ([1], 8, 12)}, "invalid offset for tensor `b`"),
        ({"a": ([3], 12, 0)}, "invalid offset for tensor `a`"),
        ({"a": ([100], 0, 400)}, "file not fully covered"),
        ({"a": ([5], 0, 12)}, "invalid shape, data type, or offset"),
        ({"a": ([2**62, 4], 0, 12)}, "overflow"),
    ],
)
def test_tensors_that_overlap_or_leave_the_file_are_refused(
    tmp_path: Path, tensors: dict[str, tuple[list[int], int, int]], message: str
) -> None:
    path = tmp_path / "model.safetensors"
    header = {
        name: {"dtype": "F32", "shape": shape, "data_offsets": [start, end]}
        for name, (shape, start, end) in tensors.items()
    }
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + bytes(12))
    with pytest.raises(RunError, match=rf"model\.safetensors: not a readable safetensors file: .*{message}"):
        checkpoint.read_tensors(path)


@pytest.mark.parametrize("name", [name for name in NAMES if name != "transcribe, beam"])  # compiles for long
def test_fuzzed_runs_give_an_answer_or_a_sentence(seeds: dict[str, fuzzing.Seed], tmp_path: Path, name: str) -> None:
    """A small share of scripts/fuzz, in this process."""
    seed, path = seeds[name], tmp_path / "run"
    assert fuzzing.use(seed.path, seed.questions).kind == "answer"
    for number in range(12):
        shutil.rmtree(path, ignore_errors=True)
        shutil.copytree(seed.path, path)
        fuzzing.mutate(random.Random(number), path)  # noqa: S311  no secret
        fuzzing.sign(path)
        outcome = fuzzing.use(path, seed.questions)
        assert outcome.kind in ("answer", "error"), (number, outcome.text)


# Paths in a configuration


@pytest.mark.parametrize(
    ("name", "key", "value"),
    [
        ("translate, beam", "constrain", "/dev/zero"),
        ("translate, beam", "constrain", "-"),
        ("transcribe, beam", "lexicon", "{fifo}"),
        ("transcribe, beam", "lm.model", "$SECRET_TOKEN"),
    ],
)
def test_files_that_a_run_names_are_not_opened(
    seeds: dict[str, fuzzing.Seed], tmp_path: Path, name: str, key: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET_TOKEN", "hunter2")
    if value == "{fifo}":
        os.mkfifo(tmp_path / "fifo")
        value = str(tmp_path / "fifo")
    path = damaged(seeds[name], tmp_path / "run", config=setter(key, value))
    option = key.partition(".")[0]
    with pytest.raises(RunError, match=f"which is not opened.*--{option}") as refused:
        model.load(path)
    assert "hunter2" not in str(refused.value)


def test_files_named_again_are_opened(seeds: dict[str, fuzzing.Seed], tmp_path: Path) -> None:
    allowed = tmp_path / "allowed.txt"
    allowed.write_text("A\nB\n")
    path = damaged(seeds["translate, beam"], tmp_path / "run", config=setter("constrain", str(allowed)))
    expected = {"A", "B"}
    assert {answer.text for answer in model.load(path, constrain=str(allowed)).predict(["a"])} <= expected
    assert {answer.text for answer in model.load(path, own_files=True).predict(["a"])} <= expected


@pytest.mark.parametrize(("name", "field"), [("caption", "images"), ("transcribe, audio", "folder")])
def test_folders_that_a_run_names_are_not_opened(
    seeds: dict[str, fuzzing.Seed], tmp_path: Path, name: str, field: str
) -> None:
    secret, listed = tmp_path / "secret", tmp_path / "list.tsv"
    secret.mkdir()
    file = secret / ("a.png" if name == "caption" else "a.wav")
    if name == "caption":
        Image.fromarray(np.zeros((8, 8, 3), np.uint8)).save(file)
    else:
        soundfile.write(file, np.sin(np.arange(900)), 8000)
    listed.write_text(f"{file.name}\tx\n")
    changes = {field: str(secret), "format": "auto"}
    path = damaged(seeds[name], tmp_path / "run", config=lambda values: values.update(changes))
    for use in (Model.predict, Model.evaluate):
        with pytest.raises(DataError, match=rf"run: .*\(task\.{field}\), which is not opened.*--folder"):
            use(model.load(path), listed)
    assert len(model.load(path, folder=str(secret)).predict(listed)) == 1
    shutil.copy(file, tmp_path)
    assert len(model.load(path).predict(listed)) == 1  # beside the list


def test_captions_that_a_run_names_are_not_opened(seeds: dict[str, fuzzing.Seed], tmp_path: Path) -> None:
    captions, listed = tmp_path / "captions.tsv", tmp_path / "list.txt"
    captions.write_text("a.png\tred\n")
    listed.write_text("a.png\n")
    Image.fromarray(np.zeros((8, 8, 3), np.uint8)).save(tmp_path / "a.png")
    path = damaged(seeds["caption"], tmp_path / "run", config=setter("captions", str(captions)))
    assert len(model.load(path).predict(listed)) == 1
    with pytest.raises(DataError, match=r"\(task\.captions\), which is not opened.*--captions"):
        model.load(path).evaluate(listed)
    assert model.load(path, captions=str(captions)).evaluate(listed)["captions"] == 1


@pytest.mark.parametrize("value", ["/dev/zero", "-", "{fifo}"])
def test_a_run_that_names_no_regular_file_is_not_resumed(
    seeds: dict[str, fuzzing.Seed], tmp_path: Path, value: str
) -> None:
    if value == "{fifo}":
        os.mkfifo(tmp_path / "fifo")
        value = str(tmp_path / "fifo")
    path = damaged(seeds["embed"], tmp_path / "run", config=setter("train", value))
    with pytest.raises(RunError, match=r"expected a file or a folder; .* cannot be resumed with other data$"):
        resume(path)


def test_the_value_of_a_variable_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_TOKEN", "hunter2")
    with pytest.raises(DataError, match=r"\$SECRET_TOKEN/x: no such file") as refused:
        resolve("$SECRET_TOKEN/x")
    assert "hunter2" not in str(refused.value)


def test_lists_name_regular_files_only(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "secret").write_text("hunter2")
    names = [(Location("list.tsv", 1), "fifo")]
    with pytest.raises(DataError, match=r"list\.tsv:1: file .*fifo: expected a regular file"):
        list(file_lists.load(names, lambda stream, _: stream.read(), folder=tmp_path))
    with pytest.raises(
        DataError, match=r"expected a WAV, FLAC, Ogg, MP3, AIFF or SPHERE file, found another format$"
    ) as refused:
        read_audio(tmp_path / "secret")
    assert "hunter2"[:4] not in str(refused.value)


def test_terminal_escapes_in_labels_are_shown(
    seeds: dict[str, fuzzing.Seed], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = ["\x1b]0;title\x07down", "\x9b2Jup"]
    path = damaged(seeds["classify, subwords"], tmp_path / "run", learned=setter("labels.names", names))
    answers = model.load(path).predict(["low below"])
    terminal.print_lines(*map(str, answers))
    terminal.print_json({"label": names})
    terminal.table(["label"], [[name] for name in names])
    printed = capsys.readouterr().out
    assert not set(printed) & set("\x1b\x07\x9b")
    assert r"\x1b]0;title\x07" in printed
    assert json.loads(terminal.json_line(names)) == names


# Resuming


@pytest.fixture(scope="module")
def interrupted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose training can be resumed."""
    folder = tmp_path_factory.mktemp("interrupted")
    config = tiny.build(tiny.CASES["classify"], folder, epochs=1)
    return train(config, output=folder / "run", plots=False).path


def _facts(change: Change) -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        path = folder / "training.json"
        values = json.loads(path.read_text())
        values = change(values) or values
        path.write_text(json.dumps(values))

    return write


def _training(change: Change) -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        path = folder / "training.safetensors"
        tensors = checkpoint.read_tensors(path)
        change(tensors)
        path.unlink()
        checkpoint.write_tensors(path, tensors)

    return write


@pytest.mark.parametrize(
    ("write", "message"),
    [
        (_facts(dict.clear), "position.epoch is missing"),
        (_facts(setter("position", [0, 0, 0, 0])), "position.epoch is missing"),
        (_facts(lambda facts: facts["position"].pop("batch")), "position.batch is missing"),
        (_facts(setter("position.update", "x")), "position.update: Input should be a valid integer"),
        (_facts(setter("position.batch", -1)), "position.batch is negative"),
        (_facts(setter("position.unknown", 1)), "position.unknown: Extra inputs are not permitted"),
        (_facts(setter("rows", None)), "rows: expected a number"),
        (_facts(setter("seconds", [])), "seconds: expected a number"),
        (_training(dict.clear), "rank.0.random: missing or no random state"),
        (_training(setter("rank", torch.zeros(1))), "rank: unknown"),
        (
            _training(lambda tensors: tensors.update({"rank.0.random": torch.zeros(3)})),
            "rank.0.random: missing or no random state",
        ),
        (
            _training(lambda tensors: tensors.update({"optimizer.0.exp_avg": torch.zeros(3)})),
            "optimizer.0.exp_avg: fits no parameter",
        ),
        (
            _training(lambda tensors: tensors.update({"optimizer.99.exp_avg": torch.zeros(3)})),
            "optimizer.99.exp_avg: fits no parameter",
        ),
        (_training(lambda tensors: tensors.pop("optimizer.0.exp_avg")), "optimizer.0: incomplete"),
        (
            _training(lambda tensors: tensors.update({"weights.0.x": torch.zeros(3)})),
            "weights.0.x: fits no weights of the model",
        ),
    ],
)
def test_damaged_training_states_are_named(
    interrupted: Path, tmp_path: Path, write: Callable[[Path], None], message: str
) -> None:
    path = tmp_path / "run"
    shutil.copytree(interrupted, path)
    shutil.rmtree(path / "last.previous", ignore_errors=True)
    write(path / "last")
    (path / "last" / checkpoint.MANIFEST).unlink()
    checkpoint.write_manifest(path / "last", checkpoint.FILES)
    with pytest.raises(RunError, match=f"^the last checkpoint cannot be resumed: {re.escape(message)}"):
        resume(path, ["train.epochs=2"])
