"""Load the model of a run."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, cast, get_args

from seqloom.data.readers.text_files import UnopenedFile
from seqloom.decoding.frames.frame_search import FrameSearch
from seqloom.decoding.searches import parse_search
from seqloom.decoding.tokens.search import Search
from seqloom.formats import describe_type
from seqloom.layers.quantization import round_weights, use_int8
from seqloom.model.model import Model, Precision
from seqloom.models.baseline import load_baseline
from seqloom.models.encoder import LayerFactory
from seqloom.models.transcription.search_guide import LanguageModelConfig, parse_language_model
from seqloom.run import Name, Run, RunError
from seqloom.run_config import load_config
from seqloom.tasks.task import PredictionOptions, Task


def load(
    path: str | Path | Run,
    *,
    layer: LayerFactory | None = None,  # the custom layer that the run was trained with
    checkpoint: Name = "best",
    ensemble: Sequence[str | Path] = (),  # more runs of the same task and vocabulary, which predict together
    search: str | Search | FrameSearch = "",  # such as "beam size=5 nbest=3"
    constrain: str = "",  # file with the allowed outputs
    lexicon: str = "",  # file with the words allowed in a transcript or translation
    lm: str | LanguageModelConfig = "",  # language model of the output, such as "words.arpa weight=0.8"
    folder: str = "",  # folder or archive of the recordings or images that a list names
    captions: str = "",  # file with the captions of the images
    precision: Precision | Literal[""] = "",  # of weights and products; empty: as the run is stored
    own_files: bool = False,  # open the files that the configuration names; only for a run that you have trained
) -> Model:
    """The model of a run, by its best or its last checkpoint; options replace what the configuration says.

    A run may come from someone else, so that files which its configuration names have to be named again.
    """
    if not isinstance(path, str | Path | Run):
        raise TypeError(f"expected a run or its path, found {describe_type(path)}")
    if precision not in ("", *get_args(Precision)):
        raise ValueError(f'precision: expected "float32" or "int8", got {precision!r}')
    run = path if isinstance(path, Run) else Run.open(path)
    config = load_config(run, layer=layer)
    if search and isinstance(search, str):
        search = parse_search(search)
    if lm and isinstance(lm, str):
        lm = parse_language_model(lm)
    options = _non_empty(search=search, constrain=constrain, lexicon=lexicon, lm=lm, folder=folder, captions=captions)
    config = config._replace(task=config.task.with_options(**cast(PredictionOptions, options)))
    if not own_files:
        config = config._replace(task=_with_unopened_files(config.task, options, run))
    task = config.task if search else config.task.for_prediction()
    snapshot = run.load_best() if checkpoint == "best" else run.load(checkpoint)
    module = config.task.load_model(snapshot.model, run.path)
    if not precision:
        precision = "int8" if snapshot.facts.get("precision") == "int8" else "float32"
    if precision == "int8":
        try:
            round_weights(module)
        except ValueError as error:
            raise RunError(f"{run.path}: {error}") from error
        use_int8(module)
    recorded = run.environment.get("data")
    facts: dict[str, Any] = {
        "baseline": load_baseline(run),
        "task": task,
        "name": run.name,
        "trained_on": recorded if isinstance(recorded, dict) else None,
        "precision": precision,
    }
    if not ensemble:
        return Model(config, module, **facts)
    # Of the others, only the modules are used, which open no files.
    others = [
        load(
            other,
            layer=layer,
            checkpoint=checkpoint,
            precision=_member_precision(other, layer, precision),
            own_files=True,
        )
        for other in ensemble
    ]
    for name, other in zip(ensemble, others, strict=True):
        if conflict := config.task.ensemble_conflict(other.task):
            raise ValueError(f"{run.path} and {name} cannot form an ensemble: they {conflict}")
    together = config.task.ensemble([module, *(other.module for other in others)])
    return Model(config, together, **facts)


def _member_precision(path: str | Path, layer: LayerFactory | None, precision: Precision) -> Precision:
    """That of the ensemble, but for counts, which have no weights to round."""
    if precision == "int8" and load_config(Run.open(path), layer=layer).task.is_counting_model:
        return "float32"
    return precision


def _with_unopened_files(task: Task, options: Mapping[str, Any], run: Run) -> Task:
    """The task, with files that are not opened unless the user names them again; RunError for those it cannot spare."""
    for option, field in task.prediction_files.items():
        name, given = getattr(task, field), options.get(option)
        if isinstance(name, LanguageModelConfig):
            name, given = name.model, isinstance(given, LanguageModelConfig) and given.model
        if name and not given:
            unopened = UnopenedFile(name, run=run.path, key=f"task.{field}", option=option)
            raise RunError(f"{run.path}: {unopened.reason}")
    return with_unopened_data(task, options, run)


def with_unopened_data(task: Task, options: Mapping[str, Any], run: Run) -> Task:
    """The task, with files and folders of its data that are not opened unless the user names them again."""
    places = {field: option for option, field in task.data_files.items() if option not in options}
    changes = {
        field: UnopenedFile(name, run=run.path, key=f"task.{field}", option=option)
        for field, option in places.items()
        if (name := getattr(task, field))
    }
    return task.model_copy(update=changes)


def _non_empty(**options: Any) -> dict[str, Any]:
    """The options that are not empty."""
    return {name: value for name, value in options.items() if value}
