"""Quantize a run: a copy whose weights are int8, written only if it is about as good on the dev data."""

import copy
import math
import secrets
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from seqloom import files, terminal
from seqloom.checkpoint import INT8_SCALES, RunError, Snapshot, rename_all
from seqloom.comparison.disagreement import compare_predictions
from seqloom.data.readers.text_files import DataError, resolve
from seqloom.evaluation import predict_all, score, split_details
from seqloom.files import os_error_message
from seqloom.formats import format_number
from seqloom.layers.quantization import quantize, round_weights, rounded_weights, use_int8
from seqloom.model import Model, load
from seqloom.models.encoder import LayerFactory
from seqloom.run import Run, refuse_existing
from seqloom.run_config import load_config
from seqloom.run_summary import model_card, summarize
from seqloom.training_data import dev_examples

WARM_UP = 32
"""Examples that are predicted before time is measured: kernels are compiled, weights are packed."""
TOLERANCE = 0.01


@dataclass(frozen=True)
class QuantizedRun:
    """A run in int8, beside the one it was made from; of each pair, the first is float32."""

    path: Path
    metric: str
    examples: int  # on which both were evaluated
    scores: tuple[float, float]
    interval: tuple[float, float] | None  # 95 % confidence interval of the difference
    sizes: tuple[int, int]  # bytes of the files with the weights
    seconds: tuple[float, float]  # to predict the examples


def quantize_run(
    path: str | Path,
    new: str | Path,
    *,
    tolerance: float = TOLERANCE,  # largest loss of the main metric: absolute from 0 to 1, else relative
    check: str = "",  # file with labelled data to compare on; empty: the dev data of the run
    layer: LayerFactory | None = None,  # the custom layer that the run was trained with
    **options: Any,  # of ``load``: files that the task needs to predict
) -> QuantizedRun:
    """Write a run with int8 weights; RunError if its main metric is worse by more than the tolerance."""
    refuse_existing(new)
    run = Run.open(path)
    if run.precision == "int8":
        raise RunError(f"{path}: holds int8 weights already")
    model = load(run, layer=layer, **options)
    quantized = copy.deepcopy(model.module)
    try:
        round_weights(quantized)
    except ValueError as error:
        raise RunError(f"{path}: {error}") from error
    use_int8(quantized)
    examples = _examples(model, check)
    predictions, seconds = [], []
    for module in (model.module, quantized):
        predict_all(model.config, module, examples[:WARM_UP])
        started = time.perf_counter()
        predictions.append(predict_all(model.config, module, examples))
        seconds.append(time.perf_counter() - started)
    metrics = [score(model.config.task, each, examples) for each in predictions]
    task = model.config.task
    before, after = (float(each[task.main_metric]) for each in metrics)
    compared = compare_predictions((task, task), (predictions[0], predictions[1]), examples)
    _check_loss(run, task.main_metric, before, after, higher_is_better=task.higher_is_better, tolerance=tolerance)
    snapshot = run.load_best()
    kept = ("update", "epoch", "degenerate", "baseline_test")
    facts: dict[str, Any] = {name: snapshot.facts[name] for name in kept if name in snapshot.facts}
    facts |= {"precision": "int8", "quantized_from": run.name, "float32_metrics": split_details(metrics[0])[0]}
    _write(run, Path(new), _stored_weights(snapshot.model, rounded_weights(model.module)), facts, metrics[1])
    source = run.path / ("best" if run.saved("best") else "last")
    sizes = [(each / "model.safetensors").stat().st_size for each in (source, Path(new) / "best")]
    return QuantizedRun(
        path=Path(new),
        metric=task.main_metric,
        examples=len(examples),
        scores=(before, after),
        interval=compared.interval,
        sizes=(sizes[0], sizes[1]),
        seconds=(seconds[0], seconds[1]),
    )


def _examples(model: Model, check: str) -> list[Any]:
    """Labelled examples to compare on."""
    if check:
        examples = list(model.task.read(resolve(check)))
    else:
        try:
            examples = list(dev_examples(model.config, model.trained_on))
        except (DataError, OSError) as error:
            raise RunError(
                f"{error}: the int8 model is compared with the run on its dev data; name other labelled data "
                "(--check FILE)"
            ) from error
    if not examples:
        raise RunError(f"{check or 'the dev data'}: there are no examples to compare the int8 model on")
    model.task.check_targets(examples)
    return examples


def _check_loss(
    run: Run, metric: str, before: float, after: float, *, higher_is_better: bool, tolerance: float
) -> None:
    """Raise RunError if the metric is worse by more than the tolerance."""
    loss = before - after if higher_is_better else after - before
    is_share = 0 <= before <= 1 and 0 <= after <= 1
    allowed = tolerance if is_share else tolerance * abs(before)
    if not loss <= allowed:  # also if it is not a number
        limit = f"{tolerance:g}" if is_share else f"{tolerance:.3g} of it"
        values = f"{metric} is {format_number(after, 4)} instead of {format_number(before, 4)}"
        raise RunError(
            f"{run.path}: in int8, {values}: worse by more than {limit}, so nothing was written; "
            "allow more with --tolerance"
        )


def _stored_weights(weights: Mapping[str, Tensor], rounded: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The weights of a checkpoint, with integers and scales in place of those that are rounded."""
    stored: dict[str, Tensor] = {}
    known: dict[int, tuple[Tensor, Tensor]] = {}  # a shared weight has several names
    for name, weight in weights.items():
        if name not in rounded:
            stored[name] = weight
            continue
        parameter = id(rounded[name])
        if parameter not in known:
            integers, scales = quantize(weight)
            known[parameter] = integers.view(weight.shape), scales
        stored[name], stored[name + INT8_SCALES] = known[parameter]
    return stored


def _write(run: Run, path: Path, weights: dict[str, Tensor], facts: dict[str, Any], metrics: dict[str, Any]) -> None:
    """Write the new run completely or not at all."""
    partial = path.with_name(f".{path.name}.{secrets.token_hex(4)}.partial")
    scores, details = split_details(metrics)
    try:
        try:
            texts = {"config": run.config, "learned": run.learned}
            new = Run.create(partial, environment=run.environment, **texts)
            new.write_summary(run.summary())
            new.write_details(terminal.json_value(details))
            if (log := run.path / "metrics.jsonl").is_file():
                files.write(partial / log.name, log.read_bytes(), inside=partial)
            new.save("best", Snapshot(weights, {}, {**facts, "metrics": scores}))
            new.verify("best")
            rename_all([(partial, path)])
        finally:
            if partial.exists():
                shutil.rmtree(partial)
    except OSError as error:
        raise RunError(f"{path}: cannot write the run: {os_error_message(error)}") from error
    opened = Run.open(path)
    opened.write_card(model_card(summarize(opened, load_config(opened)), previous=run.card()))


def print_quantized(result: QuantizedRun) -> None:
    """Print quality, size and speed in float32 and in int8."""
    before, after = result.scores
    difference = f"{after - before:+.4g}"
    if result.interval is not None:
        difference += f" [{result.interval[0]:+.2g}, {result.interval[1]:+.2g}]"
    terminal.table(
        ("", "float32", "int8", "change"),
        [
            (f"{result.metric} ({result.examples:,} examples)", *_row(result.scores), difference),
            ("weights", *(f"{size / 1e6:.2f} MB" for size in result.sizes), _ratio(result.sizes)),
            ("prediction", *(f"{seconds:.2f} s" for seconds in result.seconds), _ratio(result.seconds)),
        ],
    )


def _row(scores: Sequence[float]) -> list[str]:
    return [format_number(score, 4) for score in scores]


def _ratio(pair: tuple[float, float]) -> str:
    return f"{pair[1] / pair[0]:.2f} ×" if pair[0] and math.isfinite(pair[0]) else ""
