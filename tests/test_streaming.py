"""Transcription on the command line: streamed, guided by a lexicon and a language model, with its errors printed."""

import io
import json
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from tests.contracts.tiny import RECURRENCE, WORDS, _transcribe, _transcribe_sound, save_random
from typer.testing import CliRunner, Result

from seqloom.cli.main import app
from seqloom.data.readers.audio_files import Audio
from seqloom.data.readers.text_files import DataError
from seqloom.model import load
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


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    cases = {
        "stream": _transcribe_sound(encoder=ONE_WAY, normalize="streaming"),
        "both ways": _transcribe_sound(),
        "strokes": _transcribe(encoder=ONE_WAY),
    }
    result = {name: save_random(case, tmp_path_factory.mktemp("stream")) for name, case in cases.items()}
    (result["strokes"].parent / "words.arpa").write_text(ARPA)
    return result


def call(*arguments: object, given: str | bytes | None = None) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments], input=given)


def sound() -> bytes:
    """Half a second and more of raw samples."""
    tones = [np.sin(np.arange(400) * pitch) for pitch in (1.2, 0.3, 1.2, 1.2, 0.3, 0.8)]
    return (np.concatenate(tones) * 20000).astype("<i2").tobytes()


def test_a_stream_gives_the_same_transcript_as_the_file(runs: dict[str, Path]) -> None:
    samples = np.frombuffer(sound(), "<i2").astype(np.float32) * np.float32(1 / 32768)
    (expected,) = load(runs["stream"]).predict([Audio(samples, 4000)])
    assert expected.text
    result = call("predict", runs["stream"], "-", "--stream", given=sound())
    note = "note: raw little-endian 16-bit samples, mono, 4000 Hz\n"
    assert (result.exit_code, result.stderr, result.stdout) == (0, note, f"{expected.text}\n")
    beam = call("predict", runs["stream"], "-", "--stream", "--search", "prefix_beam size=20", given=sound())
    (expected,) = load(runs["stream"], search="prefix_beam size=20").predict([Audio(samples, 4000)])
    assert beam.stdout == f"{expected.text}\n"


def test_a_wav_stream_and_raw_samples_of_another_rate(runs: dict[str, Path]) -> None:
    soundfile = pytest.importorskip("soundfile")
    samples = np.frombuffer(sound(), "<i2").repeat(2)  # 8000 Hz
    file = io.BytesIO()
    soundfile.write(file, np.stack([samples, samples], axis=1), 8000, format="WAV")
    (expected,) = load(runs["stream"]).predict([Audio(samples, 8000)])
    result = call("predict", runs["stream"], "--stream", given=file.getvalue())
    assert (result.exit_code, result.stdout) == (0, f"{expected.text}\n")
    assert result.stderr == "note: WAV 16-bit samples, 2 channels, averaged, 8000 Hz, resampled to 4000 Hz\n"
    raw = call("predict", runs["stream"], "--stream", "--rate", 8000, given=samples.tobytes())
    assert (raw.exit_code, raw.stdout) == (0, f"{expected.text}\n")
    refused = call("predict", runs["stream"], "--rate", 8000, given="a.wav\n")
    assert refused.exit_code == 1
    assert "--rate is the sample rate of raw audio for --stream" in refused.stderr


def test_integers_are_scaled_in_a_stream_as_in_a_prediction(runs: dict[str, Path]) -> None:
    model, samples = load(runs["stream"]), np.frombuffer(sound(), "<i2")
    (expected,) = model.predict([Audio(samples, 4000)])
    session = model.open_stream()
    session.feed(samples[:1000])
    session.feed(samples[1000:])
    answer = session.finish()
    assert answer.text == expected.text
    assert answer.score == pytest.approx(expected.score, rel=1e-5)


def test_several_files_are_answered_with_their_names(runs: dict[str, Path], tmp_path: Path) -> None:
    soundfile = pytest.importorskip("soundfile")
    for name, start in (("a.wav", 0), ("b.wav", 400)):
        soundfile.write(tmp_path / name, np.frombuffer(sound(), "<i2")[start:], 4000)
    files = [tmp_path / "a.wav", tmp_path / "b.wav"]
    alone = [call("predict", runs["stream"], file).stdout.strip() for file in files]
    result = call("predict", runs["stream"], *files)
    assert result.exit_code == 0
    assert result.stdout.splitlines() == [f"{file}\t{text}" for file, text in zip(files, alone, strict=True)]
    lines = call("predict", runs["stream"], *files, "--json").stdout.splitlines()
    assert [json.loads(line)["file"] for line in lines] == list(map(str, files))


def test_the_n_best_are_printed(runs: dict[str, Path]) -> None:
    run = runs["strokes"]
    options = ["predict", run, run.parent / "dev-t.jsonl", "--search", "prefix_beam nbest=3"]
    blocks = call(*options).stdout.split("\n\n")
    answers = [json.loads(line)["nbest"] for line in call(*options, "--json").stdout.splitlines()]
    assert len(answers[0]) == 3
    for block, nbest in zip(blocks, answers, strict=False):
        assert block.splitlines() == [f"{one['text']}\t{one['score']:.4f}" for one in nbest]


def test_words_that_cannot_be_spelt_are_counted_and_named(runs: dict[str, Path], tmp_path: Path) -> None:
    run = runs["strokes"]
    (tmp_path / "words.txt").write_text("cab\nzebra\nzoo\na\n")
    result = call("predict", run, run.parent / "dev-t.jsonl", "--lexicon", tmp_path / "words.txt")
    assert result.exit_code == 0
    assert "words.txt: 2 of 4 words cannot be spelt with the tokens of the model" in result.stderr
    assert "'zebra' ('z', 'e', 'r'), 'zoo' ('z', 'o')" in result.stderr


def test_a_stream_commits_within_its_lag(runs: dict[str, Path]) -> None:
    """A lag as long as the recording changes nothing; a short one makes text come earlier, the same as in one piece."""
    samples = np.frombuffer(sound(), "<i2").astype(np.float32) * np.float32(1 / 32768)
    model, output = load(runs["stream"], search="prefix_beam size=20"), {}
    for lag in (0.0, 0.05, 10.0):
        session = model.open_stream(lag=lag)
        certain = [session.feed(piece).text for piece in np.split(samples, 24)]
        output[lag] = [*certain, session.finish().text]
        assert all(after.startswith(before) for before, after in pairwise(output[lag]))
    assert output[10.0] == output[0.0]
    assert sum(map(len, output[0.05])) > sum(map(len, output[0.0]))
    frames = round(0.05 / model.task.frames.duration)  # type: ignore[attr-defined]
    whole = load(runs["stream"], search=f"prefix_beam size=20 lag={frames}").predict([Audio(samples, 4000)])
    command = ["predict", runs["stream"], "-", "--stream", "--search", "prefix_beam size=20"]
    assert call(*command, "--lag", 0.05, given=sound()).stdout == f"{output[0.05][-1]}\n" == f"{whole[0].text}\n"
    assert call(*command, "--lag", 0, given=sound()).stdout == f"{output[0.0][-1]}\n"


@pytest.mark.parametrize("search", ["best_path", "prefix_beam size=20"])
def test_an_ensemble_cannot_stream(runs: dict[str, Path], search: str) -> None:
    reason = "a stream needs one model: the CTC models of an ensemble place tokens in different frames"
    with pytest.raises(ValueError, match=f"^{reason}$"):
        load(runs["stream"], search=search, ensemble=[runs["stream"]]).open_stream()
    options = ["--search", search, "--ensemble", runs["stream"]]
    result = call("predict", runs["stream"], "-", "--stream", *options, given=sound())
    assert (result.exit_code, result.stdout, result.stderr) == (1, "", f"seqloom: {reason}\n")
    samples = np.frombuffer(sound(), "<i2").astype(np.float32) * np.float32(1 / 32768)
    (alone,) = load(runs["stream"], search=search).predict([Audio(samples, 4000)])
    (together,) = load(runs["stream"], search=search, ensemble=[runs["stream"]]).predict([Audio(samples, 4000)])
    assert together.text == alone.text != ""


def test_a_lag_below_zero_is_refused(runs: dict[str, Path]) -> None:
    for search in ("best_path", "prefix_beam"):
        with pytest.raises(ValueError, match=r"lag is -0\.001, expected at least 0"):
            load(runs["stream"], search=search).open_stream(lag=-0.001)


def test_a_stream_as_json(runs: dict[str, Path]) -> None:
    result = call("predict", runs["stream"], "-", "--stream", "--json", given=sound())
    *before, last = map(json.loads, result.stdout.splitlines())
    assert before
    texts = [line["text"] for line in (*before, last)]
    assert all(after.startswith(text) for text, after in pairwise(texts))
    assert len(last["times"]) == len(last["tokens"])


def test_an_empty_stream_is_an_empty_line(runs: dict[str, Path]) -> None:
    result = call("predict", runs["stream"], "-", "--stream", given=b"")
    assert (result.exit_code, result.stdout) == (0, "\n")


@pytest.mark.parametrize(
    ("run", "file", "given", "expected"),
    [
        ("both ways", "-", b"", "encoder.bidirectional is true: this model needs the whole recording"),
        ("strokes", "-", b"", "reads frames of 3 features; --stream needs a model that reads audio"),
        ("stream", "a.wav", b"", "--stream reads from standard input: give - instead of a.wav"),
        ("stream", "-", b"\x01\x80\x03", "standard input: the stream ends in the middle of a 16-bit sample"),
    ],
)
def test_unsupported_streams_are_refused(
    run: str, file: str, given: bytes, expected: str, runs: dict[str, Path]
) -> None:
    result = call("predict", runs[run], file, "--stream", given=given)
    assert result.exit_code == 1
    assert expected in result.stderr


def test_an_audio_file_is_transcribed_and_explained(runs: dict[str, Path], tmp_path: Path) -> None:
    soundfile = pytest.importorskip("soundfile")
    soundfile.write(tmp_path / "a.wav", np.frombuffer(sound(), "<i2"), 4000)
    result = call("predict", runs["stream"], tmp_path / "a.wav")
    assert (result.exit_code, result.stdout) == (0, call("predict", runs["stream"], "--stream", given=sound()).stdout)
    output = call("explain", runs["stream"], tmp_path / "a.wav", "--output", tmp_path, "--gates", "--beam")
    assert (output.exit_code, output.stderr) == (0, "")
    assert output.stdout.startswith(f"a.wav → {result.stdout.strip()[:1]}")
    assert "╵0.00 s" in output.stdout
    assert (tmp_path / "ctc.png").read_bytes().startswith(b"\x89PNG")
    assert list(tmp_path.glob("gates-*.png"))


def test_a_lexicon_and_a_language_model_guide_a_transcript(runs: dict[str, Path]) -> None:
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
        result = json.loads(line)
        unknown = sum(word not in ("a", "cab") for word in result["words"])
        expected = result["acoustic"] + 2 * result["language"] + len(result["words"]) - 3 * unknown
        assert result["score"] == pytest.approx(expected)


def test_errors_are_printed(runs: dict[str, Path], tmp_path: Path) -> None:
    run = runs["strokes"]
    test, words = run.parent / "dev-t.jsonl", run.parent / "words.txt"
    result = call("evaluate", run, test, "--lexicon", words)
    assert (result.exit_code, result.stderr) == (0, "")
    scores = json.loads(call("evaluate", run, test, "--lexicon", words, "--json").stdout)
    assert scores["worst"][0] in result.stdout
    counts = scores["cer_errors"]
    assert f"{counts['substitutions']} substitutions, {counts['insertions']} insertions" in result.stdout
    output = call("explain", run, test, "--lexicon", words, "--json", "--output", tmp_path)
    actual = json.loads(output.stdout)
    assert set(actual["prediction"]["words"]) <= set(WORDS)
    assert actual["plots"] == [str(tmp_path / "ctc.png")]


@pytest.mark.parametrize("option", [["--lexicon", "none.txt"], ["--lm", "none.arpa"], ["--lm", "weight=1"]])
def test_missing_lexicons_and_language_models_are_reported(option: list[str], runs: dict[str, Path]) -> None:
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


def test_audio_before_an_interruption_is_transcribed(runs: dict[str, Path]) -> None:
    model = load(runs["stream"])
    samples = (np.sin(np.arange(4000) / 5) * 9000).astype("<i2").tobytes()
    expected = "".join(transcribe_stream(model, io.BytesIO(samples)))
    result: list[str] = []
    with pytest.raises(KeyboardInterrupt):
        result.extend(transcribe_stream(model, Interrupted(samples)))
    assert "".join(result) == expected
    result = []
    with pytest.raises(DataError, match="ends in the middle of a 16-bit sample"):
        result.extend(transcribe_stream(model, io.BytesIO(samples + b"x")))
    assert "".join(result) == expected
