"""Ensembles of forecasters: the mean of forecasts and quantiles, and which runs can form one."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.contracts.tiny import CASES, build
from tests.tasks.forecast.test_forecast import answers, randomize, task, wave

from seqloom import workflow
from seqloom.model import load
from seqloom.models.ensemble import ForecasterEnsemble


@pytest.mark.parametrize(
    "fields",
    [
        {"distribution": "quantiles"},
        {"distribution": "gaussian", "channel_independent": True},
        {"distribution": "quantiles", "output": "every_step"},
        {"output": "every_step"},
    ],
)
def test_forecasts_and_quantiles_are_averaged(fields: dict[str, Any]) -> None:
    fitted = task(**fields).fit(task(**fields).read([wave()]))
    examples = list(fitted.read([wave(20, seed=1)]))
    models = [randomize(fitted.build_model(), seed=seed) for seed in (1, 2, 3)]
    single = [answers(fitted, model, examples) for model in models]
    together = answers(fitted, fitted.ensemble(models), examples)
    for answer, *parts in zip(together, *single, strict=True):
        np.testing.assert_allclose(
            answer.values, np.mean([part.values for part in parts], axis=0), rtol=1e-5, atol=1e-5
        )
        if fitted.levels:
            expected = np.mean([part.quantiles for part in parts], axis=0)
            np.testing.assert_allclose(answer.quantiles, expected, rtol=1e-5, atol=1e-5)


def test_probabilities_of_binary_frames_are_averaged() -> None:
    frames = (np.random.default_rng(0).random((40, 3)) < 0.5).astype(np.float64)
    fields = {"data_type": "binary", "output": "every_step"}
    fitted = task(**fields).fit(task(**fields).read([frames]))
    models = [randomize(fitted.build_model(), seed=seed) for seed in (1, 2)]
    batch = fitted.collate(list(fitted.read([frames])))
    with torch.no_grad():
        logits, states = ForecasterEnsemble(models, binary=True)(batch.inputs)
        expected = torch.stack([model(batch.inputs)[0].sigmoid() for model in models]).mean(dim=0)
    torch.testing.assert_close(logits.sigmoid(), expected)
    assert len(states) == 2


def test_runs_that_differ_in_more_than_the_weights_are_refused(tmp_path: Path) -> None:
    case = CASES["forecast"]
    first, longer = (
        workflow.train(
            build(case._replace(fields=case.fields | more), tmp_path, updates=2), output=tmp_path / name
        ).path
        for name, more in (("first", {}), ("longer", {"horizon": 4}))
    )
    other = build(case._replace(train=case.train.replace("1", "2")), tmp_path, updates=2)
    different = workflow.train(other, output=tmp_path / "different").path
    alone, twice = load(first), load(first, ensemble=[first])
    question = tmp_path / case.file
    assert twice.predict(question)[0].values == alone.predict(question)[0].values
    with pytest.raises(ValueError, match=r"cannot form an ensemble: they differ in task\.horizon$"):
        load(first, ensemble=[longer])
    with pytest.raises(ValueError, match=r"cannot form an ensemble: they were trained on different data$"):
        load(first, ensemble=[different])
