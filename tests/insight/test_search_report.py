"""Explanations of transcripts against the search and the loss."""

from pathlib import Path
from typing import Any

import pytest
import torch
from tests.contracts.tiny import CASES, _transcribe, _transcribe_sound, build

from seqloom.decoding.frames.prefix_beam import PrefixBeam
from seqloom.explain import explain
from seqloom.layers.ctc import ctc_loss
from seqloom.model import Model
from seqloom.run_config import Config


def untrained_model(case: Any, folder: Path) -> Model:
    config = build(case, folder)
    task = config.task.fit(config.task.read(folder / case.file))
    torch.manual_seed(3)
    module: Any = task.build_model()
    module.output.weight.data *= 6  # further from chance
    return Model(Config(task, config.train), module)


def logits(model: Model, source: Any) -> torch.Tensor:
    (example,) = model.task.read_inputs([source])
    module: Any = model.module
    with torch.no_grad():
        result: torch.Tensor = module(*model.task.collate([example]).inputs)[0]
    return result


def test_the_beam_gives_the_n_best(tmp_path: Path) -> None:
    case = _transcribe()
    model = untrained_model(case, tmp_path)
    source = case.questions[0]
    result = explain(model, source, beam=True)
    frames = logits(model, source).log_softmax(dim=-1)
    (expected,) = PrefixBeam(size=64, nbest=5)(frames, torch.tensor([frames.shape[1]]))
    assert [candidate.score for candidate in result.prediction.nbest] == pytest.approx(
        [transcript.score for transcript in expected]
    )
    assert result.notes == ["the model decodes with best_path; the beam shown has size 64"]
    assert len(explain(model, source).prediction.nbest) == 1
    single = explain(untrained_model(_transcribe(search={"name": "prefix_beam"}), tmp_path), source, beam=True)
    assert single.notes == ["the model's search returns one transcript; here it returns 5"]
    assert [left.text for left in single.prediction.nbest] == [right.text for right in result.prediction.nbest]
    several = explain(untrained_model(CASES["transcribe, beam"], tmp_path), source, beam=True)
    assert (len(several.prediction.nbest), several.notes) == (2, [])


def test_a_note_says_that_the_tree_has_no_lag(tmp_path: Path) -> None:
    search = {"name": "prefix_beam", "size": 8, "nbest": 3, "lag": 4}
    result = explain(untrained_model(_transcribe(search=search), tmp_path), [[0.0, 1.0, 0.0]] * 9, beam=True)
    assert result.notes == ["the tree shows the search without its lag of 4 frames"]


def test_scores_are_split(tmp_path: Path) -> None:
    search = {"name": "prefix_beam", "size": 50, "nbest": 3}
    case = _transcribe(search=search, lexicon="{folder}/words.txt", lm={"word_score": 0.5})
    model = untrained_model(case, tmp_path)
    source = [[0.0, 1.0, 0.0]] * 12
    result = explain(model, source)
    assert result.prediction.nbest
    for candidate in result.prediction.nbest:
        assert candidate.score == pytest.approx(candidate.acoustic + 0.5 * len(candidate.text.split()))
        assert candidate.language == 0


def test_the_reference_has_its_probability(tmp_path: Path) -> None:
    model = untrained_model(_transcribe(), tmp_path)
    task: Any = model.task
    text, source = "ab", [[0.0, 1.0, 0.0]] * 6
    (example,) = task.read([(source, text)])
    result = explain(model, example)
    target = torch.tensor([task.learned.text.encode(text)])
    loss = ctc_loss(logits(model, source), torch.tensor([6]), target, torch.tensor([2])).losses.item()
    assert result.notes == [f"reference: 'ab' (log-probability {-loss:.4f})"]
    (short,) = task.read([(source[:1], text)])
    assert explain(model, short).notes == ["reference: 'ab' (too few frames)"]


def test_input_frames_are_kept_beside_the_data(tmp_path: Path) -> None:
    case = _transcribe_sound(time_reduction={"factor": 2})
    result = explain(untrained_model(case, tmp_path), case.questions[0])
    assert result.frames is not None
    assert result.image is not None
    assert result.image.shape[1] == 8  # bands
    assert result.to_dict()["frames"]["frame_length"] == pytest.approx(0.02)
    assert "image" not in result.to_dict()
    columns = explain(untrained_model(CASES["transcribe, columns"], tmp_path), [[0.0, 1.0, 0.0]] * 4)
    assert columns.frames is not None
    assert columns.frames.input_kind == "image"
