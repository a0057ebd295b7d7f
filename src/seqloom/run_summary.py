"""What a run was trained on, how it ended, how good it is: printed after training and by ``info``; the model card."""

import math
import re
import shlex
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, TypeVar

from pydantic import BaseModel, Field, ValidationError

from seqloom import terminal
from seqloom.config import Document
from seqloom.data.readers.memory import IN_MEMORY
from seqloom.data.readers.text_files import resolve
from seqloom.formats import format_duration, format_number
from seqloom.metrics.confidence import SignificanceTest
from seqloom.metrics.learning import LIMIT, Remedies, describe_flat_loss, flat_loss, overfit_since
from seqloom.metrics.meaning import is_perfect, meaning
from seqloom.models.baseline import load_baseline
from seqloom.models.transcription.search_guide import LanguageModelConfig
from seqloom.run import SUMMARY, Run, RunError
from seqloom.run_config import Config, custom_layer

PICTURES = ("results", "confusion", "forecast", "predicted")
INTENDED_USE = (
    "Not stated yet: replace this paragraph. The model has seen the data above and nothing else. "
    "Its scores hold for data like the development data only. It has not been tested for bias or misuse."
)
DECISIVE = tuple(f"train.{name}" for name in ("epochs", "updates", "tokens", "minutes", "batch_size", "batch_tokens"))
"""Settings on which other defaults depend."""
UNTITLED = ("task.name", "task.train", "task.dev")  # shown elsewhere


@dataclass(frozen=True)
class RunSummary:
    """Facts about a run."""

    path: str
    task: str
    train: str  # training file
    dev: str  # development file; empty: part of the training file
    dev_fraction: float
    examples: dict[str, int]  # train, dev
    dev_in_train: int  # development examples, if all of them also occur in the training data
    parameters: int
    quantized_from: str  # name of the run whose weights these are in int8; empty: they are not
    started: str  # date and time, ISO 8601; empty: not known
    seconds: float  # of training
    finished: str  # why training ended; empty: it did not
    best_epoch: float | None  # None: there was no evaluation
    best_update: int | None
    metric: str  # that chooses the best model
    higher_is_better: bool
    metrics: dict[str, Any]  # of the best model on the development data
    degenerate: str  # how the predictions show that the model has learned nothing; empty: they do not
    remedy: str  # what to try then
    calibration: str  # how the best model was adjusted to the development data after training; empty: it was not
    network_is_unused: bool  # the answers are those of a simpler model, as the dev data show no gain
    flat_loss: tuple[float, float] | None  # at first and at the end, if it has not fallen
    overfit_since: float | None  # epoch from which on longer training has made the model worse; None: none
    baseline: str  # name; empty: there is none
    baseline_scores: dict[str, float]
    baseline_test: SignificanceTest | None  # of the difference from it; None: the metric allows none
    settings: dict[str, Any]  # that differ from their defaults
    resumable: bool  # the last checkpoint is there
    inputs_are_files: bool
    dev_is_short: bool  # too short to predict what follows it
    prompt: str | None  # what ``seqloom generate`` is given, as an example; None: the model does not generate
    layer: str  # --layer again, as module:name; empty: there is no custom layer
    warmup: int  # updates of warm-up, if the training ended before; otherwise 0
    files: dict[str, str]  # that predictions and evaluations need besides the data, by option
    pictures: list[str]
    versions: dict[str, str]

    @property
    def value(self) -> float:
        """The main metric; NaN if there was no evaluation."""
        return float(self.metrics.get(self.metric, math.nan))

    @property
    def remedies(self) -> Remedies:
        """What to change about the training."""
        curve = _dev_curve(self.metric, higher_is_better=self.higher_is_better)
        return Remedies.of(self.path, self.finished, self.overfit_since, dev_curve=curve)


class _Facts(BaseModel):
    """What a run stores about its training; the run may be damaged or malicious."""

    examples: dict[str, int] = {}
    dev_in_train: int = 0
    parameters: int | None = None
    started: str = ""
    seconds: float = Field(0.0, ge=0, allow_inf_nan=False)
    finished: str = ""
    baseline_scores: dict[str, float] = {}
    settings: dict[str, Any] = {}
    dev_is_short: bool = False


class _Checkpoint(BaseModel):
    """What a checkpoint stores beside its weights."""

    epoch: float | None = None
    update: int | None = None
    metrics: dict[str, Any] = {}
    degenerate: str = ""
    calibration: str = ""
    network_is_unused: bool = False
    baseline_test: SignificanceTest | None = None
    quantized_from: str = ""
    seconds: float | None = Field(None, ge=0, allow_inf_nan=False)
    position: dict[str, Any] = {}


Stored = TypeVar("Stored", bound=BaseModel)


def _validated(kind: type[Stored], values: Mapping[str, Any], location: object) -> Stored:
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        problem = error.errors(include_url=False, include_input=False, include_context=False)[0]
        place = ".".join(map(str, problem["loc"]))[:200]
        raise RunError(f"{location}: {place}: {problem['msg']}") from error


def summarize(run: Run, config: Config) -> RunSummary:
    """The facts about a run, whose configuration is loaded; custom layers are not needed, and no data are read."""
    facts, task = _validated(_Facts, run.summary(), run.path / SUMMARY), config.task
    snapshot = run.load_best()
    best = _validated(_Checkpoint, snapshot.facts, run.path / "best")
    last = _validated(_Checkpoint, run.load("last").facts if run.saved("last") else {}, run.path / "last")
    baseline = load_baseline(run)
    finished = str(last.position.get("finished", facts.finished))
    rows = _readable_rows(run)
    overfit = _overfit_since(rows, config)
    return RunSummary(
        path=str(run.path),
        task=config.name,
        train=task.train,
        dev=task.dev,
        dev_fraction=1 / task.fold[1] if task.fold else task.dev_fraction,
        examples=facts.examples,
        dev_in_train=facts.dev_in_train,
        parameters=(
            sum(tensor.numel() for tensor in snapshot.model.values()) if facts.parameters is None else facts.parameters
        ),
        quantized_from=best.quantized_from,
        started=facts.started,
        seconds=facts.seconds if last.seconds is None else last.seconds,
        finished=finished,
        best_epoch=best.epoch,
        best_update=best.update,
        metric=task.main_metric,
        higher_is_better=task.higher_is_better,
        metrics=best.metrics,
        degenerate=best.degenerate,
        remedy=task.degenerate_remedy(Remedies.of(run.path, finished, overfit)),
        calibration=best.calibration,
        network_is_unused=best.network_is_unused,
        flat_loss=flat_loss([loss for _, loss in _curve(rows, "loss")]),
        overfit_since=overfit,
        baseline=baseline.name if baseline is not None else "",
        baseline_scores=facts.baseline_scores,
        baseline_test=best.baseline_test,
        settings=facts.settings,
        resumable=run.saved("last") and not (finished and config.train.keep == "best"),
        inputs_are_files=task.inputs_are_files,
        dev_is_short=facts.dev_is_short,
        files={
            option: name
            for option, field in {**task.prediction_files, **task.data_files}.items()
            if (name := _file_name(getattr(task, field)))
        },
        prompt=task.example_prompt,
        layer=_layer_option(run, custom_layer(task)),
        warmup=_unfinished_warmup(config, rows) if finished and rows else 0,
        pictures=[file for name in PICTURES if (run.path / (file := f"{name}.{config.train.plot_format}")).is_file()],
        versions={name: run.environment[name] for name in ("seqloom", "torch", "python") if name in run.environment},
    )


def _readable_rows(run: Run) -> list[dict[str, Any]]:
    """The rows of metrics.jsonl; none if one is damaged, which must not end a finished training with an error."""
    try:
        return run.rows()
    except RunError:  # its plots, which are not drawn, name it in the log
        return []


def _overfit_since(rows: Sequence[Mapping[str, Any]], config: Config) -> float | None:
    """The epoch from which on longer training has made the model worse, as its curves show; None: none."""
    task = config.task
    dev = [{"epoch": row.get("epoch"), **row["dev"]} for row in rows if isinstance(row.get("dev"), dict)]
    curve = _dev_curve(task.main_metric, higher_is_better=task.higher_is_better)
    score = _curve(dev, task.main_metric) if task.higher_is_better else []
    return overfit_since(_curve(dev, curve), _curve(rows, "loss"), score=score)


def _dev_curve(metric: str, *, higher_is_better: bool) -> str:
    """The number that shows overfitting by rising: the main metric if it is an error, otherwise the dev loss."""
    return "loss" if higher_is_better else metric


def _curve(rows: Sequence[Mapping[str, Any]], name: str) -> list[tuple[float, float]]:
    """The values of a number by epoch."""
    return [(row["epoch"], row[name]) for row in rows if _is_number(row.get("epoch")) and _is_number(row.get(name))]


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def remedies(run: Run, config: Config) -> Remedies:
    """What to change about the training of a run, as its record shows."""
    finished = _validated(_Facts, run.summary(), run.path / SUMMARY).finished
    curve = _dev_curve(config.task.main_metric, higher_is_better=config.task.higher_is_better)
    return Remedies.of(run.path, finished, _overfit_since(_readable_rows(run), config), dev_curve=curve)


def _unfinished_warmup(config: Config, rows: Sequence[Mapping[str, Any]]) -> int:
    """Updates of warm-up, if the training was shorter; 0 if it was not, or if counts have no learning rate."""
    return 0 if config.task.is_counting_model or _updates(rows) >= config.train.warmup else config.train.warmup


def _updates(rows: Sequence[Mapping[str, Any]]) -> int:
    """The number of updates, as the log says."""
    return max((int(row["update"]) for row in rows if isinstance(row.get("update"), int)), default=0)


def _layer_option(run: Run, name: str) -> str:
    """The option that names a custom layer, as when the run was trained; empty: there is no such layer."""
    words = run.environment.get("command")
    given = [str(word) for word in words] if isinstance(words, list) else []
    if not name:
        return ""
    return next((value for word, value in pairwise(given) if word == "--layer"), f"MODULE:{name}")


def _file_name(setting: str | LanguageModelConfig) -> str:
    return setting.model if isinstance(setting, LanguageModelConfig) else setting


def changed_settings(config: Config) -> dict[str, Any]:
    """The settings that a user has changed, by ``section.key``: not those that follow from others or from the data."""
    task = config.task
    values = {"task.name": config.name, "task.train": task.train, "task.dev": task.dev}
    own = dict(flatten(tomllib.loads(config.text())))
    try:
        plain = _defaults(values)
        chosen = {key: own[key] for key in DECISIVE if own[key] != plain.get(key)}
        usual = _defaults(values | chosen) if chosen else plain
    except (ValueError, OSError):  # defaults may depend on data that are gone
        return {}
    return {
        key: value for key, value in own.items() if key not in UNTITLED and (key in chosen or usual.get(key) != value)
    }


def _defaults(values: Mapping[str, Any]) -> dict[str, Any]:
    """All settings that follow from a few and from the training file."""
    config = Config.build(Document.empty(values=dict(values)))
    with suppress(ValueError, OSError):  # data in memory are gone
        config = config._replace(task=config.task.resolve(resolve(config.task.train))[0])
    return dict(flatten(tomllib.loads(config.text())))


def flatten(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Nested tables as pairs of dotted keys and values."""
    for name, value in values.items():
        if isinstance(value, dict) and value:
            yield from flatten(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def verdict(summary: RunSummary) -> str:
    """What the scores are worth: whether the data allow any, and how they compare; empty: nothing to say."""
    comparison = _comparison(summary)
    if not summary.dev_in_train or not summary.metrics:
        return comparison
    return (
        f"WARNING: all {summary.dev_in_train:,} development examples also occur in the training data, so the scores "
        f"say nothing about new data: set task.dev to data that the model has not seen. {comparison}"
    ).rstrip()


def _comparison(summary: RunSummary) -> str:
    """Whether the model has learned something, is better than the baseline, and what to try; empty: nothing to say."""
    value, usual = summary.value, summary.baseline_scores.get(summary.metric)
    remedies = summary.remedies
    flat = describe_flat_loss(*summary.flat_loss, remedies) if summary.flat_loss else ""
    if not summary.metrics:
        return flat
    problem = f"{summary.degenerate}: {summary.remedy}." if summary.degenerate else ""
    if not summary.baseline or usual is None or math.isnan(value):
        return problem
    sign, test = 1 if summary.higher_is_better else -1, summary.baseline_test
    comparison = f"the baseline ({summary.baseline}): {_number(value)} against {_number(usual)}"
    if is_perfect(summary.metric, usual, higher_is_better=summary.higher_is_better):
        remedy = problem or "The baseline is perfect: these data need no model, or are too easy to tell two apart."
        return f"{'As good as' if value == usual else 'No better than'} {comparison}. {remedy}"
    if sign * value <= sign * usual or _number(value) == _number(usual):
        return f"No better than {comparison}. {problem or flat or _no_better(summary, remedies)}"
    if test is None:
        text = f"Better than {comparison}."
    elif not test.is_possible:
        text = f"Better than {comparison}, on dev data that are too few for a test of significance."
    else:
        clearly = "Better" if test.is_significant else "Not clearly better"
        text = f"{clearly} than {comparison} (p = {test.p_value:.2g} in a paired test)."
    return f"{text} {problem}".rstrip()


def _no_better(summary: RunSummary, remedies: Remedies) -> str:
    """What to try with a model that is no better than the baseline."""
    check = f"seqloom check {shlex.quote(remedies.config)}"
    if remedies.overfitting:
        return f"{remedies.overfitting} {check} looks for problems in the data."
    if summary.network_is_unused:
        return "More rows, or columns that explain the series, may help more than a longer training."
    return (
        f"Try another learning rate ({remedies.find_learning_rate}) or a larger {remedies.train_longer}, and look for "
        f"problems in the data with {check}."
    )


def _number(value: float) -> str:
    return format_number(value, 4)


def ending(summary: RunSummary) -> str:
    """How training ended, and which model was kept."""
    text = f"Finished: {summary.finished}" if summary.finished else "Not finished"
    text += f", {format_duration(summary.seconds)} of training."
    if summary.best_update is not None:
        text += f" Best: epoch {summary.best_epoch or 0:.4g} (update {summary.best_update:,})."
    if summary.warmup:
        text += f" The learning rate was still rising: train.warmup = {summary.warmup} is longer than the training."
    return text


NOT_FOR_LOSS = ("constrain", "lexicon", "lm")
"""Options that name files which only predictions need."""


def commands(summary: RunSummary) -> dict[str, str]:
    """Commands to continue with, by what they do."""
    source = summary.dev or summary.train
    run, file = shlex.quote(summary.path), "FILE" if source == IN_MEMORY else shlex.quote(source)
    whole = "FILE" if summary.dev_is_short else file
    usual = whole if summary.inputs_are_files else "'your text'"
    texts = {"caption": whole, "embed": "WORD WORD"}.get(summary.task, usual)
    result = {
        "predict": f"seqloom predict {run} {whole}{_again(summary, 'captions')}",
        "evaluate": f"seqloom evaluate {run} {file if summary.dev else 'TEST_FILE'}{_again(summary)}",
        "explain": f"seqloom explain {run} {texts}{_again(summary, 'captions', 'constrain')}",
    }
    if summary.prompt is not None:
        result = {"generate": f"seqloom generate {run} {summary.prompt}".rstrip(), **result}
    is_no_better = "No better than" in _comparison(summary)
    if summary.degenerate or summary.flat_loss or is_no_better:
        result = {"doctor": f"seqloom doctor {run} {file}{_again(summary, *NOT_FOR_LOSS)}", **result}
    if summary.layer:
        result = {name: f"{command} --layer {shlex.quote(summary.layer)}" for name, command in result.items()}
    if not summary.resumable or (summary.finished and is_no_better and summary.remedies.overfitting):
        return result
    more = ""
    if limit := LIMIT.match(summary.finished):
        doubled = 2 * float(limit["value"])
        more = f"train.{limit['name']}s={int(doubled) if doubled.is_integer() else doubled}"
    if IN_MEMORY in (summary.train, summary.dev):  # only Python has the data
        data = "data=…, dev=…" if summary.dev == IN_MEMORY else "data=…"
        resume = f"seqloom.resume({summary.path!r}{f', {more!r}' if more else ''}, {data})"
    else:
        layer = f"--layer {shlex.quote(summary.layer)}" if summary.layer else ""
        resume = " ".join(filter(None, ["seqloom train --resume", run, more, layer]))
    if more or not summary.finished:
        result["continue"] = resume
    return result


def _again(summary: RunSummary, *without: str) -> str:
    """Options that name the files of the configuration again: a run alone does not open them."""
    return "".join(f" --{name} {shlex.quote(file)}" for name, file in summary.files.items() if name not in without)


def print_summary(summary: RunSummary, details: Mapping[str, Any]) -> None:
    """Print how a training ended, its scores and what they mean, and what to do next."""
    terminal.print_wrapped(ending(summary))
    sentence = verdict(summary)
    terminal.print_lines(*[""] * bool(summary.metrics or sentence))
    if summary.metrics:
        metrics, explained = {**summary.metrics, **details}, meaning(summary.metric, summary.value, summary.metrics)
        sentences = [
            f"{summary.metric} {_number(summary.value)}: {explained}." if explained else "",
            f"After training, {summary.calibration}." if summary.calibration else "",
            sentence,
        ]
        if "baselines" in metrics:  # of a forecast, whose score says little by itself
            sentences = [sentence, *sentences[:2]]
        shown = [text for text in sentences if text]
        terminal.print_results(metrics, summary.baseline_scores, source="dev", sentences=shown, most=3)
    elif sentence:
        terminal.print_wrapped(sentence)
    terminal.print_lines("")
    rows = {"run": summary.path}
    if summary.pictures:
        rows["pictures"] = ", ".join(summary.pictures)
    terminal.print_pairs({**rows, **commands(summary)})


def model_card(
    summary: RunSummary,
    *,
    previous: str = "",  # the card so far, whose intended use is kept: a person may have written it
) -> str:
    """The README.md of a run."""
    intended_use = re.search(r"^## Intended use\n+(.*?)\n+## Results$", previous, re.MULTILINE | re.DOTALL)
    held_out = f"{summary.dev_fraction:.0%} of the training file, held out" if summary.dev_fraction else "none"
    sections = [
        f"# {summary.path.rstrip('/').rsplit('/', 1)[-1]}",
        f"A model for the task `{summary.task}`, trained with Seqloom."
        + (f" Its weights are those of `{summary.quantized_from}` in int8." if summary.quantized_from else ""),
        "## Data",
        _list(
            {
                "training": f"`{summary.train}`{_count(summary.examples, 'train')}",
                "development": f"{f'`{summary.dev}`' if summary.dev else held_out}{_count(summary.examples, 'dev')}",
            }
        ),
        "## Intended use",
        intended_use[1] if intended_use else INTENDED_USE,
        "## Results",
        ending(summary),
    ]
    sentence = meaning(summary.metric, summary.value, summary.metrics) if summary.metrics else ""
    sections += [_score_table(summary)] if summary.metrics else []
    sections.append(" ".join(filter(None, (f"`{summary.metric}`: {sentence}." if sentence else "", verdict(summary)))))
    sections += [
        "## Settings",
        f"{summary.parameters:,} parameters. Settings that differ from their defaults; `config.toml` has all of them:",
        _list({f"`{key}`": f"`{value}`" for key, value in summary.settings.items()}) or "None.",
        "## Usage",
        "\n".join(f"    {command}" for command in commands(summary).values()),
        "## Versions",
        _list({**summary.versions, **({"started": summary.started} if summary.started else {})}),
    ]
    return "\n\n".join(section for section in sections if section) + "\n"


def _count(examples: Mapping[str, int], name: str) -> str:
    return f", {examples[name]:,} examples" if name in examples else ""


def _list(values: Mapping[str, Any]) -> str:
    return "\n".join(f"- {name}: {value}" for name, value in values.items())


def _score_table(summary: RunSummary) -> str:
    columns, rows = terminal.score_table(summary.metrics, summary.baseline_scores, source="dev")
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
