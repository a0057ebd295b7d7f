"""Forced alignment: times of the best of all paths, by brute force; what cannot be aligned is refused in words."""

import math
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from tests.contracts.tiny import CASES, build
from tests.tasks.transcribe.test_transcribe import Echo, emissions, fitted

from seqloom.data.readers.text_files import DataError
from seqloom.kernels.ctc.naive import collapse
from seqloom.model import Model
from seqloom.models.transcription.transcripts import Transcription
from seqloom.tasks.transcribe import Transcribe


def aligned(task: Transcribe, values: NDArray[np.float32], text: str) -> Transcription:
    (answer,) = task.align(Echo(), task.collate(list(task.read([(values, text)]))))
    return answer


@pytest.mark.parametrize("text", ["ab", "aa", "b"])
def test_the_best_of_all_paths_is_found(text: str) -> None:
    task = fitted(["ab"])
    assert task.learned
    target = tuple(task.learned.text.encode(text))
    for seed in range(5):
        logits = np.random.default_rng(seed).normal(size=(5, len(task.learned.text.vocabulary))).astype(np.float32)
        logs = torch.from_numpy(logits).double().log_softmax(dim=-1).tolist()
        paths = [path for path in product(range(len(logits[0])), repeat=5) if collapse(path, 0) == target]
        scores = [math.fsum(row[token] for row, token in zip(logs, path, strict=True)) for path in paths]
        best = paths[int(np.argmax(scores))]
        answer = aligned(task, logits, text)
        starts = [at for at, token in enumerate(best) if token and (at == 0 or best[at - 1] != token)]
        ends = [at + 1 for at, token in enumerate(best) if token and (at == 4 or best[at + 1] != token)]
        assert answer.times == list(zip(starts, ends, strict=True))
        assert answer.word_times == [(starts[0], ends[-1])]
        assert answer.score == pytest.approx(np.logaddexp.reduce(scores), rel=1e-5)  # single precision
        assert answer.text == text
        assert answer.loss == pytest.approx(-answer.score)


def test_the_given_text_is_aligned_even_if_another_is_more_probable() -> None:
    task = fitted(["ab c"])
    answer = aligned(task, emissions(task, "a|b|.| |c|c"), "ab b")
    assert (answer.text, answer.words) == ("ab b", ["ab", "b"])
    assert answer.times[:2] == [(0, 1), (1, 2)]
    assert answer.word_times[1][1] <= 6


def test_words_are_spelled_by_the_lexicon(tmp_path: Path) -> None:
    (tmp_path / "lexicon.txt").write_text("on  O N\noff  O F\n")
    task = fitted(["on off"], spelling="lexicon", lexicon=str(tmp_path / "lexicon.txt"), text={"unit": "words"})
    answer = aligned(task, emissions(task, "O|N|.|O|F|F"), "on off")
    assert (answer.words, answer.word_times) == (["on", "off"], [(0, 2), (3, 6)])
    assert (answer.tokens, answer.text) == (["O", "N", "O", "F"], "on off")


@pytest.mark.parametrize(
    ("frames", "text", "message"),
    [
        (3, "ab c", "too short for its text: its 4 tokens need 4 frames, but it has 3"),
        (9, "a?b", r"tokens that the model does not know: '\?'"),
        (9, " ", "no text; alignment needs a text for each recording"),
    ],
)
def test_texts_that_cannot_be_aligned_are_refused(frames: int, text: str, message: str) -> None:
    task = fitted(["ab c"])
    with pytest.raises(DataError, match=message):
        aligned(task, np.zeros((frames, 6), np.float32), text)


def test_a_model_without_ctc_is_refused(tmp_path: Path) -> None:
    config = build(CASES["transcribe, attention"], tmp_path)
    task = config.task.fit(config.task.read(Path(config.task.train)))
    model = Model(config._replace(task=task), task.build_model())
    with pytest.raises(ValueError, match=r'has no CTC \(task.model = "attention"\), which forced alignment needs'):
        model.align(config.task.train)
    with pytest.raises(ValueError, match="its transcripts have no times"):
        task.require_timings()


def test_other_tasks_cannot_align(tmp_path: Path) -> None:
    config = build(CASES["classify"], tmp_path)
    task = config.task.fit(config.task.read(Path(config.task.train)))
    with pytest.raises(TypeError, match=r"cannot align a text with a recording \(tasks that can: transcribe\)"):
        Model(config._replace(task=task), task.build_model()).align(config.task.train)
    with pytest.raises(TypeError, match=r"cannot give the times of words \(tasks that can: transcribe\)"):
        task.require_timings()
