"""Explanations of transcripts against the search and the loss themselves."""

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


def fresh(case: Any, folder: Path) -> Model:
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
        found: torch.Tensor = module(*model.task.collate([example]).inputs)[0]
    return found


def test_the_beam_gives_the_best(tmp_path: Path) -> None:
    case = _transcribe()
    model = fresh(case, tmp_path)
    source = case.questions[0]
    found = explain(model, source, beam=True)
    frames = logits(model, source).log_softmax(dim=-1)
    (wanted,) = PrefixBeam(size=64, nbest=5)(frames, torch.tensor([frames.shape[1]]))
    assert [each.score for each in found.answer.best] == pytest.approx([each.score for each in wanted])
    assert found.remarks == ["the search of the model is best_path: the beam is one of 64"]
    assert len(explain(model, source).answer.best) == 1
    one = explain(fresh(_transcribe(search={"name": "prefix_beam"}), tmp_path), source, beam=True)
    assert one.remarks == ["the search of the model gives one transcript: here the beam is asked for 5"]
    assert [each.text for each in one.answer.best] == [each.text for each in found.answer.best]
    two = explain(fresh(CASES["transcribe, beam"], tmp_path), source, beam=True)
    assert (len(two.answer.best), two.remarks) == (2, [])


def test_scores_are_split(tmp_path: Path) -> None:
    search = {"name": "prefix_beam", "size": 50, "best": 3}
    case = _transcribe(search=search, lexicon="{folder}/words.txt", language={"bonus": 0.5})
    model = fresh(case, tmp_path)
    source = [[0.0, 1.0, 0.0]] * 12
    found = explain(model, source)
    assert found.answer.best
    for each in found.answer.best:
        assert each.score == pytest.approx(each.acoustic + 0.5 * len(each.text.split()))
        assert each.language == 0


def test_the_truth_has_its_probability(tmp_path: Path) -> None:
    model = fresh(_transcribe(), tmp_path)
    task: Any = model.task
    text, source = "ab", [[0.0, 1.0, 0.0]] * 6
    (example,) = task.read([(source, text)])
    found = explain(model, example)
    target = torch.tensor([task.learned.text.encode(text)])
    loss = ctc_loss(logits(model, source), torch.tensor([6]), target, torch.tensor([2])).losses.item()
    assert found.remarks == [f"what it says is known: 'ab' (log-probability {-loss:.4f})"]
    (short,) = task.read([(source[:1], text)])
    assert explain(model, short).remarks == ["what it says is known: 'ab' (impossible)"]


def test_what_is_seen_stands_beside_the_data(tmp_path: Path) -> None:
    case = _transcribe_sound(reduction={"factor": 2})
    found = explain(fresh(case, tmp_path), case.questions[0])
    assert found.spikes is not None
    assert found.image is not None
    assert found.image.shape[1] == 8  # bands
    assert found.data()["spikes"]["unit"] == pytest.approx(0.02)
    assert "image" not in found.data()
    columns = explain(fresh(CASES["transcribe, columns"], tmp_path), [[0.0, 1.0, 0.0]] * 4)
    assert columns.spikes is not None
    assert columns.spikes.kind == "image"
