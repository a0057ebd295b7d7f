"""Times of transcripts and of given texts on the command line."""

import json
import wave
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from seqloom.cli.main import app
from seqloom.model import load

TEXTS = ["up down", "down", "up up"]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model after one update, beside the recordings it was trained on."""
    folder: Path = tmp_path_factory.mktemp("timings")
    for number, text in enumerate(TEXTS):
        with wave.open(str(folder / f"{number}.wav"), "wb") as file:
            file.setparams((1, 2, 8000, 0, "NONE", ""))
            file.writeframes((np.sin(np.arange(8000) / len(text)) * 16000).astype("<i2").tobytes())
    (folder / "list.tsv").write_text("".join(f"{number}.wav\t{text}\n" for number, text in enumerate(TEXTS)))
    settings = ["task.encoder.hidden_size=4", "task.audio.n_mels=8", "task.text.unit=characters", "train.updates=1"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("seqloom.run_plots.draw", lambda *_, **__: None)
        data = ["--task", "transcribe", "--data", folder / "list.tsv", f"task.dev={folder / 'list.tsv'}"]
        invoke("train", *data, *settings, "--quiet", "--output", folder / "run")
    return folder / "run"


def invoke(*words: object) -> str:
    result = CliRunner().invoke(app, list(map(str, words)))
    assert result.exit_code == 0, result.output
    return result.stdout


def refused(*words: object) -> str:
    result = CliRunner().invoke(app, list(map(str, words)))
    assert result.exit_code == 1
    return result.output


def test_a_recording_is_aligned_with_a_text(run: Path) -> None:
    recording, text = run.parent / "0.wav", TEXTS[0]
    answer = load(run).align(str(recording), text)[0]
    rows = [line.split("\t") for line in invoke("align", run, recording, text).splitlines()]
    words = [row for row in rows if row[3] == "word"]
    assert [row[4] for row in words] == text.split() == answer.words
    times = [float(time) for row in words for time in row[1:3]]
    assert times == pytest.approx([time for span in answer.word_times for time in span], abs=5e-4)  # three decimals
    printed = json.loads(invoke("align", run, recording, text, "--json"))
    assert printed["words"] == text.split()


def test_a_list_with_texts_is_aligned_into_files(run: Path, tmp_path: Path) -> None:
    file = run.parent / "list.tsv"
    printed = invoke("align", run, file, "--timings", "textgrid", "--output", tmp_path / "grids").split()
    assert [Path(path).name for path in printed] == ["0.TextGrid", "1.TextGrid", "2.TextGrid"]
    for path, text in zip(printed, TEXTS, strict=True):
        assert all(f'text = "{word}"' in Path(path).read_text() for word in text.split())
    assert "got 'json'; --json without --timings prints JSON" in refused("align", run, file, "--timings", "json")
    assert "a file holds one recording, but there are several" in refused("align", run, file, "--timings", "srt")
    rows = [line.split() for line in invoke("align", run, file, "--timings", "ctm").splitlines()]
    assert [(Path(row[0]).name, row[4]) for row in rows] == [
        (f"{number}.wav", word) for number, text in enumerate(TEXTS) for word in text.split()
    ]


def test_predictions_have_the_same_formats(run: Path) -> None:
    recording = run.parent / "0.wav"
    assert invoke("predict", run, recording, "--timings", "vtt").startswith("WEBVTT")
    assert 'name = "tokens"' in invoke("predict", run, recording, "--timings", "TextGrid")
    assert "expected one of tsv, textgrid" in refused("predict", run, recording, "--timings", "midi")
    assert "--timings excludes" in refused("predict", run, recording, "--timings", "srt", "--json")
    assert "--output is the folder for --timings" in refused("predict", run, recording, "--output", "x")
