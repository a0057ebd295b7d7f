"""Transcription: losses, transcripts, scores and streams, compared with torch and jiwer."""

import json
from pathlib import Path
from typing import Any

import jiwer
import numpy as np
import pytest
import torch
from torch import Tensor, nn

from seqloom import check, terminal, workflow
from seqloom.data.readers.recordings import write_npz
from seqloom.data.readers.text_files import DataError, resolve
from seqloom.decoding.frames.best_path import BestPath
from seqloom.layers.ctc import frames_needed
from seqloom.layers.layer import Memory
from seqloom.model import load
from seqloom.models.encoder import BidirectionalEncoder
from seqloom.models.signals.audio_features import AudioFeatures, AugmentConfig
from seqloom.models.signals.equalizer import EqualizerConfig
from seqloom.models.signals.frame_encoder import TimeReductionConfig
from seqloom.models.transcription.transcriber import FrameTranscriber
from seqloom.run_config import Config
from seqloom.tasks.transcribe import Transcribe
from seqloom.training.config import TrainConfig

LETTERS = "ab c"


class EchoEncoder(nn.Module):
    def forward(self, values: Tensor, mask: Tensor) -> Memory:
        return Memory(values, mask, ())


class Echo(FrameTranscriber):
    """A model whose logits are its inputs."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = EchoEncoder()

    def frame_logits(self, memory: Memory) -> Tensor:
        return memory.values


def emissions(task: Transcribe, path: str) -> np.ndarray[Any, Any]:
    """Logits of the given tokens, frame by frame; "." is the blank."""
    assert task.learned
    numbers = [0 if name == "." else task.learned.text.vocabulary.index(name) for name in path.split("|")]
    frames = np.full((len(numbers), len(task.learned.text.vocabulary)), -4.0, dtype=np.float32)
    frames[np.arange(len(numbers)), numbers] = 4.0
    return frames


def fitted(texts: list[str], size: int = 0, **fields: Any) -> Transcribe:
    """A fitted task whose frames have one feature per token, or ``size`` features."""
    task = Transcribe(train="-", **fields)
    copy = task.fit(task.read([(np.zeros((40, size or 1)), text) for text in texts]))
    assert copy.learned
    return copy if size else fitted(texts, len(copy.learned.text.vocabulary), **fields)


def answer(task: Transcribe, *paths: str) -> list[Any]:
    values = [emissions(task, path) for path in paths]
    return task.predict(Echo(), task.collate(list(task.read(values)))).answers


def config(folder: Path, name: str = "transcribe", **fields: Any) -> Config:
    from tests.contracts.tiny import CASES, build

    case = CASES[name]
    return build(case._replace(fields=case.fields | fields), folder)


@pytest.fixture(autouse=True)
def nothing_is_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("seqloom.run_plots.draw", lambda *_, **__: None)


@pytest.mark.parametrize("spelling", ["text", "lexicon"])
def test_dev_words_that_the_lexicon_lacks_are_counted(tmp_path: Path, spelling: str) -> None:
    """By ``check`` and before training; the training texts may have other words."""
    (tmp_path / "words.txt").write_text("AB\nab\ncab\na\n" if spelling == "text" else "ab  a b\ncab  c a b\na  a\n")
    train = ["ab cab", "Ab", "a b" if spelling == "text" else "a ab"]
    dev = ["ab AC", "ac b ac", "b", "cab"] if spelling == "text" else ["ab", "cab"]
    for name, texts in (("train", train), ("dev", dev)):
        rows = [{"strokes": [[0.0, 1.0, 0.0]] * 12, "text": text} for text in texts]
        (tmp_path / f"{name}.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    fields: dict[str, Any] = {"text": {"unit": "characters", "lowercase": True}, "search": {"name": "prefix_beam"}}
    if spelling == "lexicon":
        fields = {"text": {"unit": "words", "lowercase": True}, "spelling": spelling}
        (tmp_path / "train.jsonl").write_text((tmp_path / "train.jsonl").read_text().replace("Ab", "ab"))
    task = Transcribe(
        train=str(tmp_path / "train.jsonl"),
        dev=str(tmp_path / "dev.jsonl"),
        lexicon=str(tmp_path / "words.txt"),
        encoder={"hidden_size": 4},  # type: ignore[arg-type]
        **fields,
    )
    setup = Config(task, TrainConfig(updates=1, threads=1))
    expected = "dev: 2 words are not in task.lexicon, so the search cannot output them: 'ac' (3 times), 'b' (2 times)"
    for warnings in (check.check_data(setup).warnings, workflow.train(setup, output=tmp_path / "run").warnings):
        found = [line.removeprefix("warning: ") for line in warnings if "in task.lexicon" in line]
        assert found == ([expected] if spelling == "text" else [])


def test_the_loss_equals_torch() -> None:
    torch.manual_seed(1)
    task = fitted(["ab c", "ca"], size=3, encoder={"hidden_size": 4})
    model = task.build_model().eval()
    random = np.random.default_rng(1)
    texts = ["ab c", "c", "aa", "bb bb bb bb"]  # the last is longer than its frames allow
    examples = list(task.read([(random.normal(size=(9, 3)), text) for text in texts]))
    batch = task.collate(examples)
    with torch.no_grad():
        logits, mask, _ = model(*batch.inputs)
    expected = nn.functional.ctc_loss(
        logits.log_softmax(dim=-1).transpose(0, 1),
        batch.target.values,
        mask.sum(dim=1),
        batch.target.lengths,
        reduction="none",
    )
    loss = task.loss(model, batch)
    assert float(loss.total.detach()) == pytest.approx(float(expected[:3].sum()), rel=1e-5)
    assert loss.items == batch.items == 5 + 2 + 3
    with torch.no_grad():
        answers = task.predict(model, batch).answers
    assert [answer.loss for answer in answers] == [pytest.approx(float(value), rel=1e-5) for value in expected[:3]] + [
        None
    ]
    scores = task.score(answers, examples)
    assert scores["infeasible"] == 0.25
    assert scores["loss"] == pytest.approx(float(expected[:3].sum()) / 10, rel=1e-5)


def test_examples_made_infeasible_by_augmentation_have_no_items() -> None:
    task = fitted(["ab c"], size=3, encoder={"hidden_size": 4}, augment={"speed_perturb": (3.0,)})
    batch = task.collate(list(task.read([(np.ones((6, 3)), text) for text in ("ab c", "c")])))
    model = task.build_model()
    slow, fast = task.loss(model.eval(), batch), task.loss(model.train(), batch)  # of 6 frames 2 are left
    assert (batch.items, slow.items, fast.items) == (7, 7, 2)
    assert 0 < float(fast.total.detach()) < float(slow.total.detach())


def test_text_words_and_times() -> None:
    task = fitted(["ab c"], time_reduction={"factor": 2})
    (transcript,) = answer(task, ".|a|a|.|b| | |c|.")
    assert (transcript.text, str(transcript)) == ("ab c", "ab c")
    assert transcript.tokens == ["a", "b", " ", "c"]
    assert transcript.times == [(2, 6), (8, 10), (10, 14), (14, 16)]
    assert (transcript.words, transcript.word_times) == (["ab", "c"], [(2, 10), (14, 16)])
    assert transcript.score == transcript.acoustic < 0
    assert (transcript.language, [each.text for each in transcript.nbest]) == (0, ["ab c"])


def test_words_and_subwords_are_grouped() -> None:
    task = fitted(["on off on"], text={"unit": "words"})
    (transcript,) = answer(task, "on|.|on|off")
    assert (transcript.text, transcript.words, transcript.word_times) == (
        "on on off",
        ["on", "on", "off"],
        [(0, 1), (2, 3), (3, 4)],
    )
    task = fitted(["on off"], text={"unit": "subwords", "vocab_size": 270})
    assert task.learned
    tokens = [task.learned.text.vocabulary.tokens[number] for number in task.learned.text.encode("on off")]
    (transcript,) = answer(task, "|".join(tokens).replace("f|f", "f|.|f"))
    assert (transcript.text, transcript.words) == ("on off", ["on", "off"])


def test_scores_equal_jiwer() -> None:
    task = fitted(["ab c"], search={"name": "best_path"})
    transcripts = answer(task, "a|.|b| |c", "c|.|c", ".")
    references = ["ab c", "c a b", "ba"]
    examples = list(task.read([(np.zeros((9, 6)), text) for text in references]))
    scores = task.score(transcripts, examples)
    texts = [transcript.text for transcript in transcripts]
    assert texts == ["ab c", "cc", ""]
    assert scores["cer"] == pytest.approx(jiwer.cer(references, texts))
    assert scores["wer"] == pytest.approx(jiwer.wer(references, texts))
    assert scores["exact_match"] == pytest.approx(1 / 3)
    assert scores["cer_interval"][0] <= scores["cer"] <= scores["cer_interval"][1]
    assert "REF:  c_a_b" in scores["worst"][0]
    assert task.main_metric == "cer"
    assert not task.higher_is_better


def test_times_of_audio_are_in_seconds() -> None:
    task = Transcribe(
        train="-", audio=AudioFeatures(n_mels=5, sample_rate=1000), time_reduction=TimeReductionConfig(factor=3)
    )
    task = task.fit(task.read([(np.random.default_rng(1).normal(size=600), "ab")]))
    frames = task.audio.spectrum(1000).length(600)
    assert task.collate(list(task.read([np.zeros(600)]))).inputs.values.shape == (1, 600)
    model = task.build_model().eval()
    with torch.no_grad():
        (transcript,) = task.predict(model, task.collate(list(task.read([np.zeros(600)])))).answers
    assert all(0 <= start < end <= (frames + 2) * 0.01 + 1e-9 for start, end in transcript.times)
    spans = task._answer(BestPath()(torch.eye(4).unsqueeze(0).log(), torch.tensor([4]))[0]).times
    assert spans == [(0.03, 0.06), (0.06, 0.09), (0.09, 0.12)]


SETTINGS: dict[str, dict[str, Any]] = {
    "best path": {},
    "beam": {"search": {"name": "prefix_beam", "size": 4, "nbest": 2}, "time_reduction": {"factor": 3}},
    "streaming scale": {"normalize": "streaming", "prenet": {"layers": 1, "size": 4, "window": 3}},
    "pyramid": {
        "time_reduction": {"method": "pyramid", "factor": 2},
        "audio": {"n_mels": 6, "sample_rate": 1000, "deltas": 2},
    },
    "CTC of a joint model": {"model": "joint"},
    "convolutions over bands and their differences": {
        "spectral_encoder": {"layers": 2, "channels": 3},
        "audio": {"n_mels": 6, "sample_rate": 1000, "deltas": 1},
    },
}


@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize("piece", [7, 100, 1000])
def test_a_stream_ends_with_the_transcript_of_the_whole_recording(name: str, piece: int) -> None:
    fields: dict[str, Any] = {"audio": {"n_mels": 6, "sample_rate": 1000}} | SETTINGS[name]
    task = Transcribe(train="-", encoder=BidirectionalEncoder(hidden_size=5, layers=2, bidirectional=False), **fields)
    random = np.random.default_rng(3)
    task = task.fit(task.read([(random.normal(size=700), "ab cab")]))
    torch.manual_seed(2)
    model: Any = task.build_model().double().eval()
    model.output.weight.data *= 20
    sound = random.normal(size=790).astype(np.float32)
    batch = task.collate(list(task.read([sound])))
    with torch.no_grad():
        inputs = batch.inputs._replace(values=batch.inputs.values.double())
        (whole,) = task.predict(model, batch._replace(inputs=inputs)).answers
    stream = task.open_stream(model)
    texts = [str(stream.feed(sound[start : start + piece])) for start in range(0, len(sound), piece)]
    last = stream.finish()
    assert last.text == whole.text != ""
    assert last.score == pytest.approx(whole.score, rel=1e-9)
    assert last.times == whole.times
    for before, after in zip(texts, [*texts[1:], last.text], strict=True):
        assert after.startswith(before)


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({}, "encoder.bidirectional is true"),
        ({"encoder": {"bidirectional": False}, "normalize": "utterance"}, 'normalize is "utterance"'),
        ({"encoder": {"bidirectional": False}, "image_encoder": {"layers": 1}}, "image_encoder.layers is 1"),
    ],
)
def test_settings_that_cannot_stream(fields: dict[str, Any], why: str) -> None:
    task = fitted(["ab"], **fields)
    with pytest.raises(ValueError, match=f"{why}: this model needs the whole recording and cannot stream"):
        task.open_stream(task.build_model())


def test_top_db_cannot_stream() -> None:
    sound = AudioFeatures(n_mels=5, sample_rate=1000, top_db=60.0)
    task = Transcribe(train="-", audio=sound, encoder=BidirectionalEncoder(bidirectional=False))
    task = task.fit(task.read([(np.ones(600), "ab")]))
    with pytest.raises(ValueError, match=r"audio\.top_db is 60"):
        task.open_stream(task.build_model())


def test_sound_equalised_by_speaker_cannot_stream() -> None:
    equalizer = EqualizerConfig(speaker_pattern="(.)/")
    audio, encoder = AudioFeatures(n_mels=5, sample_rate=1000), BidirectionalEncoder(bidirectional=False)
    task = Transcribe(train="-", audio=audio, encoder=encoder, equalizer=equalizer)
    task = task.fit(task.read([(np.ones(600), "ab")]))
    with pytest.raises(ValueError, match=r"equalizer\.speaker_pattern is set: this model needs the whole recording"):
        task.open_stream(task.build_model())


def test_words_are_spelt_by_the_lexicon(tmp_path: Path) -> None:
    path = tmp_path / "words.dict"
    path.write_text("READ  R IY D\nREAD(2)  R EH D\nRED  R EH D\nZOO  Z UW\n")
    fields: dict[str, Any] = {"text": {"unit": "words"}, "spelling": "lexicon", "lexicon": str(path)}
    task = fitted(["READ RED"], **fields)
    assert (task.main_metric, task.files) == ("per", ("-", str(path)))
    transcripts = answer(task, "R|IY|D|R|.|EH|D")
    assert transcripts[0].text == "R IY D R EH D"
    examples = list(task.read([(np.zeros((40, 6)), "RED READ")]))
    references = ["R EH D R IY D"]
    assert task.score(transcripts, examples)["per"] == pytest.approx(jiwer.wer(references, [transcripts[0].text]))
    with pytest.raises(DataError, match=r"input:1: the word 'BLUE' is not in .*words.dict"):
        fitted(["BLUE"], **fields)
    strange = list(task.read([(emissions(task, "R|EH|D"), "RED BLUE")]))  # test data may contain unknown words
    transcripts = task.predict(Echo(), task.collate(strange)).answers
    assert task.score(transcripts, strange)["per"] == pytest.approx(1 / 4)


def test_words_are_decoded_from_phones(tmp_path: Path) -> None:
    path = tmp_path / "words.dict"
    path.write_text("READ  R IY D\nRED  R EH D\nZOO  Z UW\n")
    fields: dict[str, Any] = {"text": {"unit": "words"}, "spelling": "lexicon", "lexicon": str(path)}
    task = fitted(["READ RED"], **fields, search={"name": "prefix_beam"})
    (transcript,) = answer(task, "R|IY|D|.|R|EH|D|D")
    assert (transcript.text, transcript.tokens) == ("READ RED", ["R", "IY", "D", "R", "EH", "D"])
    assert (task.main_metric, transcript.word_times) == ("wer", [(0, 3), (4, 8)])
    scores = task.score([transcript], list(task.read([(np.zeros((40, 6)), "READ READ RED")])))
    assert (scores["wer"], scores["per"]) == (pytest.approx(1 / 3), pytest.approx(1 / 3))


def test_users_get_words_where_training_reads_phones(tmp_path: Path) -> None:
    path = tmp_path / "words.dict"
    path.write_text("READ  R IY D\nRED  R EH D\n")
    fields: dict[str, Any] = {"text": {"unit": "words"}, "spelling": "lexicon", "lexicon": str(path)}
    task = fitted(["READ RED"], **fields)
    (transcript,) = answer(task.for_prediction(), "R|IY|D|.|R|EH|D|D")
    assert transcript.text == "READ RED"
    assert (task.main_metric, task.prediction_notes) == ("per", ())
    path.unlink()
    assert task.for_prediction() is task
    (note,) = task.prediction_notes
    assert "words.dict; the answers are phones, --lexicon FILE turns them into words" in note


def test_infeasible_examples_are_counted_everywhere(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings = config(tmp_path, time_reduction={"factor": 1})
    with terminal.TrainingProgress() as watch:
        run = workflow.train(settings, output=tmp_path / "run", listeners=[watch])
    assert "\n1 of 18 examples (5.56%) are infeasible and skipped" in capsys.readouterr().err
    assert json.loads(run.learned)["infeasible"] == 1
    assert "1 of 18 examples (5.56%) are infeasible" in (tmp_path / "run" / "train.log").read_text()
    report = check.check_data(settings)
    assert {name: split.infeasible for name, split in report.splits.items()} == {"train": 1, "dev": 1}
    (warning,) = [warning for warning in report.warnings if warning.startswith("train: 1 example (5.6%) infeasible")]
    assert "t.jsonl:6: its" in warning
    assert report.problems == []
    assert report.splits["train"].sides["text"].lengths.maximum >= 3
    assert run.load_best().facts["metrics"]["infeasible"] == pytest.approx(1 / 11)


@pytest.mark.parametrize(
    ("name", "factor", "change", "rates"),
    [
        ("transcribe", 2, {"speed_perturb": [0.8, 1.6]}, "speed 1.6"),
        ("transcribe", 2, {"tempo_perturb": [0.8, 1.6]}, "tempo 1.6"),
        (
            "transcribe, audio",
            6,
            {"speed_perturb": [1.7], "tempo_perturb": [1.0, 1.9]},
            "speed 1.7 and tempo 1.9",
        ),
    ],
)
def test_examples_that_augmentation_makes_infeasible_are_reported(
    name: str, factor: int, change: dict[str, list[float]], rates: str, tmp_path: Path
) -> None:
    """Against the model itself: how many frames it makes of each recording at the fastest."""
    settings = config(tmp_path, name, time_reduction={"factor": factor}, augment=change)
    task: Any = settings.task.fit(settings.task.read(Path(settings.task.train)))
    fastest = AugmentConfig(**{kind: (max(factors),) for kind, factors in change.items()})  # type: ignore[arg-type]
    model = task.model_copy(update={"augment": fastest}).build_model().train()
    expected = []
    for example in task.read(Path(task.train)):
        batch = task.collate([example])
        _, mask, _ = model(*batch.inputs)
        if not task.infeasible(example) and frames_needed(batch.target.values[0].tolist()) > mask.sum():
            expected.append(example.location)
    report = check.check_data(settings)
    (warning,) = [warning for warning in report.warnings if "sped up by augmentation" in warning]
    assert expected
    assert warning.startswith(f"train: {len(expected)} example")
    assert f"{expected[0]}: its" in warning
    assert f"at {rates}" in warning


def test_only_infeasible_examples_are_a_problem(tmp_path: Path) -> None:
    settings = config(tmp_path, time_reduction={"factor": 100})
    (tmp_path / "t.jsonl").write_text('{"strokes": [[0, 1, 2]], "text": "ab"}\n')
    problems = check.check_data(settings).problems
    assert "all 1 examples are infeasible: its 2 tokens need 2 frames, but it has 1" in problems[0]


def test_train_evaluate_and_predict_with_a_beam(tmp_path: Path) -> None:
    settings = config(tmp_path, encoder={"cell": "gru", "hidden_size": 16}, text={"unit": "characters"})
    options = {"updates": 160, "epochs": 100, "evaluate_every": 160, "learning_rate": 0.02}
    settings = settings._replace(train=settings.train.model_copy(update=options))
    workflow.train(settings, output=tmp_path / "run")
    model = load(tmp_path / "run")
    scores = model.evaluate(str(tmp_path / "t.jsonl"))
    assert scores["cer"] < 0.25
    beam = load(tmp_path / "run", search="prefix_beam size=8 nbest=3").predict([[[1.0, 0.0, 0.0]] * 3])
    assert len(beam[0].nbest) == 3


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"spelling": "phones"}, 'spelling = "phones" needs text.unit = "words"'),
        ({"spelling": "lexicon", "text": {"unit": "words"}}, 'spelling = "lexicon" needs a lexicon file'),
        ({"lexicon": "w"}, 'search "best_path" cannot use a lexicon'),
        ({"lm": {"model": "w"}}, 'search "best_path" cannot use a language model'),
        ({"metric": "per"}, 'metric "per" is not available for these tokens .allowed: auto, cer, wer'),
    ],
)
def test_conflicting_settings(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Transcribe(train="-", **fields)


def test_invalid_recordings(tmp_path: Path) -> None:
    task = fitted(["ab"], size=3)
    with pytest.raises(
        DataError, match=r"input:1: expected frames of 3 features as in the other examples, found frames of 4"
    ):
        task.collate(list(task.read([np.zeros((2, 4))])))
    write_npz(tmp_path / "s.npz", [np.zeros(300)], ["a"], rate=8000)
    with pytest.raises(
        DataError, match=r"s.npz:1: expected frames of 3 features as in the other examples, found audio"
    ):
        task.collate(list(task.read(resolve(str(tmp_path / "s.npz")))))
    sounds = Transcribe(train="-")
    write_npz(tmp_path / "short.npz", [np.zeros(300), np.zeros(100)], ["a", "b"], rate=8000)
    with pytest.raises(DataError, match=r"the audio has 100 samples, but a window needs 200"):
        sounds.fit(sounds.read(resolve(str(tmp_path / "short.npz"))))
    with pytest.raises(DataError, match=r"input:1: no text"):
        sounds.fit(task.read([np.zeros((2, 3))]))
    with pytest.raises(DataError, match=r"-: found no examples"):
        sounds.fit([])


def test_training_refuses_only_infeasible_examples(tmp_path: Path) -> None:
    task = Transcribe(train=str(tmp_path / "train.jsonl"), time_reduction=TimeReductionConfig(factor=4))
    examples = list(task.read([(np.zeros((6, 3), np.float32), "abc"), (np.zeros((3, 3), np.float32), "de")]))
    with pytest.raises(DataError, match="all 2 examples are infeasible: its 3 tokens need 3 frames, but it has 2"):
        task.fit(examples)


def test_models_with_other_tokens_inputs_or_frames_cannot_form_an_ensemble() -> None:
    task = fitted(["ab", "c"])
    assert task.ensemble_conflict(fitted(["c", "ab"], normalize="none")) == ""
    assert task.ensemble_conflict(fitted(["ab", "d"])) == "have different vocabularies"
    assert task.ensemble_conflict(fitted(["ab", "c"], size=7)) == "read different recordings"
    slower = fitted(["ab", "c"], time_reduction=TimeReductionConfig(factor=2))
    assert task.ensemble_conflict(slower).startswith("have different frames (task.audio.window")
    joint = task.ensemble_conflict(fitted(["ab", "c"], model="joint"))
    assert joint == 'are of different kinds (task.model = "ctc" and "joint")'
