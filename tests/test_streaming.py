"""Transcription on the command line: streamed, guided by a lexicon and a language model, with its errors printed."""

import io
import json
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.contracts.tiny import RECURRENCE, WORDS, Case, _transcribe, _transcribe_sound, build
from typer.testing import CliRunner, Result

from seqloom.checkpoint import Snapshot
from seqloom.cli.main import app
from seqloom.data.readers.audio_files import Audio
from seqloom.data.readers.text_files import DataError
from seqloom.model import load
from seqloom.run import Run
from seqloom.streaming import transcribe_stream

ONE_WAY = {**RECURRENCE, "bidirectional": False}
ARPA = """
\\data\\
ngram 1=4
ngram 2=3

\\1-grams:
-0.5\t</s>
-99\t<s>\t-0.2
-0.6\ta\t-0.3
-0.8\tcab\t-0.1

\\2-grams:
-0.2\t<s> cab
-0.4\tcab a
-0.3\ta </s>

\\end\\
"""


def saved(case: Case, folder: Path) -> Path:
    """A run with random weights."""
    config = build(case, folder)
    task: Any = config.task.fit(config.task.read(folder / case.file))
    torch.manual_seed(5)
    module = task.build_model()
    module.output.weight.data *= 9  # further from chance
    run = Run.create(folder / "run", config=config.text(), learned=task.learned.model_dump_json(), environment={})
    run.save("best", Snapshot(module.state_dict(), {}, {}))
    return run.path


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    cases = {
        "stream": _transcribe_sound(encoder=ONE_WAY, normalize="streaming"),
        "both ways": _transcribe_sound(),
        "strokes": _transcribe(encoder=ONE_WAY),
    }
    found = {name: saved(case, tmp_path_factory.mktemp("stream")) for name, case in cases.items()}
    (found["strokes"].parent / "words.arpa").write_text(ARPA)
    return found


def call(*arguments: object, given: str | bytes | None = None) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments], input=given)


def sound() -> bytes:
    """Half a second and more of raw samples."""
    tones = [np.sin(np.arange(400) * pitch) for pitch in (1.2, 0.3, 1.2, 1.2, 0.3, 0.8)]
    return (np.concatenate(tones) * 20000).astype("<i2").tobytes()


def test_a_stream_says_what_the_whole_says(runs: dict[str, Path]) -> None:
    samples = np.frombuffer(sound(), "<i2").astype(np.float32) * np.float32(1 / 32768)
    (wanted,) = load(runs["stream"]).predict([Audio(samples, 4000)])
    assert wanted.text
    result = call("predict", runs["stream"], "-", "--stream", given=sound())
    assert (result.exit_code, result.stderr, result.stdout) == (0, "", f"{wanted.text}\n")
    beam = call("predict", runs["stream"], "-", "--stream", "--search", "prefix_beam size=20", given=sound())
    (wanted,) = load(runs["stream"], search="prefix_beam size=20").predict([Audio(samples, 4000)])
    assert beam.stdout == f"{wanted.text}\n"


def test_a_stream_decides_in_time(runs: dict[str, Path]) -> None:
    """A lag as long as the recording changes nothing; a short one makes text come earlier, the same as in one piece."""
    samples = np.frombuffer(sound(), "<i2").astype(np.float32) * np.float32(1 / 32768)
    model, told = load(runs["stream"], search="prefix_beam size=20"), {}
    for lag in (0.0, 0.05, 10.0):
        session = model.open_stream(lag=lag)
        certain = [session.feed(piece).text for piece in np.split(samples, 24)]
        told[lag] = [*certain, session.finish().text]
        assert all(after.startswith(before) for before, after in pairwise(told[lag]))
    assert told[10.0] == told[0.0]
    assert sum(map(len, told[0.05])) > sum(map(len, told[0.0]))
    frames = round(0.05 / model.task._unit)  # type: ignore[attr-defined]
    whole = load(runs["stream"], search=f"prefix_beam size=20 lag={frames}").predict([Audio(samples, 4000)])
    command = ["predict", runs["stream"], "-", "--stream", "--search", "prefix_beam size=20"]
    assert call(*command, "--lag", 0.05, given=sound()).stdout == f"{told[0.05][-1]}\n" == f"{whole[0].text}\n"
    assert call(*command, "--lag", 0, given=sound()).stdout == f"{told[0.0][-1]}\n"


def test_a_lag_below_zero_is_refused(runs: dict[str, Path]) -> None:
    for search in ("best_path", "prefix_beam"):
        with pytest.raises(ValueError, match=r"lag is -0\.001, wanted 0 or more"):
            load(runs["stream"], search=search).open_stream(lag=-0.001)


def test_a_stream_for_programs(runs: dict[str, Path]) -> None:
    result = call("predict", runs["stream"], "-", "--stream", "--json", given=sound())
    *before, last = map(json.loads, result.stdout.splitlines())
    assert before
    texts = [each["text"] for each in (*before, last)]
    assert all(after.startswith(text) for text, after in pairwise(texts))
    assert len(last["times"]) == len(last["symbols"])


def test_nothing_heard_is_an_empty_line(runs: dict[str, Path]) -> None:
    result = call("predict", runs["stream"], "-", "--stream", given=b"")
    assert (result.exit_code, result.stdout) == (0, "\n")


@pytest.mark.parametrize(
    ("run", "file", "given", "wanted"),
    [
        ("both ways", "-", b"", "encoder.bidirectional is true: such a model cannot stream"),
        ("strokes", "-", b"", "reads frames of 3 numbers; --stream needs a model that reads audio"),
        ("stream", "a.wav", b"", "--stream reads from standard input: give - instead of a.wav"),
        ("stream", "-", b"abc", "standard input: ends in the middle of a sample"),
    ],
)
def test_what_cannot_be_heard(run: str, file: str, given: bytes, wanted: str, runs: dict[str, Path]) -> None:
    result = call("predict", runs[run], file, "--stream", given=given)
    assert result.exit_code == 1
    assert wanted in result.stderr


def test_one_file_of_sound_is_transcribed_and_explained(runs: dict[str, Path], tmp_path: Path) -> None:
    soundfile = pytest.importorskip("soundfile")
    soundfile.write(tmp_path / "a.wav", np.frombuffer(sound(), "<i2"), 4000)
    result = call("predict", runs["stream"], tmp_path / "a.wav")
    assert (result.exit_code, result.stdout) == (0, call("predict", runs["stream"], "--stream", given=sound()).stdout)
    told = call("explain", runs["stream"], tmp_path / "a.wav", "--output", tmp_path, "--gates", "--beam")
    assert (told.exit_code, told.stderr) == (0, "")
    assert told.stdout.startswith(f"a.wav → {result.stdout.strip()[:1]}")
    assert "╵0.00 s" in told.stdout
    assert (tmp_path / "ctc.png").read_bytes().startswith(b"\x89PNG")
    assert list(tmp_path.glob("gates-*.png"))


def test_words_guide_a_transcript(runs: dict[str, Path]) -> None:
    run = runs["strokes"]
    test, words = run.parent / "dev-t.jsonl", run.parent / "words.txt"
    free = call("predict", run, test)
    bound = call("predict", run, test, "--lexicon", words)
    assert (bound.exit_code, bound.stderr) == (0, "")
    assert set(bound.stdout.split()) <= set(WORDS)
    assert not set(free.stdout.split()) <= set(WORDS)
    language = f"{run.parent / 'words.arpa'} weight=2 word_score=1 unk_score=-3"
    fluent = call("predict", run, test, "--lexicon", words, "--lm", language, "--json")
    assert fluent.exit_code == 0, fluent.stderr
    for line in fluent.stdout.splitlines():
        found = json.loads(line)
        unknown = sum(word not in ("a", "cab") for word in found["words"])
        wanted = found["acoustic"] + 2 * found["language"] + len(found["words"]) - 3 * unknown
        assert found["score"] == pytest.approx(wanted)


def test_errors_are_printed(runs: dict[str, Path], tmp_path: Path) -> None:
    run = runs["strokes"]
    test, words = run.parent / "dev-t.jsonl", run.parent / "words.txt"
    result = call("evaluate", run, test, "--lexicon", words)
    assert (result.exit_code, result.stderr) == (0, "")
    scores = json.loads(call("evaluate", run, test, "--lexicon", words, "--json").stdout)
    assert scores["worst"][0] in result.stdout
    counts = scores["cer_errors"]
    assert f"{counts['substitutions']} replaced, {counts['insertions']} put in" in result.stdout
    told = call("explain", run, test, "--lexicon", words, "--json", "--output", tmp_path)
    found = json.loads(told.stdout)
    assert set(found["prediction"]["words"]) <= set(WORDS)
    assert found["plots"] == [str(tmp_path / "ctc.png")]


@pytest.mark.parametrize("option", [["--lexicon", "none.txt"], ["--lm", "none.arpa"], ["--lm", "weight=1"]])
def test_guides_that_are_not_there(option: list[str], runs: dict[str, Path]) -> None:
    result = call("predict", runs["strokes"], runs["strokes"].parent / "dev-t.jsonl", *option)
    if option[1] == "weight=1":
        assert result.exit_code == 0  # there is none to weigh
        return
    assert result.exit_code == 1
    assert option[1] in result.stderr
    assert "Traceback" not in result.output


def test_without_soundfile(runs: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.wav").write_bytes(b"RIFF" + bytes(40))  # what is wrong with it is not seen
    monkeypatch.setitem(sys.modules, "soundfile", None)
    result = call("predict", runs["stream"], tmp_path / "a.wav")
    assert result.exit_code == 1
    assert "seqloom[audio]" in result.stderr


class Interrupted(io.BytesIO):
    """A microphone until somebody presses Ctrl-C."""

    def read1(self, size: int | None = -1, /) -> bytes:
        if data := super().read1(size):
            return data
        raise KeyboardInterrupt


def test_what_was_heard_before_the_end_is_told(runs: dict[str, Path]) -> None:
    model = load(runs["stream"])
    samples = (np.sin(np.arange(4000) / 5) * 9000).astype("<i2").tobytes()
    wanted = "".join(transcribe_stream(model, io.BytesIO(samples)))
    found: list[str] = []
    with pytest.raises(KeyboardInterrupt):
        found.extend(transcribe_stream(model, Interrupted(samples)))
    assert "".join(found) == wanted
    found = []
    with pytest.raises(DataError, match="ends in the middle of a sample"):
        found.extend(transcribe_stream(model, io.BytesIO(samples + b"x")))
    assert "".join(found) == wanted
