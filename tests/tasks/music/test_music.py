"""The task music: likelihoods, the baseline, composing, and the command line."""

import math
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.contracts.tiny import CASES, build
from typer.testing import CliRunner

import seqloom
from seqloom import workflow
from seqloom.cli.main import app
from seqloom.data.readers.midi import KEYS, LOWEST, parse_midi, to_frames
from seqloom.insight.piano_roll import PianoRoll
from seqloom.model import Model
from seqloom.tasks.music import Music
from seqloom.tasks.music.music import chord_name

PIECES = [[[60, 64], [60], [60, 67], []], [[60], [], [60, 64]]]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run")
    workflow.train(build(CASES["music"], folder, updates=3), output=folder / "run", plots=False)
    return folder / "run"


def test_the_baseline_knows_the_frame_before() -> None:
    task = Music(train="x").fit(Music(train="x").read(PIECES))
    counts: Counter[tuple[int, int]] = Counter()  # of the key C4, by whether it sounded before and sounds now
    for piece in PIECES:
        sounds = [int(60 in frame) for frame in piece]
        counts.update(zip([0, *sounds[:-1]], sounds, strict=True))
    place = 60 - LOWEST
    assert task.fitted.stays[place] == pytest.approx((counts[1, 1] + 1) / (counts[1, 0] + counts[1, 1] + 2))
    assert task.fitted.starts[place] == pytest.approx((counts[0, 1] + 1) / (counts[0, 0] + counts[0, 1] + 2))
    baseline = task.fit_baseline(Counter(), [])
    assert baseline is not None
    (example,) = task.read([[[60], [60]]])
    first, second = task.fitted.starts[place], task.fitted.stays[place]
    others = [math.log(1 - start) for key, start in enumerate(task.fitted.starts) if key != place]
    expected = -(math.log(first) + math.log(second) + 2 * sum(others)) / 2
    assert task.score_baseline(baseline, [example])["nll"] == pytest.approx(expected)


def test_a_new_model_starts_from_the_frequencies_of_the_keys() -> None:
    task = Music(train="x", nade_size=0).fit(Music(train="x").read(PIECES))
    bias = task.build_model().notes.bias.bias.detach()
    assert float(bias.sigmoid()[60 - LOWEST]) == pytest.approx(5 / 7)


def test_long_pieces_are_split() -> None:
    task = Music(train="x")
    (piece, _) = task.read(PIECES)
    assert [len(part) for part in task.shorten(piece, 3, "split")] == [3, 1]
    assert [len(part) for part in task.shorten(piece, 3, "truncate")] == [3]


def test_a_primed_piece_continues_as_the_model_predicts(run: Path) -> None:
    """At temperature 0, each frame is the one of which every key is the more probable."""
    model = seqloom.load(run)
    (roll,) = model.compose(length=3, temperature=0.0, prime=[[[60, 64], [59, 62]]])
    assert (roll.given, len(roll.frames)) == (2, 5)
    batch = model.task.collate(list(model.task.read([roll.frames])))
    with torch.no_grad():
        log_odds = model.module(batch.inputs, batch.target).log_odds[0]
    assert np.array_equal(roll.frames[2:], (log_odds[2:] > 0).numpy())


def test_the_seed_decides(run: Path) -> None:
    model = seqloom.load(run)
    one, same, other = (model.compose(length=20, seed=seed)[0].frames for seed in (1, 1, 2))
    assert np.array_equal(one, same)
    assert not np.array_equal(one, other)


def test_predictions_score_and_explanation_agree(run: Path) -> None:
    model = seqloom.load(run)
    answers = model.predict(PIECES)
    scores = model.evaluate(PIECES)
    total = -sum(sum(answer.log_likelihoods) for answer in answers)
    assert scores["nll"] == pytest.approx(total / 7)
    explanation = model.explain(next(iter(model.read(PIECES))))
    assert explanation.token_values is not None
    assert explanation.token_values.tokens[:2] == ["C4·E4", "C4"]
    assert sum(explanation.token_values.values) * math.log(2) == pytest.approx(4 * answers[0].nll, rel=1e-5)
    assert chord_name(np.zeros(KEYS, dtype=np.uint8)) == "–"


def test_generate_writes_midi_files_and_piano_rolls(run: Path, tmp_path: Path) -> None:
    output = tmp_path / "song.mid"
    result = CliRunner().invoke(app, ["generate", str(run), "--output", str(output), "--length", "40", "--count", "2"])
    assert result.exit_code == 0, result.output
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        *("song-1.mid", "song-1.png", "song-2.mid", "song-2.png"),
    ]
    (first, _) = seqloom.load(run).compose(length=40, count=2)
    song = parse_midi((tmp_path / "song-1.mid").read_bytes())
    starts = int(first.frames.any(axis=1).argmax())
    ends = len(first.frames) - int(first.frames[::-1].any(axis=1).argmax())
    assert np.array_equal(to_frames(song, 4), first.frames[starts:ends])


def test_the_piece_that_is_continued_is_not_overwritten(run: Path, tmp_path: Path) -> None:
    given = tmp_path / "song-2.mid"
    seqloom.load(run).compose(length=9)[0].save(given)
    before = given.read_bytes()
    for output, count in ((given, 1), (tmp_path / "song.mid", 2)):
        options = ["--prime", str(given), "--output", str(output), "--count", str(count)]
        result = CliRunner().invoke(app, ["generate", str(run), *options])
        assert result.exit_code == 1
        assert "song-2.mid: is the file that is read, and would be overwritten" in " ".join(result.output.split())
    assert given.read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["song-2.mid"]


def test_silence_is_noted(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    silent = PianoRoll(np.zeros((8, KEYS), np.uint8), frames_per_beat=4)
    monkeypatch.setattr(Model, "compose", lambda *_, **__: [silent])
    output = tmp_path / "song.mid"
    result = CliRunner().invoke(app, ["generate", str(run), "--output", str(output), "--temperature", "0"])
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith(f"{output} (8 frames, 0 notes, {silent.seconds:.0f} s)\n")
    assert "song.mid is silent: no key is probable enough at --temperature 0" in " ".join(result.stderr.split())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--output", "song.wav"], "song.wav: expected a file that ends in .mid"),
        (["--top-k", "3"], "--top-k does not apply to this model, which generates music"),
        (["--bias", "1"], "it has --length, --temperature, --count, --prime, --output, --seed"),
        (["some text"], "a model of music has no prompt; --prime FILE continues a piece"),
        (["--prime", "none.mid"], "none.mid"),
    ],
)
def test_wrong_options_are_refused(run: Path, options: list[str], message: str) -> None:
    result = CliRunner().invoke(app, ["generate", str(run), *options])
    assert result.exit_code == 1
    assert message in " ".join(result.output.split())


def test_pieces_are_transposed_in_training_only() -> None:
    task = Music(train="x", transpose=3, nade_size=0)
    pieces = [[[60, 64], [60], [67]], [[LOWEST], [LOWEST + KEYS - 2]], [[], []]]  # the second has one free key
    examples = [*task.read(pieces)]
    task = task.fit(examples)
    batch = task.collate(examples)
    batch.inputs.values[1, 2] = np.nan  # padding
    transposition = task.build_model().transposition
    torch.manual_seed(1)
    shifts: tuple[set[int], ...] = (set(), set(), set())
    for _ in range(100):
        frames, following = transposition(batch.inputs, batch.target)
        for row, length in enumerate((3, 2, 2)):
            moved = [shift for shift in range(-9, 10) if torch.equal(batch.target[row].roll(shift, 1), following[row])]
            inputs, expected = frames.values[row, :length], batch.inputs.values[row, :length]
            assert any(torch.equal(expected.roll(shift, 1), inputs) for shift in moved)
            shifts[row].update(moved if row < 2 else ())
    assert shifts == ({-3, -2, -1, 0, 1, 2, 3}, {0, 1}, set())
    transposition.eval()
    assert transposition(batch.inputs, batch.target)[1] is batch.target


def test_transposition_excludes_truncated_backpropagation() -> None:
    assert not Music(train="x").no_bptt_reason
    assert "train.max_length" in Music(train="x", transpose=2).no_bptt_reason
