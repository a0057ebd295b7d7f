"""After training, the best model is adjusted to the development data, where its task does so."""

from collections.abc import Sequence
from typing import Any

from seqloom import terminal
from seqloom.evaluation import compare_with_baseline, predict_all, score, split_details
from seqloom.models.baseline import load_baseline
from seqloom.run import Run
from seqloom.run_config import Config


def calibrate_best(run: Run, config: Config, dev: Sequence[Any]) -> None:
    """Calibrate the best checkpoint of a run; its scores become those of the calibrated model."""
    task = config.task
    if not dev or not task.is_calibrated or not run.saved("best"):
        return
    snapshot = run.load_best()
    module = task.load_model(snapshot.model, run.path).to(config.train.device)
    calibration = task.calibrate_to(module, dev, predict=lambda: predict_all(config, module, dev))
    if not calibration.note:
        return
    predictions = predict_all(config, module, dev)
    metrics, details = split_details(score(task, predictions, dev))
    degenerate = task.degenerate_predictions(predictions, dev)
    weights = {name: tensor.detach().cpu() for name, tensor in module.state_dict().items()}
    run.write_details(terminal.json_value(details))
    facts = {**snapshot.facts, "metrics": metrics, "degenerate": degenerate}
    baseline = load_baseline(run)
    sums = None if baseline is None else task.baseline_sums(baseline, dev)
    test = compare_with_baseline(task, predictions, dev, sums)
    facts |= {"baseline_test": test and test._asdict()}
    facts |= {"calibration": calibration.note, "network_is_unused": calibration.network_is_unused}
    run.save("best", snapshot._replace(model=weights, facts=facts))
    run.log(calibration.note)
